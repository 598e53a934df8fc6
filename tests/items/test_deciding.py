"""Decisions among items: act, decide, rank, propensities, means and variances, for every algorithm."""

from typing import Any

import numpy as np
import pytest
from items.shop import (
    FOR_ITEMS,
    N_CONTEXT,
    N_ITEM,
    NAMES,
    every_agent,
    items_of,
    make,
    play,
    played,
    some_agents,
    user_of,
)

import lim2
from lim2.exploration import StudentT, Thompson
from lim2.items import beside

USER, ITEMS = user_of(7), items_of(5, 7)
NAMED = dict(zip(NAMES, ITEMS, strict=True))


@every_agent
def test_act_decide_and_rank_agree(variant: str) -> None:
    """From the same state they draw the same, whatever the number of items; what decides best comes first."""
    agent = played(variant)
    for k in (1, 2, 5, 20):
        user, items = user_of(k), items_of(k, k)
        choices: Any = [agent.copy() for _ in range(4)]
        arm, decision = choices[0].act(user, items), choices[1].decide(user, items)
        whole, first = choices[2].rank(user, items), choices[3].rank(user, items, 1)
        assert arm == decision.arm == whole[0].arm == first[0].arm
        assert sorted(entry.arm for entry in whole) == list(range(k))
        assert decision.arms == whole[-1].arms == tuple(range(k))
        assert decision.propensity == decision.propensities[arm] == first[0].propensity
        np.testing.assert_allclose(decision.propensities.sum(), 1.0, atol=1e-6)
        for entry in whole:
            assert entry.propensities.tobytes() == decision.propensities.tobytes()
            assert entry.propensity == decision.propensities[entry.arm]
        assert agent.propensities(user, items).tobytes() == decision.propensities.tobytes()
        if agent.name != "Uniform":
            assert agent.means(user, items).tobytes() == decision.means.tobytes()
            np.testing.assert_allclose(np.sqrt(agent.variances(user, items)), decision.stds, rtol=1e-12)
        assert choices[0].agent.to_bytes() == choices[1].agent.to_bytes(), "they draw as much"


@every_agent
def test_epsilon_is_a_share_of_decisions(variant: str) -> None:
    agent = played(variant, epsilon=0.4)
    for k in (1, 3, 20):
        user, items = user_of(k), items_of(k, k)
        chances = agent.propensities(user, items)
        assert (chances >= 0.4 / k - 1e-12).all()
        policy = (chances - 0.4 / k) / 0.6
        np.testing.assert_allclose(policy.sum(), 1.0, atol=1e-6)
        for _ in range(8):
            one, two, three = agent.copy(), agent.copy(), agent.copy()
            arm = one.act(user, items)
            assert arm == two.decide(user, items).arm == three.rank(user, items)[0].arm
            agent = one


def test_epsilon_is_kept() -> None:
    """With all decisions uniform, every item is chosen equally often; with none, as the policy says."""
    agent, k, n = played("LinearTS", 60, epsilon=0.5), 8, 2000
    user, items = user_of(1), items_of(k, 1)
    counts = np.bincount([agent.act(user, items) for _ in range(n)], minlength=k)
    chances = agent.propensities(user, items)
    assert chances.min() == pytest.approx(0.5 / k, rel=1e-3)
    assert (np.abs(counts - n * chances) < 4.5 * np.sqrt(n * chances * (1.0 - chances)) + 1).all()


@every_agent
def test_names_are_the_callers(variant: str) -> None:
    """Names need not have been seen; arrays and mappings of the same items give the same, in the order given."""
    agent = played(variant)
    other = agent.copy()
    by_place, by_name = agent.decide(USER, ITEMS), other.decide(USER, NAMED)
    assert by_name.arms == NAMES
    assert by_name.arm == NAMES[by_place.arms.index(by_place.arm)]
    assert by_name.propensities.tobytes() == by_place.propensities.tobytes()
    places = [entry.arms.index(entry.arm) for entry in other.rank(USER, ITEMS, 3)]
    assert [entry.arm for entry in agent.rank(USER, NAMED, 3)] == [NAMES[place] for place in places]
    assert agent.act(USER, {name: list(item) for name, item in NAMED.items()}) == other.act(USER, NAMED)
    assert agent.means(USER, NAMED).tobytes() == agent.means(USER, ITEMS).tobytes()


