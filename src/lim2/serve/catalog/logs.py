"""Logs and models with the settings of a bandit's description."""

from pathlib import Path

from lim2.bandit import Bandit
from lim2.loading import from_bytes
from lim2.log import DecisionLog
from lim2.serve import spec as specs
from lim2.serve.catalog.base import Catalog, StaleError
from lim2.serve.spec import START, Stored


def new_log(address: Path | str, stored: Stored, synchronous: str) -> DecisionLog:
    """Return a new log."""
    own = stored.spec
    return DecisionLog(
        address,
        expire_after=own.expire_after,
        default_reward=own.default_reward,
        aggregate=own.aggregate,
        keep=None,  # who learns deletes what is too old
        synchronous=synchronous,
    )


def first_model(name: str, catalog: Catalog, stored: Stored, log: DecisionLog) -> tuple[Bandit, int]:
    """Return the bandit with which a revision begins, and the position of the log after which it learns."""
    bandit = specs.made(stored.spec) if stored.start_file is None else _uploaded(name, catalog, stored.start_file)
    position = max(stored.start, log.state.pruned)
    for key in ("log_id", "log_position", "log_event"):
        bandit.metadata.pop(key, None)
    bandit.metadata.update(log_id=log.id, log_position=position, revision=stored.revision)
    return bandit, position


def _uploaded(name: str, catalog: Catalog, id: str) -> Bandit:
    content = catalog.documents(name, START).get(id)
    if content is None:
        if catalog.read(name).start_file != id:
            raise StaleError(f"the bandit {name!r} was changed meanwhile")
        raise LookupError(f"the model {id!r}, from which the bandit {name!r} starts, is not in {catalog.name}")
    bandit: Bandit = from_bytes(content)
    return bandit
