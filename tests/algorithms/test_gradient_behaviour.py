"""NeuralUCB and NeuralTS as a user meets them: seeds, copies, bad input, divergence, bounds, files."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from algorithms.gradient_world import (
    AGENTS,
    N_ARMS,
    N_FEATURES,
    algorithm,
    both,
    context_of,
    flat,
    learned,
    make,
    play,
)
from hypothesis import given
from hypothesis import strategies as st

import lim2
from lim2.algorithms.gradient import State
from lim2.memory import empty, store_latest
from lim2.moments import no_moments
from lim2.state import check, leaves, rebuilt


@both
def test_learns(exploration: str) -> None:
    """The sign of the first feature decides which arm is best."""
    agent = AGENTS[exploration](2, 2, hidden=20, seed=0)
    rng = np.random.default_rng(0)
    late = []
    for t in range(400):
        context = rng.normal(size=2)
        arm = agent.act(context)
        reward = float(arm == (context[0] > 0))
        agent.update(context, arm, reward)
        late.append(reward if t >= 200 else 0.0)
    assert sum(late) > 180


@both
@pytest.mark.parametrize("options", [{}, {"covariance": "full"}, {"training": "batch"}, {"history": 5}], ids=str)
def test_same_seed_same_decisions_also_after_a_copy(exploration: str, options: dict[str, Any]) -> None:
    first, second = make(exploration, iterations=20, **options), make(exploration, iterations=20, **options)
    assert play(first, 20) == play(second, 20)
    np.testing.assert_array_equal(flat(first.state.network), flat(second.state.network))
    copies = [copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    ahead = play(first, 20, seed=1)
    for other in copies:
        assert play(other, 20, seed=1) == ahead
        np.testing.assert_array_equal(flat(first.state.network), flat(other.state.network))


def test_chunks_of_contexts_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make("ucb", iterations=20)
    play(agent, 5)
    contexts = np.random.default_rng(3).normal(size=(11, N_FEATURES))
    whole = agent.means(contexts), agent.variances(contexts)
    monkeypatch.setattr("lim2.algorithms.gradient.CHUNK", 4 * agent.state.network.size)
    np.testing.assert_allclose(agent.means(contexts), whole[0], rtol=1e-12)
    np.testing.assert_allclose(agent.variances(contexts), whole[1], rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"training": "batch"}, {"history": 4}, {"covariance": "full"}], ids=str)
def test_divergence_is_an_error_and_changes_nothing(options: dict[str, Any]) -> None:
    agent = make("ucb", normalize=False, **options)
    play(agent, 6)
    twin = copy.deepcopy(agent)
    with pytest.raises(FloatingPointError, match=r"diverged .* lower learning_rate"):
        agent.update([1e20] * N_FEATURES, 0, 1.0)
    assert pickle.dumps(copy.deepcopy(agent)) == pickle.dumps(copy.deepcopy(twin))
    assert play(agent, 6, seed=2) == play(twin, 6, seed=2)


@both
def test_normalized_contexts_may_have_any_length(exploration: str) -> None:
    agent, twin = make(exploration, iterations=20), make(exploration, iterations=20)
    context = np.linspace(-1.0, 1.0, N_FEATURES)
    for size in (1.0, 1e-20, 1e20):
        agent.update(size * context, 1, 0.5)
        twin.update(context, 1, 0.5)
    np.testing.assert_allclose(flat(agent.state.network), flat(twin.state.network), rtol=1e-9)
    agent.update(np.zeros(N_FEATURES), 0, 0.0)
    assert np.isfinite(agent.variances(np.zeros(N_FEATURES))).all()


@both
def test_bounded_history_bounds_memory(exploration: str) -> None:
    agent = make(exploration, iterations=2, history=70)
    play(agent, 90)
    size = agent.nbytes
    play(agent, 200)
    assert agent.nbytes == size
    assert agent.state.memory.held == 70
    assert agent.rounds == 290
    info = agent.info
    assert info is not None
    assert (info.stored, info.evicted) == (70, 220)
    whole = make(exploration, iterations=2)
    play(whole, 90)
    assert whole.state.memory.held == 90


@given(bound=st.one_of(st.none(), st.integers(1, 150)), n=st.integers(0, 200), abandoned=st.booleans())
def test_the_history_holds_the_latest_in_order_of_age(bound: int | None, n: int, abandoned: bool) -> None:
    memory = empty(bound, 3, (1,))
    for t in range(n):
        if abandoned:  # what an update that fails leaves behind
            store_latest(memory, np.array([-1.0]), 2, -1.0)
        memory = store_latest(memory, np.array([float(t)]), t % 3, float(t))
    expected, rows = (list(range(n))[-bound:] if bound else list(range(n))), memory.rows()
    assert memory.held == len(expected)
    assert memory.rewards[rows].tolist() == expected
    assert memory.contexts[rows, 0].tolist() == expected
    assert memory.arms[rows].tolist() == [t % 3 for t in expected]
    assert memory.counts.tolist() == [sum(t % 3 == arm for t in expected) for arm in range(3)]


def test_an_arm_that_leaves_takes_its_tuples_along_and_a_copy_brings_none() -> None:
    agent = make("thompson", iterations=5, history=40)
    play(agent, 30)
    held = agent.state.memory.counts.tolist()
    agent.add_arm("new", like=0)
    assert agent.state.memory.counts.tolist() == [*held, 0]
    context = np.ones(N_FEATURES)
    assert agent.means(context)[3] == pytest.approx(agent.means(context)[0], rel=1e-12)
    assert agent.variances(context)[3] == pytest.approx(agent.variances(context)[0], rel=1e-12)
    agent.remove_arm(0)
    assert agent.state.memory.counts.tolist() == [*held[1:], 0]
    for arm in (1, 2, "new") * 10:
        agent.update(context, arm, 1.0)
    assert agent.state.memory.counts.sum() == 40


def test_settings() -> None:
    agent = lim2.NeuralUCB(7, 9)
    assert agent.state.network.size == 7 * 9 * 100 + 2 * 100 + 1
    assert agent.state.memory.capacity is None
    assert [agent.get_params()[name] for name in ("iterations", "initial_pulls", "history")] == [None, 0, None]
    assert (algorithm("ucb").descent.steps, algorithm("ucb", training="batch").descent.steps) == (1000, 100)
    assert lim2.NeuralUCB(2, 3, hidden=(5,)).state.network.bias.shape == (5,)
    assert repr(lim2.NeuralTS(2, 3, hidden=5, seed=1)) == "NeuralTS(n_arms=2, n_features=3, seed=1, hidden=5)"
    names = list(lim2.AGENTS)
    start = names.index("NeuralUCB")
    assert names[start : start + 3] == ["NeuralUCB", "NeuralTS", "NeuralLinearNTK"]
    starting = lim2.NeuralTS(3, 2, initial_pulls=1, hidden=4, iterations=5)
    assert [starting.act([0.0, 1.0]) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"hidden": (50, 50)}, "one hidden layer"),
        ({"regularization": 0.0}, "regularization must be finite and above 0"),
        ({"regularization": 1e-70}, "regularization must be at least 1e-60"),
        ({"regularization": "much"}, "regularization must be a number"),
        ({"nu": -1.0}, "nu must be finite and at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite and above 0"),
        ({"learning_rate": 0.9, "regularization": 1.0}, "at most 0.5"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"iterations": 10**6 + 1}, "iterations must be at most 10+, got 1000001"),
        ({"stop_loss": -0.1}, "stop_loss must be finite"),
        ({"training": "epoch"}, "training must be one of 'sample', 'batch'"),
        ({"covariance": "block"}, "covariance must be one of 'diagonal', 'full'"),
        ({"history": 0}, "history must be at least 1"),
        ({"covariance": "full", "hidden": 1000}, "use covariance='diagonal' or a smaller hidden"),
    ],
    ids=str,
)
def test_bad_settings_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("ucb", **options)


# Files: a state from its leaves, and states that are refused

VARIANTS: list[dict[str, Any]] = [
    {},
    {"covariance": "full", "training": "batch", "history": 5},
    {"standardize": True, "history": 20},
]


def canonical(state: State) -> State:
    return state._replace(memory=state.memory.canonical())


def played(**options: Any) -> tuple[Any, State]:
    how, rng = algorithm("thompson", iterations=5, **options), np.random.default_rng(0)
    state = how.init(N_ARMS, rng)
    for t in range(9):
        state, _ = learned(how, state, context_of(rng), t % N_ARMS, 1.0, rng)
    return how, canonical(state)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_state_is_rebuilt_from_its_leaves(options: dict[str, Any]) -> None:
    how, state = played(**options)
    other = rebuilt(how.state_type, dict(leaves(state)), how.kinds())
    check(other, how.sizes(N_ARMS))
    how.check(other)
    context = np.ones(N_FEATURES)
    ahead = [learned(how, s, context, 1, 0.5, np.random.default_rng(3))[0] for s in (state, other)]
    for (path, one), (_, two) in zip(*(leaves(canonical(s)) for s in ahead), strict=True):
        np.testing.assert_array_equal(one, two, err_msg=path)


def with_leaf(path: str, change: Callable[[Any], Any]) -> Callable[[State], State]:
    def changed(state: State) -> State:
        part, _, leaf = path.rpartition("/")
        inner = getattr(state, part)
        new: State = state._replace(**{part: inner._replace(**{leaf: change(getattr(inner, leaf))})})
        return new

    return changed


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        (0, with_leaf("network/weights", lambda a: a[:-1]), "network/weights has shape"),
        (0, with_leaf("network/head", lambda a: a[:-1]), "network/head has shape"),
        (0, with_leaf("network/head_bias", lambda a: np.append(a, 0.0)), "network/head_bias has shape"),
        (0, with_leaf("network/bias", lambda a: a + np.nan), "not finite"),
        (0, with_leaf("network/bias", lambda a: a + 1e60), "too large"),
        (0, with_leaf("precision/blocks", lambda a: -a), "not nonnegative"),
        (0, with_leaf("precision/shared", lambda a: a[1:]), "precision/shared has shape"),
        (0, with_leaf("memory/stamps", lambda a: a[::-1].copy()), "order of age"),
        (0, with_leaf("memory/capacity", lambda _: 20), "order of age"),
        (0, with_leaf("memory/contexts", lambda a: a.astype(np.int64)), "expected float64"),
        (1, with_leaf("precision/inverse", lambda a: -a), "not positive semi-definite"),
        (1, with_leaf("precision/inverse", lambda a: a[1:, 1:]), "precision/inverse has shape"),
        (2, lambda state: state._replace(moments=None), "moments is missing"),
        (0, lambda state: state._replace(moments=no_moments((N_FEATURES,))), "moments is present, but must be absent"),
    ],
)
def test_impossible_states_are_refused(options: int, change: Callable[[State], State], message: str) -> None:
    how, state = played(**VARIANTS[options])
    leaves_of_file = dict(leaves(change(state)))
    with pytest.raises(ValueError, match=message):
        other = rebuilt(how.state_type, leaves_of_file, how.kinds())
        check(other, how.sizes(N_ARMS))
        how.check(other)
