"""The guard that holds BLAS to one thread: threads that overlap, failures, forks."""

import os
import threading

import pytest

import lim2
from lim2._blas import OneThread, one_thread


def test_the_guard_counts_threads_that_overlap() -> None:
    counts = {"threads": 2}
    guard = OneThread()
    guard._switches = [(lambda: counts["threads"], lambda n: counts.update(threads=n))]
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with guard:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with guard:
        thread.start()
        inside.wait()
    assert counts["threads"] == 1  # the other thread is still inside
    leave.set()
    thread.join()
    assert counts["threads"] == 2


def test_the_guard_is_not_left_on_when_entering_fails() -> None:
    guard = OneThread()

    def fail() -> int:
        raise RuntimeError("interrupted")

    counts = {"threads": 2}
    guard._switches = [(fail, lambda n: None)]
    with pytest.raises(RuntimeError), guard:
        pass
    guard._switches = [(lambda: counts["threads"], lambda n: counts.update(threads=n))]
    with guard:
        assert counts["threads"] == 1
    assert counts["threads"] == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_another_thread_is_inside() -> None:
    """The lock may be held, and the count is above 0, by threads that the child does not have."""
    agent = lim2.LinearTS(2, 3, seed=0)
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread, one_thread._lock:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        agent.update([1.0, 2.0, 3.0], 0, 1.0)
        os._exit(0 if one_thread._inside == 0 else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
