"""An exception while the thread of a group is started, such as KeyboardInterrupt."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from lim2.log.sqlite import group as groups
from lim2.log.sqlite.group import Group, Request


class InterruptError(BaseException):
    """What comes in between."""


def write(requests: Sequence[Request]) -> None:
    for request in requests:
        request.result = request.work(None)


@pytest.mark.xfail(
    strict=True,
    reason="Group._add forgets a thread whose start is interrupted, and starts a second one. Both take work of one "
    "queue: _next can wait forever in get(), holding the lock, for what the other one has taken after empty().",
)
def test_an_interrupted_start_leaves_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    group, start, started = Group(write, RuntimeError("closed")), threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 1:
            raise InterruptError

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(groups, "LINGER", 60.0)  # nobody ends for lack of work
    with pytest.raises(InterruptError):
        group.wait_for(lambda _: 1)
    done = [group.wait_for(lambda _: number) for number in range(3)]  # noqa: B023
    others = [thread for thread in started if thread is not group._thread]
    for thread in others:
        thread.join(timeout=5.0)  # it finds that it is one too many, and ends
    left = [thread for thread in others if thread.is_alive()]
    group.end()
    assert done == [0, 1, 2]
    assert not left
