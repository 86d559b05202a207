"""The cores that this process may run on: remembered, and set again when a library has changed them."""
from __future__ import annotations

import logging
import os
from typing import Optional, Set

logger = logging.getLogger(__name__)


class AffinitySetting:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.affinity: Optional[Set[int]] = None
        self.is_os_supported = hasattr(os, "sched_getaffinity") and hasattr(os, "sched_setaffinity")

    def get_affinity(self) -> None:
        """Remembers them, where the system tells."""
        if self.is_os_supported:
            self.affinity = os.sched_getaffinity(self.pid)

    def set_affinity(self) -> None:
        """Sets what was remembered."""
        if self.is_os_supported and self.affinity is not None and self.affinity != os.sched_getaffinity(self.pid):
            logger.warning("this process may run on cores %s again", sorted(self.affinity))
            os.sched_setaffinity(self.pid, self.affinity)
