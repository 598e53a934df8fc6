"""Copies, snapshots and files of agents that choose among items."""

import copy
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.variants import own_module
from items.shop import NAMES, every_agent, items_of, make, play, played, some_agents, user_of

import lim2

USER, ITEMS = user_of(7), items_of(5, 7)
COPYING: dict[str, Any] = {
    "copy": lambda agent: agent.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda agent: pickle.loads(pickle.dumps(agent)),
}


@every_agent
@pytest.mark.parametrize("copied", COPYING.values(), ids=COPYING.keys())
def test_a_copy_goes_on_as_the_original(variant: str, copied: Any) -> None:
    agent = played(variant, 20)
    agent.metadata["note"] = ["of the user"]
    other = copied(agent)
    before = agent.agent.to_bytes()
    assert other.agent.to_bytes() == before
    assert play(other, 12, seed=1) == play(agent.copy(), 12, seed=1)
    assert agent.agent.to_bytes() == before, "a copy is independent"
    other.metadata["note"].append("another")
    assert agent.metadata == {"note": ["of the user"]}


@every_agent
def test_a_saved_agent_goes_on_bit_for_bit(variant: str, tmp_path: Path) -> None:
    agent = played(variant, 20, epsilon=0.1)
    agent.metadata["note"] = [1, None]
    agent.save(tmp_path / "agent.lim2")
    loaded = lim2.load(tmp_path / "agent.lim2", representation=own_module(variant))
    assert type(loaded) is lim2.ItemAgent
    assert (loaded.n_features, loaded.n_item_features, loaded.name) == (2, 2, agent.name)
    assert loaded.agent.to_bytes() == agent.agent.to_bytes()
    assert play(loaded, 12, seed=1) == play(agent, 12, seed=1)
    assert loaded.agent.to_bytes() == agent.agent.to_bytes()
    assert repr(loaded) == repr(agent)


@every_agent
def test_a_snapshot_stays_as_it_was(variant: str) -> None:
    agent = played(variant, 20)
    snapshot, twin = agent.snapshot(), agent.copy()
    beliefs = snapshot.means(USER, ITEMS), snapshot.variances(USER, ITEMS), snapshot.propensities(USER, ITEMS)
    play(agent, 10, seed=1)
    after = snapshot.means(USER, ITEMS), snapshot.variances(USER, ITEMS), snapshot.propensities(USER, ITEMS)
    assert [part.tobytes() for part in beliefs] == [part.tobytes() for part in after]
    assert snapshot.rounds == 20
    assert not hasattr(snapshot, "update")
    other = twin.snapshot()
    assert [snapshot.act(USER, ITEMS) for _ in range(9)] == [other.act(USER, ITEMS) for _ in range(9)]
    assert play(twin, 10, seed=1) == play(played(variant, 20), 10, seed=1), "it draws from a stream of its own"


@every_agent
def test_a_clone_begins_again(variant: str) -> None:
    agent = played(variant, 10)
    clone = agent.clone()
    assert (clone.rounds, clone.n_item_features) == (0, 2)
    assert clone.get_params() == agent.get_params()
    assert play(clone, 8) == play(make(variant), 8)


@some_agents
def test_reseeding_changes_decisions_only(variant: str) -> None:
    one, two = played(variant, 10, epsilon=1.0), played(variant, 10, epsilon=1.0)
    one.reseed(5)
    two.reseed(6)
    assert one.means(USER, ITEMS).tobytes() == two.means(USER, ITEMS).tobytes()
    first = [one.act(USER, ITEMS) for _ in range(20)]
    assert first != [two.act(USER, ITEMS) for _ in range(20)]
    two.reseed(5)
    assert first == [two.act(USER, ITEMS) for _ in range(20)]


def test_deciding_in_other_threads_while_learning() -> None:
    agent, wrong = make("LinearTS"), []
    agent.update(USER, ITEMS[0], 1.0)
    stop, shared = threading.Event(), [agent.snapshot()]

    def serve() -> None:
        while not stop.is_set():
            snapshot = shared[0]
            decision = snapshot.decide(USER, dict(zip(NAMES, ITEMS, strict=True)))
            if abs(decision.propensities.sum() - 1.0) > 1e-6 or not np.isfinite(decision.means).all():
                wrong.append(decision)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for t in range(150):
        agent.update(user_of(t), items_of(1, t)[0], 1.0)
        shared[0] = agent.snapshot()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    alone = make("LinearTS")
    alone.update(USER, ITEMS[0], 1.0)
    for t in range(150):
        alone.update(user_of(t), items_of(1, t)[0], 1.0)
    assert alone.means(USER, ITEMS).tobytes() == agent.means(USER, ITEMS).tobytes()


def test_what_an_agent_says_of_itself() -> None:
    agent = lim2.LinearTS(n_features=3, n_item_features=2, seed=4)
    assert repr(agent) == "LinearTS(n_features=3, seed=4, n_item_features=2)"
    assert (agent.n_features, agent.n_item_features, agent.name, agent.rounds) == (3, 2, "LinearTS", 0)
    assert agent.get_params()["n_item_features"] == 2
    assert agent.info is None
    assert agent.nbytes > 0
    json.dumps(agent.metadata)
