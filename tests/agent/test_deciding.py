"""Deciding: turns at the start, eligible arms, propensities, epsilon, exploitation, and many contexts at once."""

from typing import Any

import numpy as np
import pytest
from helpers.variants import N_FEATURES, NAMES, NO_START, believes, every_agent, make, named
from helpers.worlds import contexts_of, play, played, reward_of
from numpy.typing import NDArray

import lim2
from lim2.exploration import StudentT

Float = NDArray[np.float64]


def fresh(variant: str) -> lim2.Agent:
    """Return an agent that has decided nothing, but has met a context: with PyTorch, the first settles their type."""
    agent = named(variant)
    agent.propensities(contexts_of(1)[0])
    return agent


@pytest.fixture
def with_start(variant: str) -> None:
    if variant in NO_START:
        pytest.skip("no start: exploration takes care of it")


# Turns at the start


@every_agent
@pytest.mark.usefixtures("with_start")
def test_the_start_takes_turns(variant: str) -> None:
    assert play(make(variant), 6) == [0, 1, 2, 0, 1, 2]


@every_agent
@pytest.mark.usefixtures("with_start")
def test_the_start_does_not_wait_for_rewards(variant: str) -> None:
    agent, context = make(variant), np.ones(N_FEATURES)
    assert [agent.act(context) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    assert agent.act_many(np.ones((2, N_FEATURES))).shape == (2,)


@every_agent
def test_no_start_for_an_agent_that_has_learned_of_every_arm(variant: str) -> None:
    agent, contexts = make(variant), contexts_of(9)
    agent.update(contexts, [0, 1, 2] * 3, [0.0, 0.0, 9.0] * 3)
    assert [agent.act(context) for context in contexts] != [0, 1, 2] * 3


@every_agent
@pytest.mark.usefixtures("with_start")
def test_the_start_is_certain(variant: str) -> None:
    agent, context = named(variant), contexts_of(1)[0]
    assert agent.propensities(context, arms=[7, "red"]).tolist() == [1.0, 0.0]
    decisions = [agent.decide(context) for _ in range(6)]
    assert [decision.arm for decision in decisions] == [*NAMES, *NAMES]
    assert {decision.propensity for decision in decisions} == {1.0}
    # The turns are over; UCB is certain, and so is a network that knows no scale of its inputs yet: it gives zeros.
    assert agent.propensities(context).max() < 1.0 or "UCB" in variant or "standardized" in variant


def test_turns_go_to_eligible_arms_and_the_others_are_owed_theirs() -> None:
    agent = lim2.LinearTS(3, 1, initial_pulls=2, seed=0)
    assert [agent.act([1.0], arms=[2, 1]) for _ in range(4)] == [2, 1, 2, 1]
    assert [agent.act([1.0]) for _ in range(2)] == [0, 0]


# Decisions and their propensities


@every_agent
@pytest.mark.parametrize("how", [{}, {"arms": ["red", 7]}, {"exploit": True}], ids=["all", "some", "exploit"])
def test_decide_is_act_with_its_reasons(variant: str, how: dict[str, Any]) -> None:
    decides, acts = named(variant), named(variant)
    for t, context in enumerate(contexts_of(25)):
        expected = decides.propensities(context, **how)
        decision = decides.decide(context, **how)
        assert decision.arm == acts.act(context, **how)
        assert decision.arms == tuple(how.get("arms", NAMES))
        assert decision.propensity == decision.propensities[decision.arms.index(decision.arm)] > 0.0
        assert decision.exploit is how.get("exploit", False)
        np.testing.assert_array_equal(decision.propensities, expected)
        assert decision.propensities.sum() == pytest.approx(1.0, abs=1e-9)
        rows = [NAMES.index(name) for name in decision.arms]
        if believes(decides):
            np.testing.assert_allclose(decision.means, decides.means(context)[rows], rtol=1e-12)
            np.testing.assert_allclose(decision.stds**2, decides.variances(context)[rows], rtol=1e-9)
        else:
            assert np.isnan(decision.means).all()
        for agent in (decides, acts):
            agent.update(context, NAMES[t % 3], reward_of(context, t % 3))
    assert decides.to_bytes() == acts.to_bytes()


@every_agent
def test_propensities_change_nothing_and_take_rows(variant: str) -> None:
    for agent in (fresh(variant), played(variant)):
        before = agent.to_bytes()
        contexts = contexts_of(4, seed=2)
        rows = agent.propensities(contexts)
        assert rows.shape == (4, 3)
        for context, row in zip(contexts, rows, strict=True):
            np.testing.assert_allclose(agent.propensities(context), row, atol=1e-9)
        assert agent.propensities(contexts, arms=[7, "red"]).shape == (4, 2)
        assert agent.propensities(np.empty((0, N_FEATURES))).shape == (0, 3)
        assert agent.to_bytes() == before


@every_agent
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_decisions_follow_their_propensities(variant: str, epsilon: float) -> None:
    agent = played(variant, 30, epsilon=epsilon)
    context, eligible = contexts_of(1, seed=3)[0], ["red", 7]
    for names in (NAMES, eligible):
        said = agent.propensities(context, arms=names)
        assert said.min() >= epsilon / len(names) - 1e-12
        assert said.sum() == pytest.approx(1.0)
        drawn = agent.act_many(np.tile(context, (2500, 1)), arms=names).tolist()
        shares = np.array([drawn.count(name) for name in names]) / len(drawn)
        deviations = np.sqrt(np.maximum(said * (1.0 - said), 1e-4) / len(drawn))
        assert (np.abs(shares - said) / deviations).max() < 4.5


@every_agent
def test_eligible_arms(variant: str) -> None:
    agent, contexts = make(variant), contexts_of(60, seed=7)
    for context in contexts:
        arm = agent.act(context, arms=[2, 0])
        assert arm in (0, 2)
        agent.update(context, arm, reward_of(context, arm))
    assert {agent.act(c, arms=[1]) for c in contexts[:3]} == {1}
    assert {agent.act(c, arms=np.array([1, 2])) for c in contexts} <= {1, 2}


@every_agent
def test_exploiting_plays_the_best_mean_and_uses_up_nothing(variant: str) -> None:
    for agent in (fresh(variant), played(variant)):
        before = agent.to_bytes()
        for context in contexts_of(5, seed=4):
            arm = agent.act(context, exploit=True)
            if believes(agent):
                assert arm == NAMES[agent.means(context).argmax()]
            assert agent.propensities(context, exploit=True).tolist() == [float(name == arm) for name in NAMES]
        assert agent.to_bytes() == before


# Epsilon


@every_agent
@pytest.mark.usefixtures("with_start")
def test_epsilon_holds_from_the_start(variant: str) -> None:
    agent, context = named(variant, epsilon=0.6, initial_pulls=1), contexts_of(1)[0]
    np.testing.assert_allclose(agent.propensities(context), [0.6, 0.2, 0.2])
    assert agent.propensities(context, exploit=True).max() == 1.0
    decisions = [agent.decide(context) for _ in range(30)]
    assert min(decision.propensities.min() for decision in decisions) >= 0.2 - 1e-12
    assert {decision.arm for decision in decisions} == set(NAMES)  # nothing is owed any more
    beliefs_decide = named(variant, epsilon=0.6, initial_pulls=0)
    np.testing.assert_array_equal(agent.propensities(context), beliefs_decide.propensities(context))


@every_agent
def test_batches_of_decisions_with_epsilon_are_those_of_a_loop(variant: str) -> None:
    one, many = named(variant, epsilon=0.45), named(variant, epsilon=0.45)
    contexts = contexts_of(30)
    assert many.act_many(contexts, arms=["red", 7]).tolist() == [one.act(c, arms=["red", 7]) for c in contexts]
    assert many.act_many(contexts, exploit=True).tolist() == [one.act(c, exploit=True) for c in contexts]
    assert one.to_bytes() == many.to_bytes()


@pytest.mark.parametrize("epsilon", [-0.1, 1.01, np.nan, np.inf, "a", None])
def test_values_that_are_no_share(epsilon: Any) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        lim2.LinearTS(3, 2, epsilon=epsilon)
    agent = lim2.LinearTS(3, 2, epsilon=0.5)
    with pytest.raises(ValueError, match="epsilon"):
        agent.epsilon = epsilon
    assert agent.epsilon == agent.algorithm.epsilon == 0.5


def test_epsilon_of_one_is_uniform_whatever_the_arms() -> None:
    agent = lim2.LinearTS(3, 2, epsilon=1.0, initial_pulls=0, seed=0)
    np.testing.assert_allclose(agent.propensities([1.0, 0.0]), 1 / 3)
    np.testing.assert_allclose(agent.propensities([1.0, 0.0], arms=[0, 2]), 1 / 2)
    agent.add_arm(3)
    np.testing.assert_allclose(agent.propensities([1.0, 0.0]), 1 / 4)


@pytest.mark.parametrize("items", [False, True])
def test_the_former_name_says_the_new_one(items: bool) -> None:
    sizes: dict[str, int] = {"n_features": 2, "n_item_features": 2} if items else {"n_arms": 3, "n_features": 2}
    with pytest.raises(TypeError, match="replaced by epsilon"):
        lim2.LinearTS(**sizes, min_propensity=0.1)


# Many contexts


@every_agent
def test_a_batch_equals_a_loop(variant: str) -> None:
    one, many = make(variant), make(variant)
    contexts = contexts_of(40, seed=5)
    chosen = [one.act(context) for context in contexts]
    assert many.act_many(contexts).tolist() == chosen
    assert [int(many.act_many(context[None])[0]) for context in contexts] == [one.act(context) for context in contexts]
    assert one.to_bytes() == many.to_bytes()


@every_agent
def test_beliefs_are_public(variant: str) -> None:
    agent, contexts = make(variant), contexts_of(5, seed=11)
    play(agent, 40)
    means, variances = agent.means(contexts), agent.variances(contexts)
    assert means.shape == variances.shape == (5, 3)
    assert agent.means(np.empty((0, N_FEATURES))).shape == (0, 3)
    with pytest.raises(ValueError, match="context"):
        agent.means([np.nan] * N_FEATURES)
    if not believes(agent):
        assert np.isnan(means).all()
        return
    assert (variances > 0).all()
    np.testing.assert_allclose(agent.means(contexts[2]), means[2], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(agent.variances(contexts[2]), variances[2], rtol=1e-12)


# An exploration of one's own


class Greedy:
    def scores(self, score: StudentT, rng: np.random.Generator) -> Float:
        return score.mean


class GreedyWithPropensities(Greedy):
    def propensities(self, score: StudentT) -> Float:
        return np.asarray(score.mean == score.mean.max(axis=-1, keepdims=True), dtype=float)


def test_an_exploration_of_ones_own() -> None:
    silent = lim2.LinearTS(2, 1, exploration=Greedy(), initial_pulls=0, epsilon=0.2, seed=0)
    silent.update([1.0], 1, 1.0)
    assert {silent.act([1.0]) for _ in range(60)} == {0, 1}
    twin = silent.copy()
    with pytest.raises(NotImplementedError, match="propensities"):
        silent.decide([1.0])
    assert [silent.act([1.0]) for _ in range(60)] == [twin.act([1.0]) for _ in range(60)]  # nothing was drawn
    with_propensities = lim2.LinearTS(2, 1, exploration=GreedyWithPropensities(), initial_pulls=0, seed=0)
    with_propensities.update([1.0], 1, 1.0)
    assert with_propensities.decide([1.0]).propensity == 1.0
