"""An exception while the thread of a group is started, such as KeyboardInterrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from helpers.waiting import PATIENCE

from lim2.log import group_commit
from lim2.log.group_commit import GroupCommit, Request

pytestmark = pytest.mark.one_store


class InterruptError(BaseException):
    """What comes in between."""


def write(requests: list[Request], meanwhile: Callable[[], list[Request]]) -> None:
    requests.extend(meanwhile())
    for request in requests:
        request.result = request.work(None)


def test_an_interrupted_start_leaves_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    group, start, started = GroupCommit(write, RuntimeError), threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 1:
            raise InterruptError

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(group_commit, "IDLE_SECONDS", 60.0)  # nobody ends for lack of work
    with pytest.raises(InterruptError):
        group.wait_for(lambda _: 1)
    done = [group.wait_for(lambda _: number) for number in range(3)]  # noqa: B023
    others = [thread for thread in started if thread is not group._thread]
    for thread in others:
        thread.join(PATIENCE)  # it finds that it is one too many, and ends
    left = [thread for thread in others if thread.is_alive()]
    group.end()
    assert done == [0, 1, 2]
    assert not left
