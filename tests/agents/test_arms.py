"""Named arms, decisions with their propensities, floors, exploitation, and arms that come and go: for every agent."""

import copy
import pickle
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents.test_checks import N_ARMS, N_FEATURES, NO_START, VARIANTS, every_agent, make, own_module
from numpy.typing import NDArray

import lim2
from lim2.agents.believer import Believer
from lim2.agents.gradient_bandit import GradientBandit
from lim2.agents.priors import Carried
from lim2.exploration import Beliefs
from lim2.memory import Buffer, History
from lim2.representation import MLP

NAMES = ("red", ("a", 1), 7)  # a string, a tuple, and a number that is not an index
Float = NDArray[np.float64]


def contexts_of(rows: int, seed: int = 0) -> Float:
    return np.random.default_rng(seed).normal(size=(rows, N_FEATURES))


def reward_of(context: Float, index: int) -> float:
    return float(np.sin(context[index % 3] * context[3]) + 0.1 * index)


def play(agent: lim2.Agent, rounds: int, seed: int = 0, **how: Any) -> list[Hashable]:
    chosen: list[Hashable] = []
    for context in contexts_of(rounds, seed):
        arm = agent.act(context, **how)
        agent.update(context, arm, reward_of(context, agent.arms.index(arm)))
        chosen.append(arm)
    return chosen


def named(variant: str, names: tuple[Hashable, ...] = NAMES, seed: int = 0, **settings: Any) -> lim2.Agent:
    name, defaults = VARIANTS[variant]
    return lim2.AGENTS[name](arms=names, n_features=N_FEATURES, seed=seed, **{**defaults, **settings})


def played(variant: str, rounds: int = 30, **settings: Any) -> lim2.Agent:
    agent = named(variant, **settings)
    play(agent, rounds)
    return agent


def fresh(variant: str) -> lim2.Agent:
    """Return an agent that has decided nothing, but seen a context: with PyTorch, the first settles their type."""
    agent = named(variant)
    agent.propensities(contexts_of(1)[0])
    return agent


# Names


@every_agent
def test_names_are_all_that_differs(variant: str) -> None:
    numbers, names = make(variant), named(variant)
    assert [NAMES[arm] for arm in play(numbers, 40)] == play(names, 40)  # type: ignore[call-overload]
    assert names.arms == NAMES
    contexts = contexts_of(20, seed=1)
    many = names.act_many(contexts)
    assert many.shape == (20,)
    assert [NAMES[arm] for arm in numbers.act_many(contexts)] == many.tolist()
    chosen = [NAMES[t % 3] for t in range(20)]
    names.update_many(contexts, chosen, np.zeros(20))
    numbers.update_many(contexts, [t % 3 for t in range(20)], np.zeros(20))
    np.testing.assert_array_equal(numbers.propensities(contexts[0]), names.propensities(contexts[0]))


@every_agent
def test_names_that_are_unknown_or_wrong(variant: str) -> None:
    agent = played(variant)
    before, good = pickle.dumps(agent), contexts_of(1)[0]
    wrong: list[Any] = ["blue", 0, ("a",), 7.0, True, None, ["red"], np.nan]
    for arm in wrong:
        with pytest.raises(ValueError, match="unknown arm"):
            agent.update(good, arm, 1.0)
        with pytest.raises(ValueError, match="unknown arm"):
            agent.decide(good, arms=["red", arm])
        with pytest.raises(ValueError, match="unknown arm"):
            agent.update_many([good], [arm], [1.0])
        with pytest.raises(ValueError, match="unknown arm"):
            agent.remove_arm(arm)
        with pytest.raises(ValueError, match="unknown arm"):
            agent.propensities(good, arms=[arm])
    twice, nobody = ["red", 7, "red"], list[str]()
    for call in (agent.act, agent.decide, agent.propensities):
        with pytest.raises(ValueError, match="'red' is there twice"):
            call(good, arms=twice)
        with pytest.raises(ValueError, match="at least one arm"):
            call(good, arms=nobody)
    assert pickle.dumps(agent) == before


