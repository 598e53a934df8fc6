"""What an update touches does not grow with the number of arms: which arrays are written, and how much of them."""

from typing import Any

import numpy as np
import pytest

import lim2
from lim2.exploration.sufficient_statistics import forgetting, sums_of
from lim2.state import Writes, leaves

STORAGE = ("memory/contexts", "memory/arms", "memory/rewards", "memory/stamps")  # which doubles at times
PER_ARM = 8  # numbers per arm that an update may make anew: counts, densities of a change test, a scale of the noise


def played(make: Any, n_arms: int, rounds: int = 0, **settings: Any) -> lim2.Agent:
    agent: lim2.Agent = make(n_arms, 3, seed=0, **settings)
    rng = np.random.default_rng(0)
    for t, context in enumerate(rng.normal(size=(rounds, 3))):
        agent.update(context, t % n_arms, float(rng.random()))
    return agent


def beliefs_of(state: Any) -> dict[str, Any]:
    """Return the arrays that have a row per arm, and are larger than a few numbers in it."""
    wanted = (
        "posterior/mu",
        "posterior/cov",
        "full/mu",
        "full/root",
        "linear/mu",
        "linear/root",
        "evicted/gram",
        "evicted/cross",
    )
    return {path: leaf for path, leaf in leaves(state) if path in wanted}


def small(*args: Any, **settings: Any) -> lim2.Agent:
    """Return AdaptiveTS with a small network."""
    agent: lim2.Agent = lim2.AdaptiveTS(*args, hidden=(4,), **settings)
    return agent


@pytest.mark.parametrize("make", [small, lim2.LinearTS])
def test_an_update_leaves_the_blocks_of_other_arms_where_they_are(make: Any) -> None:
    agent, rng = played(make, 30, 40), np.random.default_rng(1)
    for t in range(100):
        before = agent.core.state.model
        arrays, values = beliefs_of(before), {path: leaf.copy() for path, leaf in beliefs_of(before).items()}
        arm = int(rng.integers(30))
        agent.update(rng.normal(size=3), arm, float(rng.random()))
        after = agent.core.state.model
        if make is small and after.refits > before.refits:  # a refit changes all arms
            continue
        others = [i for i in range(30) if i != arm]
        for path, array in beliefs_of(after).items():
            assert array is arrays[path], f"{path} was copied in round {t}"
            np.testing.assert_array_equal(array[others], values[path][others])


def written_and_made(n_arms: int, rounds: int) -> tuple[list[int], list[int]]:
    """Return, per round, how many numbers of rows are written, and how many are in arrays that are new.

    The network is left out: its last layer has a row per arm, and a training step changes all of it.
    """
    agent, rng, written, made = played(small, n_arms, 0, train_every=np.inf), np.random.default_rng(2), [], []
    for _ in range(rounds):
        state, context, arm = agent.core.state.model, rng.normal(size=3), int(rng.integers(n_arms))
        new, _ = agent.algorithm.learn(state, context, arm, float(rng.random()), np.random.default_rng(0))
        if type(new) is not Writes:  # a refit
            agent.update(context, arm, float(rng.random()))
            continue
        written.append(sum(np.size(row) for _, _, row in new.rows))
        old = {id(leaf) for _, leaf in leaves(state)}
        fresh = {path: np.size(leaf) for path, leaf in leaves(new.state) if id(leaf) not in old}
        made.append(sum(size for path, size in fresh.items() if path not in STORAGE))
        agent.update(context, arm, float(rng.random()))
    return written, made


def test_what_an_update_writes_does_not_grow_with_arms() -> None:
    few, many = (written_and_made(n_arms, 60) for n_arms in (20, 100))
    assert max(many[0]) <= max(few[0])  # rows of the arm that was played
    assert max(many[1]) <= max(few[1]) + PER_ARM * 80


def test_contexts_stay_where_they_are_when_a_refit_ends() -> None:
    agent, rng, left = lim2.AdaptiveTS(3, 2, buffer=40, hidden=(4,), seed=0), np.random.default_rng(0), 0
    for t in range(600):
        before = agent.core.state.model.memory
        agent.update(rng.normal(size=2), int(rng.integers(3)), float(rng.random()))
        memory = agent.core.state.model.memory
        left += memory.held < before.held
        if t > 64:  # storage has the size that it needs
            assert memory.contexts is before.contexts
    assert left > 20
    assert len(agent.core.state.model.memory.rewards) == 64


def test_no_recent_rewards_say_nothing_about_a_change() -> None:
    older, none = sums_of(np.full((9, 2), 1e20), np.ones(9)), sums_of(np.ones((0, 2)), np.ones(0))
    assert forgetting(np.ones(2), 1.0, older, none, (1.0, 1 / 16)).tolist() == [0.0, 0.0]
    assert forgetting(np.ones(2), 1.0, none, older, (1.0, 1 / 16)).tolist() == [0.0, 0.0]
