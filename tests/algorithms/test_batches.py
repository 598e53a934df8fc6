"""Batches: one update for k rewards. Where nothing is trained, it is what k updates would have been."""

import math
from typing import Any

import numpy as np
import pytest
from helpers.variants import GRADIENT_BANDITS, N_ARMS, N_FEATURES, VARIANTS, believes, every_agent, make
from helpers.worlds import Float, contexts_of, play, reward_of
from hypothesis import given
from hypothesis import strategies as st

import lim2
from lim2 import state as trees
from lim2.algorithms import ALGORITHMS

LINEAR: dict[str, dict[str, Any]] = {
    "plain": {},
    "no intercept": {"intercept": False},
}
BEARING = ("ThompsonSampling", "AdaptiveTS", "LinearTS", "Uniform")
every_linear = pytest.mark.parametrize("form", LINEAR)
bearing = pytest.mark.parametrize("variant", [name for name, (of, _) in VARIANTS.items() if of in BEARING])


def data(n: int, seed: int = 0) -> tuple[Float, Any, Float]:
    """Return raw columns, one of which begins to vary late, arms and rewards with an outlier."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, N_FEATURES)) * [1.0, 5.0, 0.1, 1.0] + [0.0, 20.0, 0.0, 3.0]
    contexts[: n // 2, 3] = 3.0
    arms = rng.integers(0, N_ARMS, n)
    rewards = contexts[:, 0] * arms + 0.1 * rng.normal(size=n) + 5.0
    rewards[n // 3] += 40.0
    return contexts, arms, rewards


def leaves(state: Any) -> dict[str, Any]:
    """Return the numbers of a state; of a root, the covariance that it is one of."""
    found = {}
    for path, leaf in trees.leaves(trees.canonical(state)):
        values = np.asarray(leaf, dtype=float) if leaf is not None else None
        if values is not None and path.endswith("root"):
            path, values = f"{path}' {path}", values.swapaxes(-1, -2) @ values
        found[path] = values
    return found


def assert_same(one: lim2.Agent, other: lim2.Agent, tolerance: float = 1e-10) -> None:
    """Compare all that two agents know, each array relative to its largest value."""
    expected, found = leaves(one.state), leaves(other.state)
    assert expected.keys() == found.keys()
    for path, values in expected.items():
        if values is None or not values.size:
            assert (found[path] is None) == (values is None), path
            continue
        scale = max(1.0, float(np.abs(values).max()))
        np.testing.assert_allclose(found[path] / scale, values / scale, rtol=0.0, atol=tolerance, err_msg=path)
    assert one.pulls.tolist() == other.pulls.tolist()
    assert one.rounds == other.rounds


@every_linear
@pytest.mark.parametrize("batch", [2, 37, 300])
def test_linear_beliefs_are_those_of_the_loop(form: str, batch: int) -> None:
    contexts, arms, rewards = data(300)
    one, many = (lim2.LinearTS(N_ARMS, N_FEATURES, seed=0, **LINEAR[form]) for _ in range(2))
    one.update(contexts, arms, rewards)
    many.update(contexts, arms, rewards, batch=batch)
    assert_same(one, many)
    np.testing.assert_allclose(many.means(contexts), one.means(contexts), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(many.variances(contexts), one.variances(contexts), rtol=1e-10)


@given(
    form=st.sampled_from(list(LINEAR)),
    cuts=st.lists(st.integers(1, 25), min_size=1, max_size=8),
    seed=st.integers(0, 5),
)
def test_any_split_into_batches_gives_the_same(form: str, cuts: list[int], seed: int) -> None:
    n = sum(cuts)
    contexts, arms, rewards = data(n, seed)
    one, many = (lim2.LinearTS(N_ARMS, N_FEATURES, seed=0, **LINEAR[form]) for _ in range(2))
    one.update(contexts, arms, rewards)
    for stop, size in zip(np.cumsum(cuts), cuts, strict=True):
        rows = slice(stop - size, stop)
        many.update(contexts[rows], arms[rows], rewards[rows], batch=size)
    assert_same(one, many)


def test_items_are_learned_in_batches_as_one_by_one() -> None:
    """With the products of context and item."""
    rng = np.random.default_rng(3)
    users, items = rng.normal(size=(90, 2)) + 7.0, rng.normal(size=(90, 3))
    rewards = users[:, 0] * items[:, 0]
    one, many = (lim2.LinearTS(n_features=2, n_item_features=3, seed=0) for _ in range(2))
    one.update(users, items, rewards)
    many.update(users, items, rewards, batch=40)
    assert_same(one.agent, many.agent)


def untrained(**settings: Any) -> lim2.Agent:
    """Return an agent after 400 rounds, the last refit of which was a while ago and the next is not due."""
    agent = lim2.AdaptiveTS(
        N_ARMS, N_FEATURES, **{"train_every": math.inf, "buffer": 16_000, "hidden": (8,), "seed": 0, **settings}
    )
    contexts, arms, rewards = data(410)
    agent.update(contexts, arms, rewards)
    assert agent.rounds + 40 - agent.state.refitted < 0.2 * (agent.rounds + 40)
    return agent


def test_adaptive_without_training_is_the_loop() -> None:
    one = untrained()
    many, contexts = one.copy(), data(40, seed=1)
    one.update(*contexts)
    many.update(*contexts, batch=40)
    assert one.info == many.info
    assert one.state.lead != 0.0
    assert_same(one, many)


def test_the_lead_counts_arms_with_more_rewards_than_weights() -> None:
    """As in the loop, also where an arm gets there in the middle of a batch."""
    one = lim2.AdaptiveTS(2, N_FEATURES, train_every=math.inf, buffer=16_000, seed=0)
    contexts, _, rewards = data(340)
    one.update(contexts[:298], [0] * 298, rewards[:298])
    one.update(contexts[298:300], [1] * 2, rewards[298:300])
    while one.rounds - one.state.refitted > 20:
        one.update(contexts[0], 0, 5.0)
    many, later = one.copy(), np.ones(40, dtype=int)
    one.update(contexts[300:], later, rewards[300:])
    many.update(contexts[300:], later, rewards[300:], batch=40)
    assert_same(one, many)


@bearing
@pytest.mark.parametrize("rounds", [0, 7, 40])
def test_a_batch_of_one_is_an_update(variant: str, rounds: int) -> None:
    """In the algorithm to 1e-10; in the agent, which does not use it, bit for bit."""
    agent = make(variant)
    play(agent, rounds)
    context, rng, twin = contexts_of(1, seed=5), np.random.default_rng(1), np.random.default_rng(1)
    one, _ = agent.algorithm.learn(agent.state, context[0], 1, 0.5, rng)
    many, _ = agent.algorithm.learn_many(agent.state, context, np.array([1]), np.array([0.5]), twin)
    expected, found = (trees.written(new) if isinstance(new, trees.Writes) else new for new in (one, many))
    a, b = leaves(expected), leaves(found)
    for path, values in a.items():
        if values is not None and values.size:
            np.testing.assert_allclose(b[path], values, rtol=1e-10, atol=1e-10, err_msg=path)
    assert rng.bit_generator.state == twin.bit_generator.state
    other = agent.copy()
    agent.update(context[0], 1, 0.5)
    other.update(context, [1], [0.5])
    assert agent.to_bytes() == other.to_bytes()


@bearing
@pytest.mark.parametrize("batch", [5, 64, "auto"])
def test_batches_repeat_and_continue(variant: str, batch: Any) -> None:
    """The same inputs give the same bits, also over a copy; decisions and changes of arms go on as usual."""
    contexts, arms, rewards = data(150)
    agent, other = make(variant), make(variant)
    for learner in (agent, other):
        learner.update(contexts, arms, rewards, batch=batch)
    assert agent.to_bytes() == other.to_bytes()
    other = agent.copy()
    for learner in (agent, other):
        learner.update(contexts[:70], arms[:70], rewards[:70], batch=batch)
        learner.add_arm("new", like=1)
        learner.update(contexts[:9], ["new"] * 9, rewards[:9], batch=9)
        learner.remove_arm(0)
        play(learner, 10)
    assert agent.to_bytes() == other.to_bytes()
    assert agent.rounds == 239


@bearing
@pytest.mark.parametrize("scale", [1e-12, 1e3, 1e12, 1e29])
def test_any_scale_is_survived(variant: str, scale: float) -> None:
    """Features so large that rounding would matter are taken one by one."""
    agent, rng = make(variant), np.random.default_rng(10)
    for _ in range(8):
        contexts = scale * rng.uniform(-0.4, 0.4, (16, N_FEATURES))
        contexts[8:] = contexts[:8]
        agent.update(contexts, rng.integers(0, N_ARMS, 16), scale * rng.normal(size=16), batch=16)
    if believes(agent):
        contexts = rng.normal(size=(5, N_FEATURES))
        assert np.isfinite(agent.means(contexts)).all()
        variances = agent.variances(contexts)
        assert np.isfinite(variances).all()
        assert (variances >= 0).all()


@bearing
def test_memory_stays_bounded(variant: str) -> None:
    agent, rng = make(variant), np.random.default_rng(0)
    sizes = []
    for _ in range(20):
        agent.update(rng.normal(size=(32, N_FEATURES)), rng.integers(0, N_ARMS, 32), rng.normal(size=32), batch=32)
        sizes.append(agent.copy().nbytes)
    assert max(sizes[10:]) <= max(sizes[:10]) + 32 * 8 * (N_FEATURES + 3)


def test_a_batch_trains_a_few_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """But as often as the loop while the network is young."""
    monkeypatch.setattr("lim2.algorithms.adaptive_ts.STEPS_FROM", 60)
    agent, taken = make("AdaptiveTS", train_every=2), []
    play(agent, 30)
    for batch in (20, 40, 100, 6):
        before = agent.state.network.descent.steps
        agent.update(*data(batch), batch=batch)
        taken.append(agent.state.network.descent.steps - before)
    assert taken == [10, 5 + 8, 8, 3]
    assert agent.info is not None
    assert agent.info.loss is not None


def test_batches_find_what_pays() -> None:
    agent, right = lim2.AdaptiveTS(N_ARMS, N_FEATURES, seed=0), 0
    contexts = contexts_of(800, seed=13)
    for start in range(0, 800, 32):
        block = contexts[start : start + 32]
        best = block[:, :3].argmax(axis=1)
        arms = agent.act_many(block)
        right += int((arms == best).sum()) if start >= 400 else 0
        agent.update(block, arms, (arms == best).astype(float), batch=32)
    assert right / 400 > 0.75


@every_agent
def test_every_agent_learns_in_batches_or_says_why_not(variant: str) -> None:
    agent = make(variant)
    contexts, arms = contexts_of(6), [0, 1, 2, 0, 1, 2]
    rewards = [reward_of(context, arm) for context, arm in zip(contexts, arms, strict=True)]
    assert agent.batches == agent.algorithm.batches == (agent.name in BEARING)
    if agent.batches:
        agent.update(contexts, arms, rewards, batch=3)
        assert (agent.rounds, agent.pulls.tolist()) == (6, [2, 2, 2])
        return
    before = agent.to_bytes()
    with pytest.raises(ValueError, match=rf"{agent.name} does not learn in batches: .*Leave out batch=.*got batch=3"):
        agent.update(contexts, arms, rewards, batch=3)
    with pytest.raises(NotImplementedError, match="does not learn in batches"):
        agent.algorithm.learn_many(agent.state, contexts, np.array(arms), np.array(rewards), np.random.default_rng(0))
    assert agent.to_bytes() == before
    other = make(variant)
    agent.update(contexts, arms, rewards, batch="auto")
    other.update(contexts, arms, rewards)
    assert agent.to_bytes() == other.to_bytes()


def test_what_a_batch_would_cost_is_said() -> None:
    for name in ("LiM2", "NeuralLinearMM", "NeuralLinearNaive", "NeuralLinearNTK"):
        assert "a batch loses up to 35% of its reward" in ALGORITHMS[name].why_no_batches
    for name in (*GRADIENT_BANDITS, "NeuralLinear"):
        assert "35%" not in ALGORITHMS[name].why_no_batches