@pytest.mark.parametrize("name", lim2.AGENTS)
def test_arms_or_their_number(name: str) -> None:
    make_agent: Any = lim2.AGENTS[name]
    for wrong, told in (
        ({}, "either n_arms or arms"),
        ({"n_arms": 2, "arms": ["a", "b"]}, "either n_arms or arms"),
        ({"arms": []}, "empty"),
        ({"arms": ["a", "a"]}, "twice"),
        ({"arms": [1, True]}, "twice"),
        ({"arms": "ab"}, "sequence"),
        ({"arms": {"a", "b"}}, "sequence"),
        ({"arms": [["a"], "b"]}, "hashable"),
        ({"arms": [("a", []), "b"]}, "hashable"),
        ({"arms": [None, "b"]}, "hashable"),
        ({"arms": [np.nan, "b"]}, "hashable"),
    ):
        with pytest.raises(ValueError, match=told):
            make_agent(n_features=2, **wrong)
    with pytest.raises(ValueError, match="n_features"):
        make_agent(2)
    agent = make_agent(arms=np.array(["a", "b"]), n_features=2)
    assert agent.arms == ("a", "b")
    assert type(agent.arms[0]) is str
    assert "arms=" in repr(agent)


# Decisions


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
        if isinstance(decides, Believer | GradientBandit):
            np.testing.assert_allclose(decision.means, decides.means(context)[rows], rtol=1e-12)
            np.testing.assert_allclose(decision.stds**2, decides.variances(context)[rows], rtol=1e-9)
        else:
            assert np.isnan(decision.means).all()
        for agent in (decides, acts):
            agent.update(context, NAMES[t % 3], reward_of(context, t % 3))
    assert pickle.dumps(decides) == pickle.dumps(acts)


@every_agent
def test_propensities_change_nothing_and_take_rows(variant: str) -> None:
    for agent in (fresh(variant), played(variant)):
        before = pickle.dumps(agent)
        contexts = contexts_of(4, seed=2)
        rows = agent.propensities(contexts)
        assert rows.shape == (4, 3)
        for context, row in zip(contexts, rows, strict=True):
            np.testing.assert_allclose(agent.propensities(context), row, atol=1e-9)
        assert agent.propensities(contexts, arms=[7, "red"]).shape == (4, 2)
        assert agent.propensities(np.empty((0, N_FEATURES))).shape == (0, 3)
        assert pickle.dumps(agent) == before


@every_agent
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_decisions_follow_their_propensities(variant: str, floor: float) -> None:
    if variant == "Uniform" and floor:
        pytest.skip("Uniform has no floor: its propensities are 1 / k")
    agent = played(variant, 30, **({"min_propensity": floor} if floor else dict[str, Any]()))
    context, eligible = contexts_of(1, seed=3)[0], ["red", 7]
    for names in (NAMES, eligible):
        said = agent.propensities(context, arms=names)
        assert said.min() >= floor
        drawn = agent.act_many(np.tile(context, (2500, 1)), arms=names).tolist()
        shares = np.array([drawn.count(name) for name in names]) / len(drawn)
        deviations = np.sqrt(np.maximum(said * (1.0 - said), 1e-4) / len(drawn))
        assert (np.abs(shares - said) / deviations).max() < 4.5


@every_agent
def test_the_start_is_certain(variant: str) -> None:
    if variant in NO_START:
        pytest.skip("no start: exploration takes care of it")
    agent, context = named(variant), contexts_of(1)[0]
    assert agent.propensities(context, arms=[7, "red"]).tolist() == [1.0, 0.0]
    decisions = [agent.decide(context) for _ in range(6)]
    assert [decision.arm for decision in decisions] == [*NAMES, *NAMES]
    assert {decision.propensity for decision in decisions} == {1.0}
    # The turns are over; UCB is certain, and so is a network that knows no scale of its inputs yet: it gives zeros.
    assert agent.propensities(context).max() < 1.0 or "UCB" in variant or "standardized" in variant


@every_agent
def test_a_floor_holds_from_the_start(variant: str) -> None:
    if variant in NO_START:
        pytest.skip("no start: exploration takes care of it")
    agent, context = named(variant, min_propensity=0.2, initial_pulls=1), contexts_of(1)[0]
    np.testing.assert_allclose(agent.propensities(context), [0.6, 0.2, 0.2])
    assert agent.propensities(context, exploit=True).max() == 1.0
    for _ in range(30):
        decision = agent.decide(context)
        assert decision.propensities.min() >= 0.2 - 1e-12
    assert not agent._owed().any() or (agent._owed() <= 0).all()


