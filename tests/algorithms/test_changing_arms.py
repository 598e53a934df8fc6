"""Arms that come and go: what an arm like another starts with, and what is kept of the others."""

from typing import Any

import numpy as np
import pytest

import lim2
from lim2.paper.lim2_variants import LiM2Variant
from lim2.state import leaves

REFITTED: dict[str, Any] = {"refresh": "all", "matching": None, "mean_prior": False}


def with_a_twin(**settings: Any) -> lim2.Agent:
    """Return an agent after 60 rounds of two arms, with a third that is like the second."""
    agent = lim2.AGENTS[LiM2Variant.__name__](2, 3, hidden=8, seed=0, **{**REFITTED, **settings})
    for t, context in enumerate(np.random.default_rng(0).normal(size=(60, 3))):
        agent.update(context, t % 2, float(context[t % 2]))
    agent.add_arm("twin", like=1)
    return agent


@pytest.mark.parametrize("noise", ["history", "buffer"])
@pytest.mark.parametrize("recount", [True, False])
def test_an_arm_like_another_has_its_tuples(recount: bool, noise: str) -> None:
    agent = with_a_twin(noise=noise, recount=recount)
    assert agent.state.memory.counts.tolist() == [30, 30, 30]
    agent.update([1.0, 0.0, -1.0], 0, 1.0)  # trains the network, and refits every arm from its tuples
    contexts = np.random.default_rng(1).normal(size=(5, 3))
    for values in (agent.means(contexts), agent.variances(contexts)):
        np.testing.assert_allclose(values[:, 2], values[:, 1], rtol=1e-9)
    np.testing.assert_allclose(agent.state.posterior.cov[2], agent.state.posterior.cov[1], rtol=1e-9)
    assert agent.state.posterior.a[2] == agent.state.posterior.a[1]
    assert agent.pulls.tolist() == [31, 30, 0]


def test_tuples_without_room_count_as_evicted() -> None:
    agent = with_a_twin(recount=False, buffer=40)
    held = agent.state.memory.counts.tolist()
    assert (sum(held), held[2]) == (40, 0)
    # nothing is left to add
    np.testing.assert_allclose(agent.state.prior_cov[2], agent.state.posterior.cov[2], rtol=1e-9)
    agent.update([1.0, 0.0, -1.0], 0, 1.0)
    state = agent.state
    assert state.posterior.a[2] == state.posterior.a[1]
    own = state.memory.rows()[state.memory.arms[state.memory.rows()] == 1]
    rewards = state.evicted_squares[1] + (state.memory.rewards[own] ** 2).sum()
    assert state.evicted_squares[2] == pytest.approx(rewards)


@pytest.mark.parametrize("recount", [True, False])
def test_priors_and_their_bounds_move_with_the_arms(recount: bool) -> None:
    agent = lim2.AGENTS[LiM2Variant.__name__](3, 2, hidden=4, recount=recount, prior_precision=0.5, seed=0)
    rng = np.random.default_rng(1)
    for t in range(30):
        agent.update(rng.normal(size=2), t % 3, float(rng.normal()))
    before = agent.state
    agent.remove_arm(1)
    agent.add_arm("new")
    after = agent.state
    assert after.floor.tolist() == [before.floor[0], before.floor[2], 1.0 / 0.5]
    for name in ("plays", "evicted_squares"):
        assert getattr(after, name).tolist() == [*getattr(before, name)[[0, 2]].tolist(), 0.0]
    for part in ("cov", "mu", "a", "b"):
        np.testing.assert_array_equal(getattr(after.posterior, part)[:2], getattr(before.posterior, part)[[0, 2]])
    np.testing.assert_array_equal(after.posterior.cov[2], np.eye(4) / 0.5)
    if not recount:
        np.testing.assert_array_equal(after.prior_cov[:2], before.prior_cov[[0, 2]])
        np.testing.assert_array_equal(after.prior_cov[2], np.eye(4) / 0.5)
    else:
        assert after.prior_cov is None
    assert (after.rounds, after.projections) == (before.rounds, before.projections)


@pytest.mark.parametrize("name", lim2.AGENTS)
@pytest.mark.parametrize("like", [None, 0])
def test_every_array_with_a_row_per_arm_follows(name: str, like: int | None) -> None:
    settings: dict[str, Any] = {} if name in ("LinearTS", "ThompsonSampling", "Uniform", "LinUCB") else {"hidden": 5}
    if name in ("NeuralUCB", "NeuralTS"):
        settings |= {"iterations": 5}
    agent = lim2.AGENTS[name](3, 2, seed=0, **settings)
    rng = np.random.default_rng(1)
    for t in range(9):
        agent.update(rng.normal(size=2), t % 3, float(rng.normal()))
    shapes = {path: leaf.shape for path, leaf in leaves(agent.state) if isinstance(leaf, np.ndarray)}
    agent.add_arm("new", like=like)
    grown = {path: leaf.shape for path, leaf in leaves(agent.state) if isinstance(leaf, np.ndarray)}
    sizes = agent.algorithm.sizes(4)
    for path, shape in shapes.items():
        if shape[0] == 3 and not path.startswith("memory/"):
            assert grown[path] == (sizes["arm"], *shape[1:]), path
    agent.remove_arm("new")
    after = {path: leaf.shape for path, leaf in leaves(agent.state) if isinstance(leaf, np.ndarray)}
    assert {path: after[path] for path in shapes if not path.startswith("memory/")} == {
        path: shape for path, shape in shapes.items() if not path.startswith("memory/")
    }


def test_a_change_of_arms_draws_from_a_stream_of_its_own() -> None:
    """So learning and deciding go on with the same draws, and the same agent gets the same new arm."""
    agents = [lim2.LiM2(2, 2, hidden=4, seed=3) for _ in range(2)]
    for agent in agents:
        agent.update([1.0, 2.0], 0, 1.0)
    agents[0].act_many(np.ones((9, 2)))  # moves the stream of decisions alone
    for agent in agents:
        agent.add_arm("new")
    np.testing.assert_array_equal(agents[0].state.network.parameters, agents[1].state.network.parameters)
    for agent in agents:
        agent.add_arm("another")
    one, other = (agents[0].algorithm.network.last_layer(agents[0].state.network)[0][row] for row in (2, 3))  # type: ignore[attr-defined]
    assert (one != other).any()
