"""Warm starts: agents of every kind learn a table, or a log's table, all of it or nothing."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.batches import ends_of_batches

import lim2
from lim2.log.table import Table

RNG = np.random.default_rng(0)
N, ARMS = 60, ("red", "green", "blue")
CONTEXTS, PLAYED = RNG.normal(size=(N, 3)), [ARMS[i] for i in RNG.integers(0, 3, N)]
REWARDS, SURE = CONTEXTS[:, 0] + RNG.normal(size=N), np.full(N, 1 / 3)
VECTORS = Table.of(CONTEXTS, PLAYED, REWARDS, SURE, arms=ARMS)
USERS = [{"country": "AT" if x[0] > 0 else "DE", "age": float(x[1])} for x in CONTEXTS]
RAW = Table.of(USERS, PLAYED, REWARDS, SURE, arms=ARMS)
FEATURES = {name: RNG.normal(size=2) for name in ARMS}
ITEMS = Table.of(CONTEXTS, PLAYED, REWARDS, SURE, items=FEATURES)
RAW_ITEMS = Table.of(USERS, PLAYED, REWARDS, SURE, items={name: {"price": float(x[0])} for name, x in FEATURES.items()})


def agent_of(name: str = "AdaptiveTS", **settings: Any) -> lim2.Agent:
    return lim2.AGENTS[name](arms=ARMS, n_features=3, seed=0, **settings)


@pytest.mark.parametrize("name", ["AdaptiveTS", "LinearTS", "LiM2", "Uniform"])
def test_an_agent_learns_a_table_in_its_order(name: str) -> None:
    """In batches where it bears them; otherwise as a replay of the table, bit for bit."""
    agent, other, calls = agent_of(name), agent_of(name), []
    assert VECTORS.replay(agent, "auto", progress=lambda *call: calls.append(call)) == N
    other.update(CONTEXTS, PLAYED, REWARDS, batch="auto")
    assert agent.to_bytes() == other.to_bytes()
    assert agent.metadata == {}
    expected = ends_of_batches(N) if agent.batches else range(1, N + 1)
    assert calls == [(done, N) for done in expected]
    if not agent.batches:
        other = agent_of(name)
        VECTORS.replay(other)
        assert agent.to_bytes() == other.to_bytes()


def test_items_and_raw_tables() -> None:
    items: Any = lim2.LinearTS(n_features=3, n_item_features=2, seed=0)
    other: Any = lim2.LinearTS(n_features=3, n_item_features=2, seed=0)
    assert ITEMS.replay(items, batch=16) == N
    other.update(CONTEXTS, [FEATURES[name] for name in PLAYED], REWARDS, batch=16)
    assert items.agent.to_bytes() == other.agent.to_bytes()

    bandit, same = lim2.Bandit(arms=ARMS, seed=0), lim2.Bandit(arms=ARMS, seed=0)
    assert RAW.replay(bandit, "auto") == bandit.rounds == N
    for start, end in pairwise([0, *ends_of_batches(N)]):
        RAW[start:end].replay(same, batch=256)
    assert bandit.to_bytes() == same.to_bytes()

    catalogue, one = lim2.Bandit(seed=0, algorithm="LinearTS"), lim2.Bandit(seed=0, algorithm="LinearTS")
    assert RAW_ITEMS.replay(catalogue, batch=1) == N
    for row in range(N):
        RAW_ITEMS[row : row + 1].replay(one)
    assert catalogue.to_bytes() == one.to_bytes()


def test_the_table_of_a_log_leaves_no_position(tmp_path: Path) -> None:
    live, agent = agent_of("LinearTS"), agent_of("LinearTS")
    with lim2.DecisionLog(tmp_path / "decisions.db") as log:
        for context, reward in zip(CONTEXTS[:20], REWARDS[:20].tolist(), strict=True):
            log.reward(log.decide(live, context).id, reward)
        assert log.table().replay(agent) == 20
        log.apply(live)
    assert agent.metadata == {}
    assert agent.means(CONTEXTS).tobytes() == live.means(CONTEXTS).tobytes()


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "raw contexts for an agent": (agent_of, RAW, "only a raw context"),
    "vectors for a bandit": (
        lambda: lim2.Bandit(arms=ARMS),
        VECTORS,
        "has no raw context",
    ),
    "no items": (lambda: lim2.LinearTS(n_features=3, n_item_features=2), VECTORS, "has no items as vectors"),
    "no raw items": (lim2.Bandit, RAW, "has no raw items"),
    "an unknown arm": (lambda: lim2.LinearTS(arms=["red"], n_features=3), VECTORS, "arm"),
    "another size": (lambda: lim2.LinearTS(arms=ARMS, n_features=4), VECTORS, "contexts must be"),
    "rows for arms": (
        lambda: lim2.LinearTS(2, 3),
        Table.of(CONTEXTS[:1], [0], [1.0], [1.0], items=[np.ones((2, 2))]),
        "without names",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_whole(case: str) -> None:
    make, table, message = REFUSED[case]
    agent = make()
    with pytest.raises(ValueError, match=message):
        table.replay(agent)
    assert agent.rounds == 0


def test_a_warm_start_that_is_interrupted_has_learned_nothing() -> None:
    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    agent, bandit = agent_of(), lim2.Bandit(arms=ARMS, seed=0)
    before = agent.to_bytes(), bandit.to_bytes()
    for learner, table in ((agent, VECTORS), (bandit, RAW)):
        with pytest.raises(KeyboardInterrupt):
            table.replay(learner, "auto", progress=stop)
    assert (agent.to_bytes(), bandit.to_bytes()) == before
