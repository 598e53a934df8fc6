"""Names of arms, and arms that come and go: for every agent."""

import pickle
from typing import Any

import numpy as np
import pytest
from helpers.variants import (
    EXAMPLE,
    N_FEATURES,
    NAMES,
    NO_START,
    SMALL,
    VARIANT,
    VARIANTS,
    believes,
    every_agent,
    make,
    named,
    own_module,
)
from helpers.worlds import contexts_of, play, played

import lim2

OPTIMISTS = (
    "LiM2 by UCB",
    "AdaptiveTS, linear",
    "AdaptiveTS that often detects a change",
)  # go on with an arm of which little is known


# Names


@every_agent
def test_names_are_all_that_differs(variant: str) -> None:
    numbers, names = make(variant), named(variant)
    assert [NAMES[arm] for arm in play(numbers, 40)] == play(names, 40)
    assert names.arms == NAMES
    contexts = contexts_of(20, seed=1)
    many = names.act_many(contexts)
    assert many.shape == (20,)
    assert [NAMES[arm] for arm in numbers.act_many(contexts)] == many.tolist()
    names.update(contexts, [NAMES[t % 3] for t in range(20)], np.zeros(20))
    numbers.update(contexts, [t % 3 for t in range(20)], np.zeros(20))
    np.testing.assert_array_equal(numbers.propensities(contexts[0]), names.propensities(contexts[0]))


@every_agent
def test_names_that_are_unknown_or_wrong(variant: str) -> None:
    agent = played(variant)
    before, good = agent.to_bytes(), contexts_of(1)[0]
    wrong: list[Any] = ["blue", 0, ("a",), 7.0, True, None, ["red"], np.nan]
    for arm in wrong:
        for call in (
            lambda arm: agent.update(good, arm, 1.0),
            lambda arm: agent.decide(good, arms=["red", arm]),
            lambda arm: agent.update([good], [arm], [1.0]),
            agent.remove_arm,
            lambda arm: agent.propensities(good, arms=[arm]),
        ):
            with pytest.raises(ValueError, match="unknown arm"):
                call(arm)
    with pytest.raises(ValueError, match=r"arms are 'red', \('a', 1\), 7"):
        agent.update(good, "blue", 1.0)
    twice, nobody = ["red", 7, "red"], list[str]()
    for decide in (agent.act, agent.decide, agent.propensities):
        with pytest.raises(ValueError, match="arms names 'red' twice"):
            decide(good, arms=twice)
        with pytest.raises(ValueError, match="at least one eligible arm"):
            decide(good, arms=nobody)
    assert agent.to_bytes() == before


@pytest.mark.parametrize("name", lim2.AGENTS)
def test_arms_or_their_number(name: str) -> None:
    make_agent = lim2.AGENTS[name]
    for wrong, message in (
        ({}, "either n_arms or arms"),
        ({"n_arms": 2, "arms": ["a", "b"]}, "either n_arms or arms"),
        ({"arms": []}, "empty"),
        ({"arms": ["a", "a"]}, "twice"),
        ({"arms": [1, True]}, "twice"),
        ({"arms": "ab"}, "sequence"),
        ({"arms": {"a", "b"}}, "sequence"),
        ({"arms": b"ab"}, "sequence"),
        ({"arms": 3}, "sequence"),
        ({"arms": [["a"], "b"]}, "hashable"),
        ({"arms": [("a", []), "b"]}, "hashable"),
        ({"arms": [None, "b"]}, "hashable"),
        ({"arms": [np.nan, "b"]}, "hashable"),
    ):
        with pytest.raises(ValueError, match=message):
            make_agent(n_features=2, **wrong)
    with pytest.raises(ValueError, match="n_features"):
        make_agent(2)
    agent = make_agent(arms=np.array(["a", "b"]), n_features=2)
    assert agent.arms == ("a", "b")
    assert type(agent.arms[0]) is str
    assert "arms=" in repr(agent)
    for arms in (iter(["a", "b"]), {"a": 1, "b": 2}.keys(), (name for name in "ab")):
        assert make_agent(arms=arms, n_features=2).clone().arms == ("a", "b")


# Arms that change


