"""Learning: what contexts, arms and rewards may be, batches, and that nothing else changes an agent."""

from typing import Any

import numpy as np
import pytest
from helpers.variants import N_ARMS, N_FEATURES, every_agent, make
from helpers.worlds import contexts_of, play, reward_of

GOOD = [0.1] * N_FEATURES
BAD_CONTEXTS: list[Any] = [
    [0.1] * (N_FEATURES + 1),
    [],
    [GOOD],
    0.1,
    None,
    "abcd",
    ["1", "2", "3", "4"],
    [0.1, np.nan, 0.1, 0.1],
    [0.1, np.inf, 0.1, 0.1],
    [0.1, -np.inf, 0.1, 0.1],
    [1e200, 0.1, 0.1, 0.1],
    [1j, 0.1, 0.1, 0.1],
    [None, 0.1, 0.1, 0.1],
    [[0.1], [0.1, 0.2], 0.1, 0.1],
]
BAD_ARMS: list[Any] = [-1, N_ARMS, 1.0, "0", None, True, np.nan, [0]]
BAD_REWARDS: list[Any] = [np.nan, np.inf, -np.inf, "1", None, [1.0], 1j, 1e40]


@every_agent
def test_a_batch_equals_a_loop(variant: str) -> None:
    one, many = make(variant), make(variant)
    contexts = contexts_of(40, seed=5)
    arms = [t % N_ARMS for t in range(40)]
    rewards = [reward_of(context, arm) for context, arm in zip(contexts, arms, strict=True)]
    for context, arm, reward in zip(contexts, arms, rewards, strict=True):
        one.update(context, arm, reward)
    many.update(contexts, np.array(arms), rewards)
    assert one.to_bytes() == many.to_bytes()
    assert many.info == one.info


@every_agent
def test_empty_batches_do_nothing(variant: str) -> None:
    agent, nothing = make(variant), np.empty((0, N_FEATURES))
    agent.update(nothing, [], [])
    assert agent.act_many(nothing).tolist() == []
    assert agent.rounds == 0


@every_agent
def test_learning_does_not_depend_on_decisions_asked_for(variant: str) -> None:
    agent, other = make(variant), make(variant)
    contexts = contexts_of(40, seed=6)
    for t, context in enumerate(contexts):
        other.act(context)
        for learner in (agent, other):
            learner.update(context, t % N_ARMS, reward_of(context, t % N_ARMS))
    np.testing.assert_array_equal(agent.means(contexts), other.means(contexts))
    np.testing.assert_array_equal(agent.variances(contexts), other.variances(contexts))


@every_agent
def test_inputs_are_neither_kept_nor_changed(variant: str) -> None:
    agent, clean = make(variant), make(variant)
    for original in contexts_of(30, seed=8):
        context = original.copy()
        arm = agent.act(context)
        np.testing.assert_array_equal(context, original)
        agent.update(context, arm, 1.0)
        np.testing.assert_array_equal(context, original)
        context[:] = 1e9  # a caller that uses its array again
        assert clean.act(original) == arm
        clean.update(original, arm, 1.0)
    assert agent.to_bytes() == clean.to_bytes()


@every_agent
def test_results_are_not_part_of_the_agent(variant: str) -> None:
    agent, contexts = make(variant), contexts_of(3)
    play(agent, 20)
    before = agent.to_bytes()
    decision = agent.decide(contexts[0])
    results = [agent.means(contexts), agent.variances(contexts), agent.propensities(contexts), agent.pulls]
    for result in (*results, decision.means, decision.stds, decision.propensities):
        if result.flags.writeable:
            result[...] = 7
    agent.reseed(1)
    other = make(variant)
    play(other, 20)
    assert other.to_bytes() == before
    other.decide(contexts[0])
    other.reseed(1)
    assert agent.to_bytes() == other.to_bytes()


@every_agent
@pytest.mark.parametrize(
    "convert",
    [list, tuple, lambda c: c.astype(np.float32), lambda c: c.astype(int), lambda c: c > 0],
    ids=["list", "tuple", "float32", "int", "bool"],
)
def test_what_a_context_may_be(variant: str, convert: Any) -> None:
    agent, expected = make(variant), make(variant)
    for context in 3.0 * contexts_of(20, seed=9):
        given = convert(context)
        exact = np.array(given, dtype=float)
        arm = agent.act(given)
        assert arm == expected.act(exact)
        assert isinstance(arm, int)
        agent.update(given, np.int32(arm), np.float32(0.5))
        expected.update(exact, arm, 0.5)
    assert agent.to_bytes() == expected.to_bytes()


