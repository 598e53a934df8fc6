"""An exception while the thread of a group is started, such as KeyboardInterrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lim2.log.sqlite.group import Group, Request


class InterruptError(BaseException):
    """What comes in between."""


def write(requests: list[Request], meanwhile: Callable[[], list[Request]]) -> None:
    requests.extend(meanwhile())
    for request in requests:
        request.result = request.work(None)


def test_an_interrupted_start_lets_nobody_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    group, start, started = Group(write, RuntimeError("closed")), threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 1:
            raise InterruptError

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(InterruptError):
        group.wait_for(lambda _: 1)
    done = [group.wait_for(lambda _: number) for number in range(3)]  # noqa: B023
    group.end()
    for thread in started:
        thread.join()
    assert done == [0, 1, 2]