@every_agent
def test_batches_of_decisions_with_a_floor_are_those_of_a_loop(variant: str) -> None:
    if variant == "Uniform":
        pytest.skip("Uniform has no floor: its propensities are 1 / k")
    one, many = named(variant, min_propensity=0.15), named(variant, min_propensity=0.15)
    contexts = contexts_of(30)
    assert many.act_many(contexts, arms=["red", 7]).tolist() == [one.act(c, arms=["red", 7]) for c in contexts]
    assert many.act_many(contexts, exploit=True).tolist() == [one.act(c, exploit=True) for c in contexts]
    assert pickle.dumps(one) == pickle.dumps(many)


@every_agent
def test_exploiting_plays_the_best_mean_and_uses_up_nothing(variant: str) -> None:
    for agent in (fresh(variant), played(variant)):
        before = pickle.dumps(agent)
        for context in contexts_of(5, seed=4):
            arm = agent.act(context, exploit=True)
            if isinstance(agent, Believer | GradientBandit):
                assert arm == NAMES[agent.means(context).argmax()]
            assert agent.propensities(context, exploit=True).tolist() == [float(name == arm) for name in NAMES]
        assert pickle.dumps(agent) == before


@pytest.mark.parametrize("floor", [-0.1, 0.34, np.nan, "a", None, 1.0])
def test_floors_that_cannot_be(floor: Any) -> None:
    with pytest.raises(ValueError, match="min_propensity"):
        lim2.LinearTS(3, 2, min_propensity=floor)


def test_a_floor_of_one_over_the_arms_is_uniform() -> None:
    agent = lim2.LinearTS(3, 2, min_propensity=1 / 3, initial_pulls=0, seed=0)
    np.testing.assert_allclose(agent.propensities([1.0, 0.0]), 1 / 3)
    with pytest.raises(ValueError, match="min_propensity"):
        agent.add_arm(3)
    assert agent.arms == (0, 1, 2)


def test_an_exploration_of_ones_own() -> None:
    class Greedy:
        def scores(self, posterior: Beliefs, features: Float, rng: np.random.Generator) -> Float:
            return posterior.moments(features)[0]

    class Told(Greedy):
        def propensities(self, posterior: Beliefs, features: Float, eligible: NDArray[np.intp]) -> Float:
            scores = posterior.moments(features)[0][..., eligible]
            return np.asarray(scores == scores.max(axis=-1, keepdims=True), dtype=float)

    silent = lim2.LinearTS(2, 1, exploration=Greedy(), initial_pulls=0, seed=0)
    silent.update([1.0], 1, 1.0)
    assert silent.act([1.0]) == 1
    before = pickle.dumps(silent._act_rng)
    with pytest.raises(NotImplementedError, match="propensities"):
        silent.decide([1.0])
    assert pickle.dumps(silent._act_rng) == before
    told = lim2.LinearTS(2, 1, exploration=Told(), initial_pulls=0, seed=0)
    told.update([1.0], 1, 1.0)
    assert told.decide([1.0]).propensity == 1.0


# Arms that change


OPTIMISTS = ("LiM2 by UCB", "LiM2-Transport by UCB")  # these go on with an arm of which little is known


@every_agent
@pytest.mark.parametrize("like", [None, "red"])
def test_an_added_arm_leaves_the_others_alone(variant: str, like: str | None) -> None:
    agent = played(variant, 40)
    contexts = contexts_of(5, seed=5)
    beliefs = isinstance(agent, Believer | GradientBandit)
    before: Any = (agent.means(contexts), agent.variances(contexts)) if beliefs else None  # type: ignore[attr-defined]
    pulls = agent.pulls.tolist()
    agent.add_arm("new", like=like)
    assert agent.arms == (*NAMES, "new")
    assert agent.n_arms == 4
    assert agent.pulls.tolist() == [*pulls, 0]
    assert "'new'" in repr(agent)
    if before is not None:
        for now, old in zip((agent.means(contexts), agent.variances(contexts)), before, strict=True):  # type: ignore[attr-defined]
            np.testing.assert_allclose(now[:, :3], old, rtol=1e-12, atol=1e-15)  # but for rounding of another shape
            if like is not None:
                np.testing.assert_allclose(now[:, 3], old[:, 0], rtol=1e-12, atol=1e-15)
    first = [agent.act(context) for context in contexts]
    if variant not in NO_START:
        assert first[:2] == ["new", "new"]
        assert first[2:] != ["new"] * 3 or variant in OPTIMISTS
    assert "new" in play(agent, 30)
    assert pickle.loads(pickle.dumps(agent)).act(contexts[0]) == agent.act(contexts[0])


