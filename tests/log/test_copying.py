"""A log is copied whole, from any store into any other, and an agent goes on with the copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from log import world
from log.world import N_FEATURES, learned, live, make_agent, make_log
from typer.testing import CliRunner

import lim2
from lim2.cli import program
from lim2.log import LogError
from lim2.log.copying import compare, copy
from lim2.log.store import Store, open_store

X = np.ones(N_FEATURES)
CLOCK = Clock(100.0)


def full_log(folder: Path) -> tuple[lim2.DecisionLog, Any]:
    """Return a log with everything in it, and who has learned from it."""
    agent, clock = lim2.AdaptiveTS(arms=world.ARMS, n_features=N_FEATURES, hidden=4, buffer=60, seed=7), Clock(0.0)
    log = make_log(folder, expire_after=100, default_reward=-1.0, aggregate="sum", clock=clock, keep=None)
    ids = [log.decide(agent, x, key="ann" if n % 7 == 0 else None).id for n, x in enumerate(world.contexts(40))]
    log.record_slate([agent.decide(X)], X, id="slate")
    for id in ids[:30]:
        log.reward(id, 1.0, name="click")
        log.reward(id, 0.5)
    log.discard(ids[39])
    clock.now = 100.0
    log.apply(agent, batch="auto")
    log.add_arm(agent, "d", like="a", batch="auto")
    log.reward(ids[0], 9.0)  # late
    log.publish(agent)
    log.erase("ann")
    log.decide(agent, X, metadata={"waits": True}, active=False, id="waits")
    log.reward("waits", 2.0)
    return log, agent


def pruned_log(folder: Path) -> tuple[lim2.DecisionLog, Any]:
    agent, clock = make_agent(), Clock(0.0)
    log = make_log(folder, clock=clock, keep=timedelta(seconds=10))
    live(log, agent, 30)
    log.remove_arm(agent, "c")
    clock.now = 100.0
    live(log, agent, 5, seed=1)
    assert log.state.pruned == 31
    return log, agent


def content(store: Store, other: Store) -> str | None:
    with store.copying() as one, other.copying() as two:
        return compare(one, two)


@pytest.mark.parametrize("target", world.STORES)
@pytest.mark.parametrize("make", [full_log, pruned_log])
def test_a_copy_is_the_same_log(tmp_path: Path, target: str, make: Any) -> None:
    (tmp_path / "copy").mkdir()
    log, agent = make(tmp_path)
    address = world.STORES[target](tmp_path / "copy")
    empty = open_store(address, "normal", False)
    assert content(log.store, empty) is not None
    copy(log.store, empty)
    assert content(log.store, empty) is None
    with pytest.raises(LogError, match="not empty"):
        copy(log.store, empty)
    empty.close()
    with lim2.DecisionLog(address, clock=CLOCK, keep=None) as twin:
        assert (twin.id, twin.settings) == (log.id, log.settings)
        assert twin.state == type(twin.state)(**{**vars(log.state), "nbytes": twin.state.nbytes})
        agents = [agent.clone(), agent.clone()]
        for one, its_log in zip(agents, (log, twin), strict=True):
            its_log.replay(one, allow_partial=True)
        assert learned(agents[0]) == learned(agents[1])
        old, new = log.table(), twin.table()
        assert (old.rewards.tolist(), old.chosen.tolist()) == (new.rewards.tolist(), new.chosen.tolist())
        # It goes on, also with an agent that has learned from the other one.
        model = log.model()
        twin.configure()
        assert twin.reward(twin.decide(agent, X, id="new").id, 1.0) == "recorded"
        assert twin.apply(agent) == 1
        assert twin.publish(agent) == (0 if model is None else model.version) + 1
    log.close()


def test_an_interrupted_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy").mkdir()
    log, _ = full_log(tmp_path)
    empty = open_store(world.address(tmp_path / "copy"), "normal", False)

    class Torn:
        """A content that ends in an error."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def models(self) -> Any:
            yield from self.inner.models()
            raise RuntimeError("the network is gone")

    copying = log.store.copying

    @contextmanager
    def torn() -> Iterator[Any]:
        with copying() as inner:
            yield Torn(inner)

    monkeypatch.setattr(log.store, "copying", torn)
    with pytest.raises(RuntimeError, match="network"):
        copy(log.store, empty)
    monkeypatch.undo()
    with empty.copying() as left:
        assert (left.decisions(0, 10), left.events(0, 10), left.models()) == ([], [], [])
    copy(log.store, empty)
    for store in (empty, log.store):
        store.close()


def test_a_difference_is_found(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    log, _ = full_log(tmp_path)
    twin = open_store(world.address(tmp_path / "copy"), "normal", False)
    copy(log.store, twin)
    log.store.write(lambda tables: tables.relabel(5, "dropped"))
    assert "a decision" in str(content(log.store, twin))
    log.close()
    twin.close()


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(program(), ["log", "copy", *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("target", world.STORES)
def test_the_command_copies_compares_and_replays(tmp_path: Path, target: str) -> None:
    (tmp_path / "copy").mkdir()
    full_log(tmp_path)[0].close()
    source = str(world.address(tmp_path)) if world.used == ["postgres"] else f"sqlite:{world.address(tmp_path)}"
    new = str(world.STORES[target](tmp_path / "copy"))
    code, out = command(source, new)
    assert (code, "pending decisions" in out, "bit for bit" in out) == (0, True, True), out
    code, out = command(source, new)
    assert code == 2
    assert "not empty" in out


def raw(log: lim2.DecisionLog) -> None:
    bandit = lim2.Bandit(seed=0, log=log)
    bandit.reward(bandit.decide({"x": 1}, items={"p": {"y": 1}, "q": {"y": 2}}).id, 1.0)


def arms(log: lim2.DecisionLog) -> None:
    bandit = lim2.Bandit(arms=["a", "b"], seed=0, log=log)
    bandit.reward(bandit.decide({"x": 1}).id, 1.0)


def featured(log: lim2.DecisionLog) -> None:
    bandit = lim2.Bandit(arms={"a": {"price": 1}, "b": {"price": 2}}, seed=0, log=log)
    bandit.reward(bandit.decide({"x": 1}).id, 1.0)
    log.add_arm(bandit, "c", features={"price": 3})
    log.remove_arm(bandit, "a")


def vectors(log: lim2.DecisionLog) -> None:
    agent = lim2.LinearTS(n_features=N_FEATURES, n_item_features=2, seed=0)
    log.reward(log.decide(agent, X, items=np.eye(2)).id, 1.0)


def nothing(log: lim2.DecisionLog) -> None:
    log.configure(expire_after=60)


@pytest.mark.one_store
@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (raw, "1 rewards"),
        (arms, "1 rewards"),
        (featured, "1 rewards"),
        (vectors, "1 rewards"),
        (nothing, "no reward"),
    ],
)
def test_the_command_finds_a_learner_for_every_kind_of_log(tmp_path: Path, fill: Any, says: str) -> None:
    with make_log(tmp_path) as log:
        fill(log)
    code, out = command(str(world.address(tmp_path)), str(tmp_path / "copy.db"))
    assert (code, says in out) == (0, True), out


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, out = command(str(world.address(tmp_path / "nowhere")), str(tmp_path / "copy.db"))
    assert code == 2
    assert "cannot be opened" in out
    assert not (tmp_path / "copy.db").exists()
