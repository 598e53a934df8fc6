"""A log that is closed or deleted while it is in use: an error of its own kind says so, nothing is acknowledged."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log import world
from log.world import N_FEATURES, make_agent, make_log

from lim2.log import DecisionLog
from lim2.log.errors import GoneLogError

X = np.ones(N_FEATURES)


def delete(log: DecisionLog) -> None:
    if world.used[0] == "sqlite":
        Path(log.store.name).unlink()
        return
    from lim2.log.postgres.connections import connect
    from lim2.log.postgres.removing import remove_log

    store: Any = log.store
    with connect(store.address) as connection:
        remove_log(connection, store.address.log)


def calls(log: DecisionLog, id: str) -> list[Callable[[], Any]]:
    agent = make_agent()
    return [
        lambda: log.decide(agent, X),
        lambda: log.decide(agent, X, id="named"),
        lambda: log.reward(id, 1.0),
        lambda: log.get(id),
        lambda: log.state,
        lambda: log.model(),
    ]


def test_nothing_is_written_to_a_deleted_log(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        id = log.decide(make_agent(), X).id
        delete(log)
        for call in calls(log, id)[:5]:
            with pytest.raises(GoneLogError, match="was deleted"):
                call()


def test_a_closed_log_is_gone(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    id = log.decide(make_agent(), X).id
    log.close()
    for call in calls(log, id):
        with pytest.raises(GoneLogError, match="has been closed"):
            call()


@pytest.mark.one_store
def test_a_log_that_is_closed_while_a_thread_waits_for_it_is_gone(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    store: Any = log.store
    handle = store._current()
    raised: list[BaseException] = []

    def look() -> None:
        try:
            log.model()
        except BaseException as error:  # noqa: BLE001 (what it is, is what the test asks)
            raised.append(error)

    current = store._current
    waits = threading.Event()

    def found() -> Any:
        waits.set()
        return current()

    store._current = found
    with handle.reading.lock:  # whoever reads waits here
        thread = threading.Thread(target=look)
        thread.start()
        waits.wait()
        closing = threading.Thread(target=log.close)
        closing.start()
        while store._handle is not None:
            pass
    thread.join()
    closing.join()
    assert [type(error) for error in raised] == [GoneLogError]
