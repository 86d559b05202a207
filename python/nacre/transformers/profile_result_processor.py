"""Tables of a profile's file: what nodes and operators took.

    python -m nacre.transformers.profile_result_processor --input PROFILE.json
"""
from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional

Records = List[Dict[str, Any]]
_HOLD_OTHERS = ("Scan", "Loop", "If")  # their time is that of the nodes inside
_LINE = "-" * 64


def parse_arguments(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Prints what the nodes of a profile took.")
    parser.add_argument("-i", "--input", help="the profile's file")
    add_table_arguments(parser)
    return parser.parse_args(argv)


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threshold", type=float, default=0.01, help="the least part of the time that is listed")
    parser.add_argument("--provider", default="cuda")
    parser.add_argument("--kernel_time_only", action="store_true", help="without the time of fences")
    parser.add_argument("-v", "--verbose", action="store_true")


def load_profile_json(profile_file: str) -> Records:
    with open(profile_file, encoding="utf-8") as file:
        read = json.load(file)
    if not isinstance(read, list):
        raise ValueError(f"{profile_file} holds {type(read).__name__}, expected the list of events that a profile is")
    return read


def _timed(records: Records, category: str) -> Iterator[Dict[str, Any]]:
    for r in records:
        if r["cat"] == category and "dur" in r and "op_name" in r.get("args", {}) and \
                r["args"]["op_name"] not in _HOLD_OTHERS:
            yield r


def _by_time(times: Counter) -> List[Any]:
    return sorted(times.items(), key=lambda row: row[1], reverse=True)


def parse_kernel_results(sess_time: Records, threshold: float = 0) -> List[str]:
    """Kernels of a GPU since the session was ready, and the same by operator."""
    begin = next((i for i, r in enumerate(sess_time) if (r["cat"], r["name"]) == ("Session", "session_initialization")),
                 len(sess_time))
    times, calls, ops, of = Counter(), Counter(), Counter(), {}  # type: Any
    for r in _timed(sess_time[begin:], "Kernel"):
        times[r["name"]] += r["dur"]
        calls[r["name"]] += 1
        ops[of.setdefault(r["name"], r["args"]["op_name"] or f"({r['name']})")] += r["dur"]
    if not times:
        return ["No kernel record found!"]
    total = sum(times.values())
    lines = [f"\nTop expensive kernels with Time% >= {threshold * 100:.2f}:", _LINE,
             "Total(μs)\tTime%\tCalls\tAvg(μs)\tKernel"]
    lines += [f"{t:10d}\t{100 * t / total:5.2f}\t{calls[n]:5d}\t{t / calls[n]:8.1f}\t{n}" for n, t in _by_time(times)
              if t / total >= threshold]
    lines += ["\nGroup kernel time by operator:", _LINE, "Total(μs)\tTime%\tOperator"]
    return lines + [f"{t:10d}\t{100 * t / total:5.2f}\t{op}" for op, t in _by_time(ops)]


def parse_node_results(sess_time: Records, kernel_time_only: bool = False, threshold: float = 0) -> List[str]:
    """Nodes in the order in which they ran first, and those that took most."""
    times, calls = Counter(), Counter()  # type: Any
    providers: Dict[str, str] = {}
    for r in _timed(sess_time, "Node"):
        name = r["name"]
        for end in ("_kernel_time", "_fence_before", "_fence_after"):
            name = name.replace(end, "")
        if "provider" in r["args"]:
            short = r["args"]["provider"].replace("ExecutionProvider", "")
            providers.setdefault(name, {"Dml": "DML"}.get(short, short))
        elif kernel_time_only:
            continue
        times[name] += r["dur"]
        calls[name] += 1
    total, before = sum(times.values()) or 1, 0.0
    lines = ["\nNodes in the original order:", _LINE, "Total(μs)\tTime%\tAcc %\tAvg(μs)\tCalls\tProvider\tNode"]
    for name, t in times.items():
        before += 100 * t / total
        lines.append(f"{t:10d}\t{100 * t / total:5.2f}\t{before:5.2f}\t{t / calls[name]:8.1f}\t{calls[name]:5d}\t"
                     f"{providers.get(name, ''):8s}\t{name}")
    lines += [f"\nTop expensive nodes with Time% >= {threshold * 100:.2f}:", _LINE,
              "Total(μs)\tTime%\tAvg(μs)\tCalls\tProvider\tNode"]
    for n, t in _by_time(times):
        if t / total >= threshold:
            lines.append(f"{t:10d}\t{100 * t / total:5.2f}\t{t / calls[n]:8.1f}\t{calls[n]:5d}\t"
                         f"{providers.get(n, ''):8s}\t{n}")
    return lines


def group_node_results(sess_time: Records) -> List[str]:
    """By operator, and by provider and operator."""
    times, calls, fences, each, each_calls, of_provider = (Counter() for _ in range(6))  # type: Any
    for r in _timed(sess_time, "Node"):
        op, provider = r["args"]["op_name"], r["args"].get("provider")
        if provider is None:
            fences[op] += r["dur"] if "fence" in r["name"] else 0
            continue
        for counter, key in ((times, op), (each, (provider, op)), (of_provider, provider)):
            counter[key] += r["dur"]
        calls[op] += 1
        each_calls[provider, op] += 1
    kernels, whole = sum(times.values()) or 1, sum(times.values()) + sum(fences.values()) or 1
    lines = ["", "Grouped by operator", _LINE,
             "Total(μs)\tTime%\tKernel(μs)\tKernel%\tCalls\tAvgKernel(μs)\tFence(μs)\tOperator"]
    for op, t in _by_time(times):
        lines.append(f"{t + fences[op]:10d}\t{100 * (t + fences[op]) / whole:5.2f}\t{t:11d}\t{100 * t / kernels:5.2f}\t"
                     f"{calls[op]:5d}\t{t / calls[op]:14.1f}\t{fences[op]:10d}\t{op}")
    lines += ["", "Grouped by provider + operator", _LINE,
              "Kernel(μs)\tProvider%\tCalls\tAvgKernel(μs)\tProvider\tOperator"]
    for (provider, op), t in _by_time(each):
        count = each_calls[provider, op]
        lines.append(f"{t:10d}\t{100 * t / (of_provider[provider] or 1):9.2f}\t{count:5d}\t{t / count:14.1f}\t"
                     f"{provider.replace('ExecutionProvider', ''):8s}\t{op}")
    return lines


def process_results(profile_file: str, args: argparse.Namespace) -> List[str]:
    records = load_profile_json(profile_file)
    return (parse_kernel_results(records, args.threshold) +
            parse_node_results(records, args.kernel_time_only, args.threshold) + group_node_results(records))


if __name__ == "__main__":
    arguments = parse_arguments()
    print("\n".join(process_results(arguments.input, arguments)))