@every_agent
def test_a_removed_arm_leaves_the_others_alone(variant: str) -> None:
    agent = played(variant, 40)
    contexts = contexts_of(5, seed=6)
    beliefs = isinstance(agent, Believer | GradientBandit)
    before: Any = (agent.means(contexts), agent.variances(contexts)) if beliefs else None  # type: ignore[attr-defined]
    agent.remove_arm(NAMES[1])
    assert agent.arms == ("red", 7)
    if before is not None:
        for now, old in zip((agent.means(contexts), agent.variances(contexts)), before, strict=True):  # type: ignore[attr-defined]
            np.testing.assert_allclose(now, old[:, [0, 2]], rtol=1e-12, atol=1e-15)
    assert set(play(agent, 30)) <= {"red", 7}
    memory = getattr(agent, "memory", None)
    if isinstance(memory, Buffer | History):
        assert memory.counts.shape == (2,)
    agent.remove_arm("red")
    assert agent.decide(contexts[0]).propensity == pytest.approx(1.0)
    with pytest.raises(ValueError, match="only arm"):
        agent.remove_arm(7)
    play(agent, 5)


@every_agent
def test_adding_and_removing_again_changes_no_beliefs(variant: str) -> None:
    agent = played(variant, 40)
    other = copy.deepcopy(agent)
    agent.add_arm("new", like=7)
    agent.remove_arm("new")
    contexts = contexts_of(5, seed=7)
    np.testing.assert_allclose(agent.propensities(contexts), other.propensities(contexts), atol=1e-12)
    assert agent.nbytes == other.nbytes
    assert agent.pulls.tolist() == other.pulls.tolist()


@every_agent
def test_bad_changes_change_nothing(variant: str) -> None:
    agent = played(variant)
    before = pickle.dumps(agent)
    wrong: list[Any] = ["red", None, [1], np.nan]
    for name in wrong:
        with pytest.raises(ValueError, match=r"twice|hashable"):
            agent.add_arm(name)
    with pytest.raises(ValueError, match="unknown arm"):
        agent.add_arm("new", like="blue")
    assert pickle.dumps(agent) == before


@every_agent
def test_an_arm_added_before_the_first_round_is_as_if_it_had_been_there(variant: str) -> None:
    """What can be compared of networks drawn otherwise: sizes of all that holds state."""
    grown, whole = named(variant, ("a", "b")), named(variant, ("a", "b", "c"))
    grown.add_arm("c")
    assert grown.nbytes == whole.nbytes
    assert grown.propensities(contexts_of(1)[0]).shape == (3,)
    if VARIANTS[variant][0] == "LinearTS":
        assert play(grown, 40) == play(whole, 40)


@every_agent
def test_an_agent_whose_arms_have_changed_is_saved_and_loaded(variant: str, tmp_path: Path) -> None:
    agent = played(variant)
    agent.add_arm("new", like="red")
    agent.remove_arm(7)
    agent.save(tmp_path / "agent.lim2")
    loaded = lim2.load(tmp_path / "agent.lim2", representation=own_module(variant))
    assert loaded.arms == agent.arms == ("red", ("a", 1), "new")
    assert play(loaded, 30, seed=1) == play(agent, 30, seed=1)


@every_agent
def test_a_snapshot_tells_what_the_agent_would(variant: str) -> None:
    agent = played(variant)
    snapshot, context, rows = agent.snapshot(), contexts_of(1, seed=5)[0], contexts_of(4, seed=6)
    for how in ({}, {"arms": ["red", 7]}, {"arms": [7], "exploit": True}, {"exploit": True}):
        np.testing.assert_array_equal(snapshot.propensities(rows, **how), agent.propensities(rows, **how))
        ours, theirs = snapshot.decide(context, **how), agent.decide(context, **how)
        assert ours.arms == theirs.arms
        np.testing.assert_array_equal(ours.propensities, theirs.propensities)
        np.testing.assert_array_equal(ours.means, theirs.means)
    assert snapshot.act(context, exploit=True) == agent.act(context, exploit=True)
    assert snapshot.act_many(rows, ["red"]).tolist() == ["red"] * 4
    agent.remove_arm("red")
    assert snapshot.arms == NAMES
    assert len(snapshot.decide(context).means) == 3


