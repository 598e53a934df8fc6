"""NeuralUCB and NeuralTS against the literal oracle, finite differences and closed forms."""

import copy
import logging
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle.gradient_bandit import OracleGradientBandit

import lim2
from lim2.agents.gradient_bandit import GradientBandit
from lim2.agents.window import Window
from lim2.exploration.gradient_precision import Diagonal, Full
from lim2.representation.blocks import BlockNetwork, Descent

Array = NDArray[np.float64]
N_ARMS, N_FEATURES, HIDDEN = 3, 6, 8
TOLERANCE = 1e-8
AGENTS: dict[str, type[lim2.NeuralUCB] | type[lim2.NeuralTS]] = {"ucb": lim2.NeuralUCB, "thompson": lim2.NeuralTS}
both = pytest.mark.parametrize("exploration", AGENTS)


def make(exploration: str, **options: Any) -> GradientBandit:
    """An agent of the tests' sizes."""
    return AGENTS[exploration](N_ARMS, N_FEATURES, **{"hidden": HIDDEN, "seed": 1, **options})


def next_order(agent: GradientBandit, n: int) -> list[int]:
    """The order that the agent's next update of n tuples will go by."""
    rng, agent._learn_rng = agent._learn_rng, copy.deepcopy(agent._learn_rng)
    order: list[int] = agent._shuffled(n).tolist()
    agent._learn_rng = rng
    return order


def oracle_like(agent: GradientBandit, exploration: str, **options: Any) -> OracleGradientBandit:
    """Start the oracle from the agent's parameters."""
    net = agent.network
    concatenated = net.weights.transpose(2, 0, 1).reshape(net.hidden, -1)  # (hidden, n_arms * d)
    layers = concatenated, net.bias, net.head, float(net.head_bias[0])
    options = {"iterations": agent.iterations, **{k: v for k, v in options.items() if k != "hidden"}}
    return OracleGradientBandit(*layers, net.n_arms, exploration=exploration, **options)


def context_of(rng: np.random.Generator) -> Array:
    """A context with a few zeros in it."""
    context: Array = rng.normal(size=N_FEATURES) * (rng.random(N_FEATURES) < 0.8)
    return context


def reward_of(context: Array, arm: int, rng: np.random.Generator) -> float:
    clean = (0.5, context[0] * context[1], np.sin(2.0 * context[2]))[arm]
    return float(clean + 0.1 * rng.normal())


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def run_together(exploration: str, rounds: int, **options: Any) -> GradientBandit:
    """Let an agent and its oracle play, each by itself, with the same draws and orders."""
    agent = make(exploration, **options)
    oracle = oracle_like(agent, exploration, **options)
    world = np.random.default_rng(7)
    probes = np.array([context_of(world) for _ in range(3)])
    for t in range(rounds):
        context = context_of(world)
        draws = copy.deepcopy(agent._act_rng).standard_normal(N_ARMS)
        arm = agent.act(context)
        assert arm == oracle.act(context, draws), f"decision of round {t}"
        reward = reward_of(context, arm, world)
        held = t + 1 if agent.memory.bound is None else min(t + 1, agent.memory.bound)
        order = next_order(agent, held)
        agent.update(context, arm, reward)
        steps, loss = oracle.update(context, arm, reward, order)
        assert agent.trained.steps == steps, f"steps of round {t}"
        close(agent.trained.loss, loss, f"loss of round {t}")
        if t % 25 == 0 or t == rounds - 1:
            inputs = [[oracle.encode(c, k) for k in range(N_ARMS)] for c in probes]
            close(agent.means(probes), [[oracle.f(x) for x in row] for row in inputs], f"means of round {t}")
            close(agent.variances(probes), [[oracle.variance(x) for x in row] for row in inputs], f"variances, {t}")
            weights = agent.network.weights.transpose(2, 0, 1).reshape(agent.hidden, -1)
            close(weights, oracle.W1, f"weights of round {t}")
    assert len(np.unique(agent.pulls)) > 1, "a run that plays all arms alike shows little"
    return agent


SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "full": {"covariance": "full"},
    "bounded": {"history": 30},
    "bounded, full": {"history": 30, "covariance": "full"},
    "raw contexts": {"normalize": False},
    "strong decay": {"regularization": 5.0, "learning_rate": 0.05},
    "little exploration": {"nu": 0.01, "regularization": 0.1},
    "no early stop": {"stop_loss": 0.0},
    "early stop": {"stop_loss": 0.05},
}


@both
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_by_samples(exploration: str, options: dict[str, Any]) -> None:
    run_together(exploration, rounds=300, **{"iterations": 60, **options})


@both
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_by_batches(exploration: str, options: dict[str, Any]) -> None:
    rounds = 200 if "history" in options else 100
    run_together(exploration, rounds, **{"training": "batch", "iterations": 4, "learning_rate": 0.1, **options})


@both
def test_published_size(exploration: str) -> None:
    """100 hidden units and 1,000 steps a round, for fewer rounds."""
    agent = run_together(exploration, rounds=12, hidden=100, iterations=1000)
    assert agent.trained.steps > 100


def test_early_stop_was_used_and_so_was_the_limit() -> None:
    agent = make("ucb", stop_loss=0.05, iterations=60)
    rng = np.random.default_rng(0)
    steps = []
    for _ in range(40):
        context = context_of(rng)
        agent.update(context, 0, 0.5)
        steps.append(agent.trained.steps)
    assert steps[0] < 60
    assert agent.trained.loss <= 0.05
    agent.update(context, 0, 50.0)
    assert agent.trained.steps == 60


# Gradients, and the block form


def parameters_of(net: BlockNetwork) -> Array:
    return np.array(net.state()["parameters"])


def written_out(net: BlockNetwork, context: Array, arm: int) -> Array:
    """The gradient of an arm's output, from its factors, in the order of the network's parameters."""
    _, factors = net.forward(context[None], arm)
    gates, hidden = factors.gates[0, 0], factors.hidden[0, 0]
    own = np.zeros_like(net.weights)
    own[arm] = np.outer(context, gates)
    return np.concatenate([own.ravel(), gates, hidden, [1.0]])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), arm=st.integers(0, N_ARMS - 1))
