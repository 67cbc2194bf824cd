"""What the process sees: signals, forks, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import boxwork as bw
import numpy as np
import pytest
from conftest import picture, run_python, write_png

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def resident_bytes() -> int:
    """Memory of the process that is in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads_and_files() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def check_threads_and_files(before: tuple[int, int]) -> None:
    """No more files than before, and at most a few more of the engine's threads, which are kept and reused."""
    threads, files = threads_and_files()
    assert threads <= before[0] + 4 and files <= before[1]


def interrupted(work: Callable[[], object], is_under_way: Callable[[], bool]) -> float:
    """The seconds from an interrupt to the end of the work, which would take minutes, or never end."""
    sent = 0.0

    def interrupt() -> None:
        nonlocal sent
        while not is_under_way():
            os.sched_yield()
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        work()
    ended = time.monotonic()
    thread.join()
    return ended - sent


def test_an_interrupted_extraction_is_continued_by_the_same_call(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for seed in range(120):
        write_png(folder / f"{seed:03}.png", picture(seed, 96))
    out, partial = tmp_path / "out.arrow", tmp_path / "out.arrow.partial"

    def extract(name: str) -> bw.Store:
        return bw.extract(folder, tmp_path / name, points=6000, device="cpu")

    whole = extract("whole.arrow")

    def has_begun() -> bool:
        # The settings, and a chunk of pictures.
        return partial.exists() and partial.stat().st_size > 4096

    interrupted(lambda: extract("out.arrow"), has_begun)
    assert partial.exists() and not out.exists()
    kept = partial.stat().st_size
    # Another call goes elsewhere, and leaves it alone.
    other = bw.extract(folder, tmp_path / "other.arrow", points=500, device="cpu")
    assert len(other) == 120 and partial.stat().st_size == kept
    # What was done is not done again: the first picture cannot be read any more, and looks as it did.
    first = folder / "000.png"
    before = first.stat()
    first.write_bytes(b"x" * before.st_size)
    os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
    made = extract("out.arrow")
    assert len(made) == 120
    # A thread of the engine removes it, with the last of what the call has used.
    for _ in range(10_000):
        if not partial.exists():
            break
        time.sleep(0.001)
    assert not partial.exists()
    assert out.read_bytes() == (tmp_path / "whole.arrow").read_bytes()
    assert made.fingerprint == whole.fingerprint


@LINUX
def test_an_interrupt_ends_a_call_and_nothing_else() -> None:
    vectors = bw.Vectors(np.random.default_rng(1).normal(size=(4000, 2048)).astype(np.float32))
    many = range(4000)
    vectors.search(5, k=1)
    # One thread is of the test, and one more is of a call: it does what is interrupted.
    threads = len(os.listdir("/proc/self/task")) + 1

    def computes() -> bool:
        return len(os.listdir("/proc/self/task")) > threads

    latencies = [interrupted(lambda: vectors.distances(many), computes)]
    latencies.append(interrupted(lambda: vectors.search(list(many) * 15, k=3), computes))
    begun = threading.Event()

    @bw.box("count_for_ever", input=None, output={"n": "uint64"})
    class CountForEver:
        """Gives numbers, and never ends by itself."""

        def finish(self) -> Iterator[dict[str, list[int]]]:
            while True:
                yield {"n": [1]}

    @bw.box("forget", input={"n": "uint64"})
    def forget(rows: bw.Rows) -> None:
        begun.set()

    text = "boxwork: 1\nboxes:\n  count: {kind: count_for_ever}\n  sink: {kind: forget}\nedges: [count -> sink]\n"
    latencies.append(interrupted(lambda: bw.Pipeline(text).run(), begun.is_set))
    # For a reader (`pytest -s`): how soon depends on what else the machine does.
    print(f"interrupts are heard after {[round(latency * 1000) for latency in latencies]} ms")
    assert vectors.search(5, k=1).ids.tolist() == [5]


def test_a_fork_raises_at_first_use(store_path: Path) -> None:
    text = """
import os, sys, warnings
warnings.simplefilter("ignore")
import boxwork as bw
store = bw.Store.open(sys.argv[1])
store.search(0, k=1)
child = os.fork()
if child == 0:
    status = 1
    try:
        store.search(0, k=1)
    except bw.Error as error:
        status = 0 if "forked" in str(error) else 2
    for call in (lambda: bw.Store.open(sys.argv[1]), lambda: bw.Pipeline("search"), lambda: bw.check("search")):
        try:
            call()
            status = 3
        except bw.Error:
            pass
    # An orderly exit: nothing waits for threads that are not there.
    sys.exit(status)
_, code = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(code) == 0, code
assert len(store.search(0, k=1)) == 1
"""
    done = run_python(text, store_path)
    assert done.returncode == 0, done.stderr


def test_spawned_processes_work(store_path: Path, tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        """
import multiprocessing, sys
import boxwork as bw

def search(query):
    return bw.Store.open(sys.argv[1]).search(query, k=2).ids.tolist()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert [found[0] for found in pool.map(search, [3, 4])] == [3, 4]
"""
    )
    call = [sys.executable, str(script), str(store_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_no_handler_is_installed(store_path: Path) -> None:
    text = """
import signal, sys
import boxwork as bw
handled = lambda: [int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith("SigCgt")][0]
bw.configure(devices=False)
before = handled()
bw.Store.open(sys.argv[1]).search(0, k=3)
assert handled() == before
assert not any(sys.argv[1] in line for line in open("/proc/self/maps"))
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    done = run_python(text, store_path)
    assert done.returncode == 0, done.stderr


@LINUX
def test_ten_thousand_searches_leave_nothing_behind(store: bw.Store) -> None:
    vectors = bw.Vectors(np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32))
    query = np.zeros(4, dtype=np.float32)

    def some(count: int) -> None:
        for turn in range(count):
            vectors.search(query if turn % 2 else turn % 100, k=3)

    some(1000)
    before, threads = resident_bytes(), threads_and_files()
    some(10_000)
    assert resident_bytes() - before < 8 << 20
    check_threads_and_files(threads)


@LINUX
def test_stores_that_are_closed_leave_nothing_behind(store_path: Path) -> None:
    def some(count: int) -> None:
        for _ in range(count):
            bw.Store.open(store_path).search(0, k=1)

    some(20)
    before, threads = resident_bytes(), threads_and_files()
    some(300)
    assert resident_bytes() - before < 8 << 20
    check_threads_and_files(threads)


def test_settings_come_before_the_first_use() -> None:
    assert bw.workers() == 2
    with pytest.raises(bw.Error, match="runs already"):
        bw.configure(workers=3)
    done = run_python("import boxwork as bw; bw.configure(workers=1); assert bw.workers() == 1")
    assert done.returncode == 0, done.stderr