@every_agent
def test_order_changes_no_belief(variant: str) -> None:
    agent = played(variant)
    order = [3, 0, 4, 1, 2]
    shuffled = {NAMES[place]: ITEMS[place] for place in order}
    np.testing.assert_allclose(agent.means(USER, shuffled), agent.means(USER, NAMED)[order], rtol=1e-9)
    np.testing.assert_allclose(agent.variances(USER, shuffled), agent.variances(USER, NAMED)[order], rtol=1e-9)
    np.testing.assert_allclose(agent.propensities(USER, shuffled), agent.propensities(USER, NAMED)[order], atol=1e-7)
    assert agent.act(USER, shuffled, exploit=True) == agent.act(USER, NAMED, exploit=True) or agent.name == "Uniform"


@every_agent
def test_exploiting_draws_nothing(variant: str) -> None:
    agent = played(variant, epsilon=0.5)
    before = agent.agent.to_bytes()
    decision, slate = agent.decide(USER, NAMED, exploit=True), agent.rank(USER, NAMED, exploit=True)
    assert agent.agent.to_bytes() == before
    assert decision.exploit
    if agent.name == "Uniform":
        return
    best = agent.means(USER, NAMED)
    assert decision.arm == agent.act(USER, NAMED, exploit=True) == NAMES[int(best.argmax())]
    assert decision.propensities.tolist() == np.eye(5)[best.argmax()].tolist()
    assert [entry.arm for entry in slate] == [NAMES[place] for place in np.argsort(-best, kind="stable")]
    assert agent.propensities(USER, NAMED, exploit=True).tolist() == decision.propensities.tolist()


@every_agent
def test_looking_changes_nothing(variant: str) -> None:
    agent = played(variant)
    before = agent.agent.to_bytes()
    for look in (agent.means, agent.variances, agent.propensities):
        assert look(USER, NAMED).shape == (5,)
    assert agent.agent.to_bytes() == before


def test_uniform_is_uniform() -> None:
    agent, n = lim2.Uniform(n_features=2, n_item_features=2, seed=0), 2000
    counts = np.bincount([agent.act(USER, ITEMS) for _ in range(n)], minlength=5)
    assert (np.abs(counts - n / 5) < 4.5 * np.sqrt(n * 0.16)).all()
    assert agent.propensities(USER, ITEMS).tolist() == [0.2] * 5
    assert np.isnan(agent.means(USER, ITEMS)).all()
    state = agent.copy().agent.to_bytes()
    agent = lim2.Uniform(n_features=2, n_item_features=2, seed=0)
    agent.update(USER, ITEMS[0], 1.0)
    assert agent.rounds == 1
    assert state != agent.agent.to_bytes()