def test_gradient_against_finite_differences(seed: int, arm: int) -> None:
    rng = np.random.default_rng(seed)
    net = BlockNetwork(N_ARMS, N_FEATURES, HIDDEN, rng)
    context = context_of(rng)
    start, step = parameters_of(net), 1e-6
    slopes = np.empty(net.size)
    for p in range(net.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[p] += sign * step
            net.restore({"parameters": moved})
            ends.append(float(net.forward(context[None], arm)[0][0, 0]))
        slopes[p] = (ends[0] - ends[1]) / (2.0 * step)
    net.restore({"parameters": start})
    before_relu = context @ net.weights[arm] + net.bias
    if np.abs(before_relu).min() > 1e-5:  # at a kink there is no derivative to compare with
        np.testing.assert_allclose(written_out(net, context, arm), slopes, atol=1e-8)


@pytest.mark.parametrize("training", ["sample", "batch"])
def test_training_step_against_finite_differences(training: str) -> None:
    rng = np.random.default_rng(3)
    net = BlockNetwork(N_ARMS, N_FEATURES, HIDDEN, rng)
    context, arm, reward, rate, decay = context_of(rng), 1, 0.7, 1e-3, 0.4
    start, step = parameters_of(net), 1e-6

    def loss(parameters: Array) -> float:
        net.restore({"parameters": parameters})
        error = float(net.forward(context[None], arm)[0][0, 0]) - reward
        return error**2 + 0.5 * decay * float(parameters @ parameters)

    slopes = np.array([(loss(start + e) - loss(start - e)) / (2.0 * step) for e in step * np.eye(net.size)])
    net.restore({"parameters": start})
    how = Descent(steps=1, rate=rate, decay=decay, stop_loss=0.0)
    if training == "sample":
        one = np.zeros(1, dtype=np.intp)
        net.train_by_samples(context[None], np.array([arm]), np.array([reward]), one, how)
    else:
        net.train_by_batches(context[None], np.array([reward]), [0, 0, 1, 1], how)
    np.testing.assert_allclose((start - parameters_of(net)) / rate, slopes, atol=1e-7)


def test_blocks_against_concatenation() -> None:
    """Every arm at once in blocks, against a network that sees the whole vector: outputs and gradients."""
    agent = make("ucb", normalize=False)
    oracle = oracle_like(agent, "ucb", normalize=False)
    rng = np.random.default_rng(5)
    for _ in range(20):
        context = context_of(rng)
        outputs, _ = agent.network.forward(context[None])
        for arm in range(N_ARMS):
            x = oracle.encode(context, arm)
            close(outputs[arm, 0], oracle.f(x), "output")
            blocks = written_out(agent.network, context, arm)
            inner = blocks[: N_ARMS * N_FEATURES * HIDDEN].reshape(N_ARMS * N_FEATURES, HIDDEN)
            close(np.concatenate([inner.T.ravel(), blocks[inner.size :]]), oracle.flat_gradient(x), "gradient")


def test_decay_reaches_the_blocks_of_other_arms_exactly() -> None:
    rng = np.random.default_rng(6)
    net = BlockNetwork(N_ARMS, N_FEATURES, HIDDEN, rng)
    others = net.weights[1:].copy()
    how = Descent(steps=2000, rate=0.1, decay=5.0, stop_loss=0.0)  # each step halves: the scale must be folded in
    context, one = context_of(rng)[None], np.zeros(1, dtype=np.intp)
    net.train_by_samples(context, one, np.ones(1), one, how._replace(steps=40))
    np.testing.assert_allclose(net.weights[1:], others * 0.5**40, rtol=1e-12)
    net.train_by_samples(context, one, np.ones(1), one, how)
    assert np.isfinite(parameters_of(net)).all()


# What is known


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_full_is_the_inverse_and_diagonal_its_diagonal(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    net = BlockNetwork(N_ARMS, 2, 3, rng)
    full, diagonal = Full(N_ARMS, 2, 3, 0.5), Diagonal(N_ARMS, 2, 3, 0.5)
    U = 0.5 * np.eye(net.size)
    for _ in range(n):
        context, arm = rng.normal(size=2), int(rng.integers(N_ARMS))
        g = written_out(net, context, arm)
        _, factors = net.forward(context[None], arm)
        for known in (full, diagonal):
            known.observe(context, arm, factors.gates[0, 0], factors.hidden[0, 0])
        U += np.outer(g, g)
    np.testing.assert_allclose(full.inverse @ U, np.eye(net.size), atol=1e-10)
    np.testing.assert_allclose(full.inverse, full.inverse.T, atol=1e-14)
    held = np.concatenate([diagonal.blocks.ravel(), diagonal.shared])
    np.testing.assert_allclose(held * np.diag(U), 1.0, rtol=1e-12)


@both
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_playing_an_arm_never_raises_a_variance_at_fixed_parameters(exploration: str, covariance: str) -> None:
    agent = make(exploration, covariance=covariance)
    agent._train = lambda slots: agent.trained  # type: ignore[method-assign]  # leave the network as it is
    rng = np.random.default_rng(8)
    probes = rng.normal(size=(10, N_FEATURES))
    for _ in range(30):
        before = agent.variances(probes)
        agent.update(context_of(rng), int(rng.integers(N_ARMS)), 0.0)
        assert (agent.variances(probes) <= before * (1.0 + 1e-12)).all()


def test_nu_scales_the_variance_and_zero_is_greedy() -> None:
    context = np.linspace(-1.0, 1.0, N_FEATURES)
    assert make("ucb", nu=0.25).variances(context) == pytest.approx(0.25 * make("ucb").variances(context))
    for exploration in AGENTS:
        agent = make(exploration, nu=0.0)
        assert {agent.act(context) for _ in range(5)} == {int(agent.means(context).argmax())}


def test_ucb_adds_one_deviation_and_ts_draws_it() -> None:
    context = np.linspace(-1.0, 1.0, N_FEATURES)
    ucb, ts = make("ucb"), make("thompson")
    mean, deviation = ucb.means(context), np.sqrt(ucb.variances(context))
    np.testing.assert_allclose(ucb._scores(context), mean + deviation)
    scores = ts._scores(np.tile(context, (20_000, 1)))
    np.testing.assert_allclose(scores.mean(axis=0), mean, atol=5 * deviation.max() / np.sqrt(20_000))
    np.testing.assert_allclose(scores.std(axis=0), deviation, rtol=0.03)


# Behaviour


def play(agent: GradientBandit, rounds: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        context = context_of(rng)
        arms.append(agent.act(context))
        agent.update(context, arms[-1], reward_of(context, arms[-1], rng))
    return arms


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


@both
def test_act_many_is_a_loop_and_changes_nothing(exploration: str) -> None:
    agent = make(exploration, iterations=20)
    play(agent, 15)
    contexts = np.random.default_rng(3).normal(size=(50, N_FEATURES))
    contexts[7] = 0.0
    twin = copy.deepcopy(agent)
    assert agent.act_many(contexts).tolist() == [twin.act(c) for c in contexts]
    np.testing.assert_array_equal(parameters_of(agent.network), parameters_of(twin.network))
    assert agent.act_many(np.empty((0, N_FEATURES))).shape == (0,)


def test_chunks_of_contexts_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make("ucb", iterations=20)
    play(agent, 5)
    contexts = np.random.default_rng(3).normal(size=(11, N_FEATURES))
    whole = agent.means(contexts), agent.variances(contexts)
    monkeypatch.setattr("lim2.agents.gradient_bandit.CHUNK", 4 * agent.network.size)
    close(agent.means(contexts), whole[0], "means")
    close(agent.variances(contexts), whole[1], "variances")


@both
def test_inputs_are_not_kept(exploration: str) -> None:
    agent, twin = make(exploration, iterations=20, normalize=False), make(exploration, iterations=20, normalize=False)
    reused = np.empty(N_FEATURES)
    rng = np.random.default_rng(4)
    for _ in range(10):
        context = context_of(rng)
        reused[:] = context
        agent.update(reused, 0, 1.0)
        assert reused.tolist() == context.tolist()
        reused[:] = np.nan
        twin.update(context, 0, 1.0)
    np.testing.assert_array_equal(parameters_of(agent.network), parameters_of(twin.network))


def fingerprint(agent: GradientBandit) -> bytes:
    return pickle.dumps({k: v for k, v in agent.__dict__.items() if k != "memory"}) + pickle.dumps(
        [agent.memory.slots(), agent.memory.contexts[agent.memory.slots()], agent.memory.rewards[agent.memory.slots()]]
    )


@both
def test_bad_inputs_change_nothing(exploration: str) -> None:
    agent = make(exploration, iterations=20)
    play(agent, 5)
    good = [0.5] * N_FEATURES
    before = fingerprint(agent)
    for context, arm, reward in [
        ([np.nan] * N_FEATURES, 0, 1.0),
        ([0.5] * (N_FEATURES + 1), 0, 1.0),
        (good, N_ARMS, 1.0),
        (good, 0, np.inf),
    ]:
        with pytest.raises(ValueError):
            agent.update(context, arm, reward)
    with pytest.raises(ValueError):
        agent.act([np.inf] * N_FEATURES)
    assert fingerprint(agent) == before


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
    first, second = (run_fresh(code, NUMBA_CACHE_DIR=str(tmp_path)).stderr for _ in range(2))
    assert first.count("compiling") == 1
    assert second == ""


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
