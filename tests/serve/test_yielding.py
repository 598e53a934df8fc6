"""Work that gives way to requests, while there is time for it."""

import os
import threading
from pathlib import Path

import pytest

from lim2.serve import yielding
from lim2.serve.yielding import Yielding, idle_seconds

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has threads that give way")


def where() -> tuple[bool, bool]:
    """Return whether work is done in another thread, and whether that gives way."""
    own = os.sched_getscheduler(0)
    return threading.current_thread() is not threading.main_thread(), own == os.SCHED_IDLE


@pytest.mark.parametrize(("idle", "gives_way"), [(1.0, True), (0.3, True), (0.1, False), (0.0, False)])
def test_work_gives_way_only_if_a_processor_was_idle(
    idle: float, gives_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(yielding, "idle_seconds", lambda: idle * clock[0])
    work = Yielding()
    for _ in range(3):
        clock[0] += 0.1
        assert work.run(where) == (gives_way, gives_way)
    assert os.sched_getscheduler(0) != os.SCHED_IDLE


def test_an_error_is_that_of_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise LookupError("nothing there")

    for spare in (0.0, 1.0):
        monkeypatch.setattr(Yielding, "_spare", lambda _, spare=spare: spare)
        with pytest.raises(LookupError, match="nothing there"):
            Yielding().run(wrong)


def test_where_nobody_knows_work_is_done_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle_seconds() is not None
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    for content in ("", "cpu0 1 2", "cpu0 a b c d e", "cpu7 1 2 3 4", "cpu 1 2 3 4\nintr 5 6 7 8\ncpu0 1 2 3 4"):
        (tmp_path / "stat").write_text(content)
        monkeypatch.setattr(yielding, "STAT", tmp_path / "stat")
        assert idle_seconds() is None
    assert Yielding().run(where) == (False, False)


def test_only_processors_that_the_process_may_use_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"cpu{number} 9 9 9 {10**number * os.sysconf('SC_CLK_TCK')}" for number in range(4)]
    (tmp_path / "stat").write_text("\n".join(["cpu 9 9 9 99999", *rows, "intr 7 7 7 7"]))
    monkeypatch.setattr(yielding, "STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3})
    assert idle_seconds() == 1010.0


def test_where_it_is_forbidden_the_thread_is_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("not in this container")

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    monkeypatch.setattr(Yielding, "_spare", lambda _: 1.0)
    assert Yielding().run(where) == (True, False)
