"""What can happen to the log's file: deleted, replaced, full, damaged, read-only, locked; and what it knows by itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log.world import N_FEATURES, make_agent, make_log

from lim2.log import LogError

X = np.ones(N_FEATURES)


def delete(path: Path) -> None:
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    delete(path)
    make_log(path.parent).close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files")
@pytest.mark.parametrize("harm", [delete, rename, replace])
def test_a_file_that_is_gone_is_missed_by_the_next_call(tmp_path: Path, harm: Any) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        harm(tmp_path / "decisions.db")
        for call in (lambda: log.reward(id, 1.0), lambda: log.decide(agent, X), lambda: log.apply(agent)):
            with pytest.raises(LogError, match="was deleted, renamed or replaced"):
                call()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files")
def test_nothing_is_acknowledged_into_a_file_that_goes_meanwhile(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        with pytest.raises(LogError, match="was deleted, renamed or replaced"):
            log._store.write(lambda file: (tmp_path / "decisions.db").unlink())
        assert id