def test_info_names_the_arm() -> None:
    agent = lim2.LinearTS(arms=["red", "green"], n_features=1, seed=0)
    agent.update([1.0], "green", 1.0)
    assert agent.info is not None
    assert agent.info.arm == "green"


def test_numbers_stay_numbers_when_arms_change() -> None:
    agent = lim2.LinearTS(3, 2, seed=0)
    agent.remove_arm(1)
    assert list(agent.arms) == [0, 2]
    assert agent.act_many(np.ones((4, 2))).tolist() == [0, 2, 0, 2]
    agent.add_arm(1)
    assert list(agent.arms) == [0, 2, 1]
    assert agent.act_many(np.ones((4, 2))).dtype == np.intp
    assert repr(agent).startswith("LinearTS(n_features=2, arms=[0, 2, 1]")


def test_sizes_follow_the_arms_unless_they_were_given() -> None:
    agent = lim2.LiM2(3, 2, seed=0)
    agent.add_arm("new")
    assert (agent.memory.capacity, agent.batch) == (400, 64)
    agent.remove_arm(0)
    agent.remove_arm(1)
    assert (agent.memory.capacity, agent.batch) == (200, 32)
    given = lim2.LiM2(3, 2, buffer=50, batch=10, seed=0)
    given.add_arm("new")
    given.remove_arm(0)
    assert (given.memory.capacity, given.batch) == (50, 10)


def test_tuples_of_others_stay_when_the_buffer_shrinks() -> None:
    agent = lim2.LiM2(2, 2, hidden=4, seed=0)
    for t in range(150):
        agent.update([1.0, 0.0], int(t >= 10), 0.0)
    agent.remove_arm(0)
    assert (agent.memory.capacity, agent.memory.counts.tolist()) == (140, [140])
    agent.add_arm("new")
    assert agent.memory.capacity == 200


def with_a_twin(**settings: Any) -> lim2.LiM2:
    agent = lim2.LiM2(2, 3, hidden=8, refresh="all", matching=None, mean_prior=False, seed=0, **settings)
    for t, context in enumerate(np.random.default_rng(0).normal(size=(60, 3))):
        agent.update(context, t % 2, float(context[t % 2]))
    agent.add_arm("twin", like=1)
    return agent


@pytest.mark.parametrize("recount", [True, False])
@pytest.mark.parametrize("noise", ["history", "buffer"])
def test_an_arm_like_another_has_its_tuples(recount: bool, noise: str) -> None:
    agent = with_a_twin(recount=recount, noise=noise)
    assert agent.memory.counts.tolist() == [30, 30, 30]
    agent.update([1.0, 0.0, -1.0], 0, 1.0)  # trains the network, and refits every arm from its tuples
    contexts = np.random.default_rng(1).normal(size=(5, 3))
    for values in (agent.means(contexts), agent.variances(contexts)):
        np.testing.assert_allclose(values[:, 2], values[:, 1], rtol=1e-9)
    assert agent.pulls.tolist() == [31, 30, 0]


def test_tuples_without_room_count_as_evicted() -> None:
    agent = with_a_twin(recount=False, buffer=40)
    held = agent.memory.counts.tolist()
    assert (sum(held), held[2]) == (40, 0)
    assert isinstance(agent.prior, Carried)
    np.testing.assert_allclose(agent.prior.covs[2], agent.posterior.cov[2], rtol=1e-9)  # nothing is left to add
    agent.update([1.0, 0.0, -1.0], 0, 1.0)
    assert agent.posterior.a[2] == agent.posterior.a[1]
    rewards = agent._evicted_squares[1] + (agent.memory.rewards[agent.memory.rows(1)] ** 2).sum()
    assert agent._evicted_squares[2] == pytest.approx(rewards)


def test_a_representation_that_cannot_change() -> None:
    class Rigid(MLP):
        add_arm = None  # type: ignore[assignment]

    agent = lim2.LiM2(2, 2, representation=Rigid((3,)), seed=0)
    before = pickle.dumps(agent.posterior)
    with pytest.raises(NotImplementedError, match="add_arm"):
        agent.add_arm("new")
    assert agent.arms == (0, 1)
    assert pickle.dumps(agent.posterior) == before


def test_the_suite_covers_every_agent() -> None:
    assert {name for name, _ in VARIANTS.values()} == set(lim2.AGENTS)
    assert len(NAMES) == N_ARMS
