"""The guard that holds BLAS to one thread: threads that overlap, failures, forks."""

import os
import threading
from typing import Any

import pytest
from helpers.waiting import until

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


def test_a_file_is_read_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is checked by decompositions, for which BLAS would take all threads."""
    content, seen = lim2.LinearTS(arms=["a", "b"], n_features=3).to_bytes(), []
    read = lim2.persistence.agents.read

    def watched(*args: Any, **options: Any) -> Any:
        seen.append(threading.get_ident() in one_thread._inside)
        return read(*args, **options)

    monkeypatch.setattr("lim2.persistence.agents.read", watched)
    lim2.from_bytes(content)
    assert seen == [True]


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
        os._exit(0 if one_thread._inside.keys() <= {threading.get_ident()} else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> OneThread:
    """A guard for whose threads a fork waits as long as it takes."""
    monkeypatch.setattr("lim2._blas.PATIENCE", 3600.0)
    return OneThread()


def test_a_fork_waits_until_no_other_thread_computes(guard: OneThread) -> None:
    """A child would inherit OpenBLAS's lock, held by a thread that it does not have."""
    said: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def compute() -> None:
        with guard:
            inside.set()
            leave.wait()
            with guard:  # who is inside does not wait for the fork
                said.append("computed")

    def fork() -> None:
        guard.before_fork()
        said.append("forked")
        guard.after_fork()

    threads = [threading.Thread(target=work, daemon=True) for work in (compute, fork)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    until(lambda: guard._changed._waiters, "a thread that waits")  # type: ignore[attr-defined]
    leave.set()
    for thread in threads:
        thread.join()
    assert said == ["computed", "forked"]


def test_who_begins_to_compute_waits_for_a_fork(guard: OneThread) -> None:
    said: list[str] = []

    def compute() -> None:
        with guard:
            said.append("computed")

    with guard:  # the thread that forks does not wait for itself
        guard.before_fork()
    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    until(lambda: guard._changed._waiters, "a thread that waits")  # type: ignore[attr-defined]
    said.append("forked")
    guard.after_fork()
    thread.join()
    assert said == ["forked", "computed"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_by_a_thread_that_is_inside() -> None:
    def depth() -> int:
        return one_thread._inside.get(threading.get_ident(), 0)

    before = depth()  # not 0 if an exception that another test let come at a bad moment has left this thread inside
    with one_thread:
        child = os.fork()
        if child == 0:
            with one_thread:
                inner = depth()
            os._exit(0 if (inner, depth()) == (before + 2, before + 1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert depth() == before and not one_thread._forks