@every_agent
@pytest.mark.parametrize("like", [None, "red"])
def test_an_added_arm_leaves_the_others_alone(variant: str, like: str | None) -> None:
    agent, contexts = played(variant, 40), contexts_of(5, seed=5)
    before, pulls = (agent.means(contexts), agent.variances(contexts)), agent.pulls.tolist()
    agent.add_arm("new", like=like)
    assert agent.arms == (*NAMES, "new")
    assert agent.n_arms == 4
    assert agent.pulls.tolist() == [*pulls, 0]
    assert "'new'" in repr(agent)
    if believes(agent):
        for now, old in zip((agent.means(contexts), agent.variances(contexts)), before, strict=True):
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
    agent, contexts = played(variant, 40), contexts_of(5, seed=6)
    before = agent.means(contexts), agent.variances(contexts)
    agent.remove_arm(NAMES[1])
    assert agent.arms == ("red", 7)
    for now, old in zip((agent.means(contexts), agent.variances(contexts)), before, strict=True):
        np.testing.assert_allclose(now, old[:, [0, 2]], rtol=1e-12, atol=1e-15)
    assert set(play(agent, 30)) <= {"red", 7}
    if hasattr(agent.state, "memory"):
        assert agent.state.memory.counts.shape == (2,)
    agent.remove_arm("red")
    assert agent.decide(contexts[0]).propensity == pytest.approx(1.0)
    with pytest.raises(ValueError, match="only arm"):
        agent.remove_arm(7)
    play(agent, 5)


@every_agent
def test_adding_and_removing_again_changes_no_beliefs(variant: str) -> None:
    agent = played(variant, 40)
    other = agent.copy()
    agent.add_arm("new", like=7)
    agent.remove_arm("new")
    contexts = contexts_of(5, seed=7)
    np.testing.assert_allclose(agent.propensities(contexts), other.propensities(contexts), atol=1e-12)
    assert agent.nbytes == pytest.approx(other.nbytes, abs=8 * 3)  # where an arm's oldest tuple lies is found anew
    assert agent.pulls.tolist() == other.pulls.tolist()


@every_agent
def test_bad_changes_change_nothing(variant: str) -> None:
    agent = played(variant)
    before = agent.to_bytes()
    wrong: list[Any] = ["red", None, [1], np.nan]
    for name in wrong:
        with pytest.raises(ValueError, match=r"twice|hashable"):
            agent.add_arm(name)
    with pytest.raises(ValueError, match="unknown arm"):
        agent.add_arm("new", like="blue")
    assert agent.to_bytes() == before


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
def test_an_agent_whose_arms_have_changed_is_saved_and_loaded(variant: str) -> None:
    agent = played(variant)
    agent.add_arm("new", like="red")
    agent.remove_arm(7)
    loaded = lim2.from_bytes(agent.to_bytes(), representation=own_module(variant))
    assert loaded.arms == agent.arms == ("red", ("a", 1), "new")
    assert play(loaded, 30, seed=1) == play(agent, 30, seed=1)


def test_a_copy_starts_with_the_arms_of_now_and_a_clone_with_those_of_the_settings() -> None:
    agent = lim2.LinearTS(arms=["a", "b"], n_features=N_FEATURES, seed=0)
    agent.add_arm("c")
    agent.remove_arm("a")
    assert agent.copy().arms == ("b", "c")
    assert agent.clone().arms == ("a", "b")


def test_numbers_stay_numbers_when_arms_change() -> None:
    agent = lim2.LinearTS(3, 2, seed=0)
    agent.remove_arm(1)
    assert list(agent.arms) == [0, 2]
    assert agent.act_many(np.ones((4, 2))).tolist() == [0, 2, 0, 2]
    agent.add_arm(1)
    assert list(agent.arms) == [0, 2, 1]
    assert agent.act_many(np.ones((4, 2))).dtype == np.intp
    assert repr(agent) == "LinearTS(n_features=2, seed=0, arms=[0, 2, 1])"


def test_sizes_follow_the_arms_unless_they_were_given() -> None:
    agent: Any = lim2.LiM2(3, 2, hidden=4, seed=0)
    agent.add_arm("new")
    assert (agent.state.memory.capacity, agent.algorithm.batch_size(agent.n_arms)) == (400, 64)
    agent.remove_arm(0)
    agent.remove_arm(1)
    assert (agent.state.memory.capacity, agent.algorithm.batch_size(agent.n_arms)) == (200, 32)
    given: Any = lim2.LiM2(3, 2, hidden=4, buffer=50, batch=10, seed=0)
    given.add_arm("new")
    given.remove_arm(0)
    assert (given.state.memory.capacity, given.algorithm.batch_size(given.n_arms)) == (50, 10)


def test_tuples_of_others_stay_when_the_buffer_shrinks() -> None:
    agent = lim2.LiM2(2, 2, hidden=4, seed=0)
    for t in range(150):
        agent.update([1.0, 0.0], int(t >= 10), 0.0)
    agent.remove_arm(0)
    assert (agent.state.memory.capacity, agent.state.memory.counts.tolist()) == (140, [140])
    agent.add_arm("new")
    assert agent.state.memory.capacity == 200


def test_the_suite_covers_every_agent() -> None:
    assert {name for name, _ in VARIANTS.values()} == set(lim2.AGENTS) == {*SMALL, VARIANT, VARIANTS[EXAMPLE][0]}
