"""The package in a process: threads, the GIL, fork, interrupts in the middle of work, memory over many runs."""
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import tracemalloc

import numpy as np
import package
import pytest

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from tolerances import TOLERANCES  # noqa: E402

X = np.float32([[1, -2, 3], [0, 5, -1]])


def product(n=700, count=6):
    """A chain of matrix products that takes a while."""
    names = ["x", *(f"h{i}" for i in range(count - 1)), "y"]
    nodes = [package.node("MatMul", f"{a} w", b) for a, b in zip(names, names[1:])]
    return package.model(nodes, [package.tensor("x", package.F, [n, n])], [package.tensor("y", package.F, [n, n])],
                         [("w", np.eye(n, dtype=np.float32))])


# ---- threads ----

def test_eight_threads_on_one_session():
    s, wrong = nacre.InferenceSession(package.affine()), []
    start = threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        binding = s.io_binding()
        start.wait()
        for k in range(60):
            x = rng.standard_normal((rng.integers(0, 9), 3)).astype(np.float32)
            want = np.maximum(x @ (np.arange(6, dtype=np.float32).reshape(3, 2) / 5) + np.float32([0.5, -1]), 0)
            if k % 2:
                got, = s.run(["y"], {"x": x})
            else:
                binding.bind_cpu_input("x", x)
                binding.bind_output("y")
                s.run_with_iobinding(binding)
                got, = binding.copy_outputs_to_cpu()
            if got.shape != want.shape or not np.allclose(got, want, *TOLERANCES["ort_f32"]):
                wrong.append((seed, k))
            if k % 10 == 0:
                try:
                    s.run(None, {"x": x[:, :2]})
                    wrong.append((seed, k, "no error"))
                except nacre.InvalidArgument:
                    pass

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not wrong and not any(t.is_alive() for t in threads)


def test_other_threads_count_while_a_run_runs():
    s = nacre.InferenceSession(product())
    x = np.ones((700, 700), np.float32)
    counts, stop, ready = [0], threading.Event(), threading.Event()

    def count():
        ready.set()
        while not stop.is_set():
            counts[0] += 1
            time.sleep(0)

    old = sys.getswitchinterval()
    sys.setswitchinterval(100)  # nobody is made to give the GIL away: only the run itself can let it go
    t = threading.Thread(target=count)
    try:
        t.start()
        ready.wait()
        seen = []
        for _ in range(3):
            before = counts[0]
            s.run(None, {"x": x})
            seen.append(counts[0] - before)
    finally:
        stop.set()
        sys.setswitchinterval(old)
        t.join(60)
    assert min(seen) > 20, seen


def test_callbacks_of_eight_runs():
    s, got, done = nacre.InferenceSession(package.affine()), [], threading.Semaphore(0)

    def callback(results, user_data, error):
        got.append((user_data, error, [r.copy() for r in results]))
        done.release()

    for k in range(8):
        s.run_async(["y"], {"x": X * k if k != 5 else X[:, :2]}, callback, k)
    for _ in range(8):
        assert done.acquire(timeout=60)
    for k, error, results in got:
        assert bool(error) == (k == 5)
        if k != 5:
            np.testing.assert_array_equal(results[0], s.run(["y"], {"x": X * k})[0])


# ---- fork ----

def _child(session, x, queue):
    queue.put([a.tolist() for a in session.run(None, {"x": x})])


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_multiprocessing_with_a_session_made_before():
    s = nacre.InferenceSession(package.affine())
    x = np.ones((5000, 3), np.float32)
    want = [a.tolist() for a in s.run(None, {"x": x})]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_child, args=(s, x, queue)) for _ in range(3)]
    for w in workers:
        w.start()
    results = [queue.get(timeout=60) for _ in workers]
    for w in workers:
        w.join(60)
        assert w.exitcode == 0
    assert all(r == want for r in results)
    assert [a.tolist() for a in s.run(None, {"x": x})] == want


# ---- interrupts ----

def test_ctrl_c_in_the_middle_of_real_work():
    s, x = nacre.InferenceSession(product(900, 40)), np.ones((900, 900), np.float32)
    timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            s.run(None, {"x": x})
    timer.join()
    y, = s.run(None, {"x": x})
    np.testing.assert_array_equal(y, x)


def test_ctrl_c_means_what_the_program_says():
    """Runs stand in front of Python's handler of SIGINT, and not in front of others'."""
    s, x = nacre.InferenceSession(product(900, 40)), np.ones((900, 900), np.float32)
    s.run(None, {"x": x})
    seen = []
    python = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        while not seen:
            y, = s.run(None, {"x": x})
        timer.join()
        np.testing.assert_array_equal(y, x)
    finally:
        signal.signal(signal.SIGINT, python)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            s.run(None, {"x": x})
    timer.join()


# ---- memory ----

def resident():
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def grows(work, rounds, warm=200):
    """Bytes by which the process and Python's own memory grow over the rounds, after some to warm up."""
    for _ in range(warm):
        work()
    tracemalloc.start()
    work()
    before, python = resident(), tracemalloc.get_traced_memory()[0]
    for _ in range(rounds):
        work()
    gc.collect()
    python = tracemalloc.get_traced_memory()[0] - python
    tracemalloc.stop()
    return resident() - before, python


def mistakes(s):
    def work():
        for feeds in ({}, {"q": X}, {"x": X[0]}, {"x": X.astype(np.float64)}, {"x": None}):
            try:
                s.run(None, feeds)
            except (ValueError, nacre.InvalidArgument, nacre.Fail):
                continue
            raise AssertionError(feeds)
        try:
            nacre.InferenceSession(b"garbage")
        except nacre.InvalidProtobuf:
            pass
        try:
            nacre.InferenceSession(package.unknown())
        except nacre.InvalidGraph:
            pass
    return work


def bound(s):
    def work():
        b = s.io_binding()
        b.bind_cpu_input("x", X)
        b.bind_output("y", "cpu")
        s.run_with_iobinding(b)
        b.copy_outputs_to_cpu()
    return work


def lent(s):
    def work():
        v = nacre.OrtValue.ortvalue_from_numpy(X.copy())
        np.from_dlpack(nacre.OrtValue.from_dlpack(v))
        v.__dlpack__()
        there = nacre.OrtValue.ortvalue_from_numpy(X, "guard")
        there.numpy()
    return work


def grown(name, rounds):
    s, value = nacre.InferenceSession(package.affine()), nacre.OrtValue.ortvalue_from_numpy(X)
    work = {"runs": lambda: s.run(None, {"x": X + 0}), "bound": bound(s), "mistakes": mistakes(s), "lent": lent(s),
            "ort_values": lambda: s.run_with_ort_values(None, {"x": value})[0].numpy(),
            "sessions": lambda: nacre.InferenceSession(package.affine()).run(None, {"x": X})}[name]
    return grows(work, rounds, warm=max(rounds // 10, 30))


@pytest.mark.parametrize("name, rounds", [("runs", 10000), ("ort_values", 3000), ("bound", 3000), ("mistakes", 1000),
                                          ("lent", 1000), ("sessions", 300)])
def test_nothing_leaks(name, rounds):
    """In a process of its own: one that has run other tests may grow by what those left behind."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        process, python = pool.apply(grown, (name, rounds))
    assert python < 100_000, f"{python} bytes of Python's over {rounds} rounds"
    assert process < 3_000_000, f"{process} bytes over {rounds} rounds"
