"""Profiling as scripts of onnxruntime expect it: a file of Chrome trace events, in categories Session and Node.

The library measures each instruction; here its trace becomes onnxruntime's list, with times from the session's start.
"""
from __future__ import annotations

import json
import os
import threading
import time
import weakref
from typing import Any, Dict, List, Optional

from nacre import _core
from nacre._files import write


class Profile:
    """What one session was seen doing. Written when end() is called, or when the session goes."""

    def __init__(self, prefix: str, provider: str) -> None:
        self.start_ns = time.monotonic_ns()
        now = time.time()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(now))
        self.path = f"{prefix}_{stamp}_{int(now * 1000) % 1000:03d}.json"
        self._provider = provider
        self._lock = threading.Lock()
        self._events: List[Dict[str, Any]] = []
        self._session: Optional[_core.Session] = None
        self._done = False

    def add(self, name: str, begin_ns: int) -> None:
        """A piece of the session's work that began then and ends now."""
        event = {"cat": "Session", "pid": os.getpid(), "tid": threading.get_native_id(),
                 "dur": (time.monotonic_ns() - begin_ns) // 1000, "ts": (begin_ns - self.start_ns) // 1000, "ph": "X",
                 "name": name, "args": {}}
        with self._lock:
            if not self._done:
                self._events.append(event)

    def watch(self, owner: Any, session: _core.Session) -> None:
        """From now on; the file is written at the latest when owner goes."""
        self._session = session
        weakref.finalize(owner, self.end)

    def _nodes(self, session: _core.Session) -> List[Dict[str, Any]]:
        trace = json.loads(session.profile())
        origin = trace["otherData"]["origin_ns"] - self.start_ns
        rows = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        index: Dict[str, int] = {}
        return [{"cat": "Node", "pid": os.getpid(), "tid": e["tid"], "dur": round(e["dur"]),
                 "ts": round(e["ts"] + origin / 1000), "ph": "X", "name": e["args"]["node"] + "_kernel_time",
                 "args": {"op_name": e["name"], "provider": self._provider, "bytes": str(e["args"]["bytes"]),
                          "node_index": str(index.setdefault(e["args"]["node"], len(index)))}} for e in rows]

    def end(self) -> str:
        """Writes the file and gives its name; empty when it was written before."""
        with self._lock:
            if self._done or self._session is None:
                return ""
            self._done, session, self._session = True, self._session, None
            events = sorted(self._events + self._nodes(session), key=lambda e: e["ts"])
        write(self.path, "[\n" + ",\n".join(json.dumps(e) for e in events) + "\n]\n")
        return self.path