@pytest.mark.parametrize(
    ("variant", "k"),
    [("AdaptiveTS", 2), ("AdaptiveTS", 12), ("LinearTS", 5), ("LiM2", 5), ("NeuralLinearNTK", 3), ("NeuralTS", 8)],
)
def test_propensities_against_a_million_draws(variant: str, k: int) -> None:
    """The shares of the largest among scores drawn by the policy, row by row, from the same beliefs."""
    agent, n, chunk = played(variant, 25), 1_000_000, 50_000
    user, items = user_of(k), items_of(1, k) + 0.1 * items_of(k, k)  # alike enough to be chosen at times
    score = agent.core.scores(beside(user, items))
    rng, counts = np.random.default_rng(k), np.zeros(k)
    policy = agent.algorithm.policy
    for _ in range(n // chunk):
        many = StudentT(np.tile(score.mean, (chunk, 1)), np.tile(score.scale, (chunk, 1)), score.freedom)
        counts += np.bincount(policy.scores(many, rng).argmax(axis=1), minlength=k)
    chances = agent.propensities(user, items)
    error = np.sqrt(chances * (1.0 - chances) / n)
    assert (np.abs(counts / n - chances) < 4.5 * error + 3.0 / n).all()
    assert np.count_nonzero(chances > 0.01) > 1, "a test of something"


# Joint draws


@some_agents
def test_joint_draws_have_no_propensities(variant: str) -> None:
    agent = played(variant)
    one, two, three = agent.copy(), agent.copy(), agent.copy()
    decision, slate = one.decide(USER, NAMED, joint=True), two.rank(USER, NAMED, 2, joint=True)
    assert decision.arm == slate[0].arm == three.act(USER, NAMED, joint=True)
    assert np.isnan(decision.propensity)
    assert np.isnan(decision.propensities).all()
    assert decision.means.tobytes() == agent.means(USER, NAMED).tobytes()


@some_agents
def test_joint_covariances_have_the_scales_of_the_scores(variant: str) -> None:
    agent = played(variant, 60)
    rows = beside(USER, ITEMS)
    covariance = agent.algorithm.joint_covariance(agent.state, rows)
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(covariance.diagonal(), agent.core.scores(rows).scale ** 2, rtol=1e-7)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * covariance.max()


@some_agents
def test_joint_choices_are_those_of_drawn_weights(variant: str) -> None:
    """As often as in a direct simulation of the multivariate Student-t, two items being almost the same."""
    agent, n = played(variant, 25), 5000
    items = items_of(1, 1) + 0.1 * np.vstack((items_of(3, 1), items_of(3, 1)[:1] * 1.01))
    rows = beside(USER, items)
    score = agent.core.scores(rows)
    covariance = agent.algorithm.joint_covariance(agent.state, rows)
    policy = agent.algorithm.policy
    assert isinstance(policy, Thompson)
    rng, size = np.random.default_rng(5), 400_000
    drawn = rng.multivariate_normal(np.zeros(4), covariance, size=size, method="svd")
    if np.isfinite(score.freedom[0]):
        drawn /= np.sqrt(rng.chisquare(score.freedom[0], size=(size, 1)) / score.freedom[0])
    drawn = score.mean + policy.optimism * score.scale + policy.temperature * drawn
    expected = np.bincount(drawn.argmax(axis=1), minlength=4) / size
    rng = agent.copy().core.streams.act
    drawn = np.array([policy.joint_scores(score, covariance, rng) for _ in range(n)])
    assert agent.act(USER, items, joint=True) == drawn[0].argmax()
    counts = np.bincount(drawn.argmax(axis=1), minlength=4)
    error = np.sqrt(expected * (1.0 - expected) * (1.0 / n + 1.0 / size))
    assert (np.abs(counts / n - expected) < 4.5 * error + 2.0 / n).all()


def test_items_that_are_the_same_stand_or_fall_together() -> None:
    """Of two equal items beside another, independent draws choose one of the two more often than joint draws do."""
    agent = lim2.LinearTS(n_features=1, n_item_features=2, seed=0)
    items = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    one_by_one = sum(agent.act([0.0], items) > 0 for _ in range(800)) / 800
    together = sum(agent.act([0.0], items, joint=True) > 0 for _ in range(800)) / 800
    assert together == pytest.approx(0.5, abs=0.08)
    assert one_by_one > 0.65


@pytest.mark.parametrize("variant", ["NeuralUCB", "NeuralTS", "LiM2 by UCB", "Uniform"])
def test_joint_draws_that_there_are_not(variant: str) -> None:
    agent = played(variant, 5)
    before = agent.agent.to_bytes()
    for ask in (agent.act, agent.decide, agent.rank):
        with pytest.raises((ValueError, NotImplementedError), match="leave out joint"):
            ask(USER, ITEMS, joint=True)
    assert agent.agent.to_bytes() == before


# What is refused


BAD_ITEMS: dict[str, Any] = {
    "none": np.empty((0, N_ITEM)),
    "no mapping": {},
    "one row": ITEMS[0],
    "columns": np.ones((3, N_ITEM + 1)),
    "three axes": np.ones((1, 3, N_ITEM)),
    "words": [["a", "b"]],
    "ragged": [[1.0, 2.0], [1.0]],
    "nothing": None,
    "nan": np.array([[0.0, 1.0], [np.nan, 1.0]]),
    "infinity": np.array([[0.0, 1.0], [np.inf, 1.0]]),
    "large": np.array([[0.0, 1.0], [1e30, 1.0]]),
    "named nan": {"a": [0.0, 1.0], "b": [np.nan, 1.0]},
    "named infinity": {"a": [0.0, 1.0], "b": [0.0, -np.inf]},
    "named size": {"a": [0.0, 1.0], "b": [0.0, 1.0, 2.0]},
    "named matrix": {"a": [0.0, 1.0], "b": [[0.0, 1.0]]},
    "named words": {"a": [0.0, 1.0], "b": ["x", "y"]},
    "name none": {None: [0.0, 1.0]},
    "name nan": {float("nan"): [0.0, 1.0]},
}
BAD_CONTEXTS: dict[str, Any] = {
    "size": np.ones(N_CONTEXT + 1), "rows": np.ones((1, N_CONTEXT)), "number": 1.0, "nan": [0.0, np.nan],
    "infinity": [np.inf, 0.0], "large": [1e30, 0.0], "words": ["a", "b"], "nothing": None,
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_ITEMS.values(), ids=BAD_ITEMS.keys())
def test_bad_items_are_refused_and_change_nothing(bad: Any) -> None:
    agent = played("AdaptiveTS", 5)
    before = agent.agent.to_bytes()
    for ask in (agent.act, agent.decide, agent.rank, agent.means, agent.variances, agent.propensities):
        with pytest.raises(ValueError) as refused:
            ask(USER, bad)
        assert "'b'" in str(refused.value) or not (isinstance(bad, dict) and "b" in bad), "the item is named"
    assert agent.agent.to_bytes() == before


@pytest.mark.parametrize("bad", BAD_CONTEXTS.values(), ids=BAD_CONTEXTS.keys())
def test_bad_contexts_are_refused_and_change_nothing(bad: Any) -> None:
    agent = played("AdaptiveTS", 5)
    before = agent.agent.to_bytes()
    for ask in (agent.act, agent.decide, agent.rank, agent.means, agent.variances, agent.propensities):
        with pytest.raises(ValueError, match="context"):
            ask(bad, ITEMS)
    with pytest.raises(ValueError, match="context"):
        agent.update(bad, ITEMS[0], 1.0)
    assert agent.agent.to_bytes() == before


def test_a_bad_item_is_told_from_a_bad_context() -> None:
    agent = make("LinearTS")
    with pytest.raises(ValueError, match=r"the item 1 has inf at position 0"):
        agent.act(USER, [[0.0, 1.0], [np.inf, 1.0]])
    with pytest.raises(ValueError, match=r"the item 'b' has nan at position 1"):
        agent.act(USER, {"a": [0.0, 1.0], "b": [0.0, np.nan]})
    with pytest.raises(ValueError, match=r"the context has nan at position 1"):
        agent.act([0.0, np.nan], ITEMS)
    with pytest.raises(ValueError, match=r"an item has inf at position 1"):
        agent.update(USER, [0.0, np.inf], 1.0)


@pytest.mark.parametrize("k", [0, -1, 6, 1.0, True, "2"])
def test_bad_numbers_of_positions(k: Any) -> None:
    agent = played("LinearTS", 3)
    before = agent.agent.to_bytes()
    with pytest.raises(ValueError, match="k must be from 1 to the number of candidates, 5"):
        agent.rank(USER, ITEMS, k)
    assert agent.agent.to_bytes() == before
    assert len(agent.rank(USER, ITEMS, np.int64(2))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("name", lim2.AGENTS)
def test_bad_sizes_are_refused(name: str) -> None:
    make_one: Any = lim2.AGENTS[name]
    for bad in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="n_item_features"):
            make_one(n_features=2, n_item_features=bad)
        with pytest.raises(ValueError, match="n_features"):
            make_one(n_features=bad, n_item_features=2)
    for given in ({"n_arms": 3}, {"arms": ["a", "b"]}):
        with pytest.raises(ValueError, match="leave out n_arms and arms"):
            make_one(n_features=2, n_item_features=2, **given)
    for share in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="epsilon"):
            make_one(n_features=2, n_item_features=2, epsilon=share)


def test_an_agent_for_arms_is_no_agent_for_items() -> None:
    with pytest.raises(ValueError, match="give n_item_features instead of n_arms"):
        lim2.ItemAgent(lim2.LinearTS(n_arms=2, n_features=2))


def test_a_policy_without_propensities_only_acts() -> None:
    class Last:
        def scores(self, score: StudentT, rng: np.random.Generator) -> Any:
            return np.arange(len(score.mean), dtype=float)

    agent = lim2.LinearTS(n_features=2, n_item_features=2, exploration=Last(), seed=0)
    assert agent.act(USER, ITEMS) == 4
    for ask in (agent.decide, agent.rank, agent.propensities):
        with pytest.raises(NotImplementedError, match="does not give its propensities, so only `act` works"):
            ask(USER, ITEMS)


def test_the_same_seed_plays_the_same() -> None:
    for variant in FOR_ITEMS:
        assert play(make(variant, seed=3), 12) == play(make(variant, seed=3), 12)
