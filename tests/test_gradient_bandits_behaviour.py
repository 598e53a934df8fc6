"""NeuralUCB and NeuralTS as a user meets them: seeds, copies, bad input, divergence, bounds, compilation."""

import copy
import logging
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gradient_world import AGENTS, N_FEATURES, both, make, parameters_of, play
from hypothesis import given, settings
from hypothesis import strategies as st

import lim2
from lim2.agents.gradient_bandit import GradientBandit
from lim2.agents.window import Window
from lim2.representation.blocks import BlockNetwork


@both
def test_learns(exploration: str) -> None:
    """The best arm is told by the sign of the first feature."""
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
    np.testing.assert_array_equal(parameters_of(first.network), parameters_of(second.network))
    copies = [copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    ahead = play(first, 20, seed=1)
    for other in copies:
        assert play(other, 20, seed=1) == ahead
        np.testing.assert_array_equal(parameters_of(first.network), parameters_of(other.network))


def test_chunks_of_contexts_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make("ucb", iterations=20)
    play(agent, 5)
    contexts = np.random.default_rng(3).normal(size=(11, N_FEATURES))
    whole = agent.means(contexts), agent.variances(contexts)
    monkeypatch.setattr("lim2.agents.gradient_bandit.CHUNK", 4 * agent.network.size)
    np.testing.assert_allclose(agent.means(contexts), whole[0], rtol=1e-12)
    np.testing.assert_allclose(agent.variances(contexts), whole[1], rtol=1e-12)


def fingerprint(agent: GradientBandit) -> bytes:
    return pickle.dumps({k: v for k, v in agent.__getstate__().items() if k != "memory"}) + pickle.dumps(
        [agent.memory.slots(), agent.memory.contexts[agent.memory.slots()], agent.memory.rewards[agent.memory.slots()]]
    )


@pytest.mark.parametrize("options", [{}, {"training": "batch"}, {"history": 4}, {"covariance": "full"}], ids=str)
def test_divergence_is_an_error_and_changes_nothing(options: dict[str, Any]) -> None:
    agent = make("ucb", normalize=False, **options)
    play(agent, 6)
    twin = copy.deepcopy(agent)
    with pytest.raises(FloatingPointError, match=r"diverged .* lower learning_rate"):
        agent.learning_rate = 1e150
        agent.update([0.5] * N_FEATURES, 0, 1.0)
    agent.learning_rate = twin.learning_rate
    agent._learn_rng = copy.deepcopy(twin._learn_rng)
    assert fingerprint(agent) == fingerprint(twin)
    assert play(agent, 6, seed=2) == play(twin, 6, seed=2)


@both
def test_normalized_contexts_may_have_any_length(exploration: str) -> None:
    agent, twin = make(exploration, iterations=20), make(exploration, iterations=20)
    context = np.linspace(-1.0, 1.0, N_FEATURES)
    for size in (1.0, 1e-20, 1e20):
        agent.update(size * context, 1, 0.5)
        twin.update(context, 1, 0.5)
    np.testing.assert_allclose(parameters_of(agent.network), parameters_of(twin.network), rtol=1e-9)
    agent.update(np.zeros(N_FEATURES), 0, 0.0)
    assert np.isfinite(agent.variances(np.zeros(N_FEATURES))).all()


@both
def test_bounded_history_bounds_memory(exploration: str) -> None:
    agent = make(exploration, iterations=2, history=70)
    play(agent, 90)
    size = agent.nbytes
    play(agent, 200)
    assert agent.nbytes == size
    assert len(agent.memory) == 70
    assert agent.rounds == 290
    whole = make(exploration, iterations=2)
    play(whole, 90)
    assert len(whole.memory) == 90


@settings(max_examples=40, deadline=None)
@given(bound=st.one_of(st.none(), st.integers(1, 150)), n=st.integers(0, 200), abandoned=st.booleans())
def test_window_holds_the_latest(bound: int | None, n: int, abandoned: bool) -> None:
    window = Window(1, bound)
    for t in range(n):
        if abandoned:
            window.stage(np.array([-1.0]), 9, -1.0)
        slots = window.stage(np.array([float(t)]), t % 3, float(t))
        window.commit()
        np.testing.assert_array_equal(slots, window.slots())
    if abandoned:
        window.stage(np.array([-1.0]), 9, -1.0)
    expected = list(range(n))[-bound:] if bound else list(range(n))
    assert len(window) == len(expected)
    assert window.rewards[window.slots()].tolist() == expected
    assert window.contexts[window.slots(), 0].tolist() == expected
    assert window.arms[window.slots()].tolist() == [t % 3 for t in expected]


def test_settings() -> None:
    agent = lim2.NeuralUCB(7, 9)
    assert agent.network.size == 7 * 9 * 100 + 2 * 100 + 1
    assert (agent.iterations, agent.initial_pulls, agent.memory.bound) == (1000, 0, None)
    assert lim2.NeuralTS(7, 9, training="batch").iterations == 100
    assert lim2.NeuralUCB(2, 3, hidden=(5,)).hidden == 5
    assert repr(lim2.NeuralTS(2, 3, hidden=5, seed=1)).startswith("NeuralTS(n_arms=2, n_features=3, hidden=5, ")
    names = list(lim2.AGENTS)
    assert names[names.index("NeuralUCB") : names.index("NeuralUCB") + 3] == [
        "NeuralUCB",
        "NeuralTS",
        "NeuralLinear-NTK",
    ]
    starting = lim2.NeuralTS(3, 2, initial_pulls=1, hidden=4, iterations=5)
    assert [starting.act([0.0, 1.0]) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"hidden": (50, 50)}, "one hidden layer"),
        ({"regularization": 0.0}, "regularization must be finite and above 0"),
        ({"regularization": "much"}, "regularization must be a number"),
        ({"nu": -1.0}, "nu must be finite and at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite and above 0"),
        ({"learning_rate": 1.0, "regularization": 1.0}, "at most 0.5"),
        ({"iterations": 0}, "iterations must be at least 1"),
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


