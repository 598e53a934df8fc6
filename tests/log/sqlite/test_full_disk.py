"""A disk that is full when a group is to be committed."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from log.test_group_commit import held
from log.world import contexts, make_agent, make_log


class FullDisk:
    """A connection that cannot commit."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.full = connection, False

    def execute(self, query: str, *values: Any) -> Any:
        if self.full and query == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")
        return self.connection.execute(query, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def test_a_failed_commit_fails_for_all(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        ids = [log.decide(agent, x).id for x in contexts(4)]
        tables = log.store._current().writing.tables  # type: ignore[attr-defined]
        disk = tables.connection = FullDisk(tables.connection)

        def fill(_: Any) -> None:  # the first of them to be done: the disk is full from then on
            disk.full = True

        outcomes = held(log, [partial(log.store.write, fill), *(partial(log.reward, id, 1.0) for id in ids)])
        assert all("disk is full" in str(outcome) for outcome in outcomes)
        assert not tables.connection.in_transaction
        assert [log.get(id).status for id in ids] == ["pending"] * 4
        disk.full = False
        assert log.reward(ids[0], 1.0) == "recorded"