@every_agent
def test_contexts_may_be_views(variant: str) -> None:
    """Columns of a table, every other value, rows backwards: as copies of them would be, but for rounding."""
    agent, expected = make(variant), make(variant)
    table = np.asfortranarray(contexts_of(40, seed=12))
    for t, context in enumerate(table[::2]):
        agent.update(context, t % N_ARMS, 0.5)
        expected.update(context.tolist(), t % N_ARMS, 0.5)
    agent.update(table[1::2], [0] * 20, np.ones(40)[::2])
    expected.update(table[1::2].tolist(), [0] * 20, np.ones(20))
    for context in table:
        assert agent.act(context[::-1]) == expected.act(context[::-1].copy())
    np.testing.assert_allclose(agent.means(table), expected.means(table.copy(order="C")), rtol=1e-7, atol=1e-9)


@every_agent
def test_bad_input_is_refused_and_changes_nothing(variant: str) -> None:
    agent = make(variant)
    play(agent, 30)
    before, info = agent.to_bytes(), agent.info
    for context in BAD_CONTEXTS:
        for call in (agent.act, agent.decide, lambda context: agent.update(context, 0, 1.0)):
            with pytest.raises(ValueError, match="context"):
                call(context)
    for arm in BAD_ARMS:
        with pytest.raises(ValueError, match="arm"):
            agent.update(GOOD, arm, 1.0)
        with pytest.raises(ValueError, match="arm"):
            agent.act(GOOD, arms=[arm])
    nobody: list[Any] = [[], 1, "01"]
    for arms in nobody:
        with pytest.raises(ValueError, match="eligible"):
            agent.act(GOOD, arms=arms)
    for reward in BAD_REWARDS:
        with pytest.raises(ValueError, match="reward"):
            agent.update(GOOD, 0, reward)
    assert agent.to_bytes() == before
    assert agent.info == info


@every_agent
def test_one_bad_row_refuses_the_whole_batch(variant: str) -> None:
    agent = make(variant)
    play(agent, 30)
    before = agent.to_bytes()
    two, nan = [GOOD, GOOD], [GOOD, [np.nan] * N_FEATURES]
    for contexts, arms, rewards in (
        (nan, [0, 1], [1.0, 1.0]),
        (two, [0, 9], [1.0, 1.0]),
        (two, [0, 1], [1.0, np.nan]),
        (two, [0], [1.0, 1.0]),
        (two, [0, 1], [1.0]),
        (two, [0.0, 1.0], [1.0, 1.0]),
        (two, "01", [1.0, 1.0]),
        (two, np.array(1), [1.0, 1.0]),
    ):
        with pytest.raises(ValueError, match=r"context|arm|reward"):
            agent.update(contexts, arms, rewards)
    with pytest.raises(ValueError, match="context 1"):
        agent.act_many(nan)
    with pytest.raises(ValueError, match="contexts"):
        agent.act_many(GOOD)
    assert agent.to_bytes() == before


def test_errors_say_what_is_wrong() -> None:
    agent = make("LinearTS")
    for context, message in (
        ([0.1] * 5, r"a context must be a 1-D array of 4 numbers, got shape \(5,\)"),
        ([0.1, np.nan, 0.1, 0.1], "the context has nan at position 1: all values must be finite"),
        ([1e200, 0.1, 0.1, 0.1], r"the context is too large: its norm is 1e\+200, it must be below 1e\+30"),
        (["1", "2", "3", "4"], "a context must hold real numbers only, got <U1 values"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.act(context)
    with pytest.raises(ValueError, match="arms are the whole numbers 0 to 2"):
        agent.update(GOOD, 3, 1.0)
    with pytest.raises(ValueError, match="a reward must be one real number, got '1'"):
        agent.update(GOOD, 0, "1")
    with pytest.raises(ValueError, match="finite"):
        agent.update(GOOD, 0, np.inf)
    with pytest.raises(ValueError, match=r"rewards must have shape \(2,\), one per context"):
        agent.update([GOOD, GOOD], [0, 1], [[1.0, 2.0]])