def test_state_of_another_size_is_refused() -> None:
    net = BlockNetwork(2, 2, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="3 parameters, this network has 19"):
        net.restore({"parameters": np.zeros(3)})
    assert repr(net) == "BlockNetwork(n_arms=2, n_features=2, hidden=3)"


# Compilation


def run_fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**environment, "PATH": ""}
    )


def test_importing_and_deciding_need_no_numba() -> None:
    run_fresh("import sys, lim2; lim2.NeuralUCB(2, 2, hidden=3).act([0.0, 1.0]); assert 'numba' not in sys.modules")


def test_compiling_is_announced_once_and_the_cache_is_silent(tmp_path: Any) -> None:
    code = "import lim2\nfor _ in 'ab': lim2.NeuralTS(2, 2, hidden=3, iterations=3).update([0.0, 1.0], 0, 1.0)"
    listening = f"import logging; logging.basicConfig()\n{code}"
    first, second = (run_fresh(listening, NUMBA_CACHE_DIR=str(tmp_path)).stderr for _ in range(2))
    assert first.count("compiling") == 1
    assert second == ""


def test_without_a_place_for_a_cache_it_still_runs() -> None:
    code = (
        "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []; import lim2\n"
        "agent = lim2.NeuralTS(2, 2, hidden=3, iterations=3)\n"
        "agent.update([0.0, 1.0], 0, 1.0); print(agent.trained.steps)"
    )
    assert run_fresh(code).stdout == "3\n"


def test_compiling_is_logged_by_lim2(caplog: pytest.LogCaptureFixture) -> None:
    from lim2.representation import block_kernels

    class Compiling:
        data = {"dispatcher": block_kernels.descend_by_samples}  # noqa: RUF012

    announce = block_kernels._Announce()
    with caplog.at_level(logging.INFO, logger="lim2"):
        announce.on_start(Compiling())
        announce.on_start(Compiling())
        announce.on_end(Compiling())
    assert [record.name for record in caplog.records] == ["lim2"]
