"""The fast agents against the literal oracle, given the same random draws: every agent, every setting."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import Network, OracleLiM2, OracleLinearTS, OracleNTK, oracle_full, oracle_mm, oracle_naive

import lim2
from lim2.exploration import UCB
from lim2.matching import Matching
from lim2.memory import Memory, sample
from lim2.representation import MLP, SGD, Adam, RMSProp
from lim2.streams import Streams

N_ARMS, N_FEATURES, ROUNDS = 4, 6, 200
TOLERANCE = 1e-8
SMALL: dict[str, Any] = {"hidden": (8,), "batch": 16}
CAP = 40  # tuples in the buffer: it is full after a fifth of the run


def network_like(agent: Any, **optimizer: Any) -> Network:
    """Start the oracle's network from the agent's initial parameters."""
    mlp, f = agent.algorithm.network, agent.state.network
    assert isinstance(mlp, MLP)
    hidden, head, bias = mlp.layers(f, f.parameters)
    weights, biases = [w.copy() for w, _ in hidden], [b.copy() for _, b in hidden]
    return Network([*weights, head.T.copy()], [*biases, bias.copy()], **optimizer)


def rewards_of(context: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the rewards of a nonlinear problem in which arms differ in how often they are best."""
    clean = np.array([0.6, context[0] * context[1], np.sin(context[2]), -0.5 + 0.2 * context[3]])
    return clean + 0.1 * rng.normal(size=N_ARMS)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list that takes up the stamps of every batch drawn."""
    batches: list[list[int]] = []

    def recording(memory: Memory, size: int, rng: np.random.Generator) -> Any:
        batch = sample(memory, size, rng)
        batches.append(memory.stamps[batch.rows].tolist())
        return batch

    for module in (
        "algorithms.lim2",
        "algorithms.neural_linear_base",
        "algorithms.neural_linear_ntk",
        "paper.lim2_variants",
    ):
        monkeypatch.setattr(f"lim2.{module}.sample", recording)
    return batches


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def run_together(
    agent: lim2.Agent,
    oracle: Any,
    drawn: list[list[int]] | None = None,
    rounds: int = ROUNDS,
    *,
    steps: int = 1,
    batch: int = 16,
    every: int = 1,
    first: int = 2,
) -> None:
    """Play both; ``steps`` batches of ``batch`` tuples are due every ``every`` rounds, from the round ``first`` on."""
    world, settings = np.random.default_rng(7), agent.get_params()
    stream, turns = Streams(settings["seed"]).act, N_ARMS * agent.algorithm.turns
    for t in range(rounds):
        context = world.normal(size=N_FEATURES)
        draws = np.zeros(N_ARMS) if t < turns else stream.standard_t(2.0 * np.asarray(oracle.a))
        arm = agent.act(context)
        assert arm == oracle.act(context, draws), f"decision of round {t}"
        reward = float(rewards_of(context, world)[arm])
        agent.update(context, arm, reward)
        if drawn is None:
            oracle.update(context, arm, reward)
        else:
            due = steps if t + 1 >= first and (t + 1) % every == 0 else 0
            assert [len(stamps) for stamps in drawn] == [batch] * due, f"batches of round {t}"
            oracle.update(context, arm, reward, list(drawn))
            drawn.clear()
        if t % 20 == 0 or t == rounds - 1:
            for name in ("mu", "cov", "a", "b"):
                close(getattr(agent.state.posterior, name), getattr(oracle, name), f"{name} of round {t}")
    if drawn is not None:
        network: Any = agent.algorithm
        net, f = network.network, agent.state.network
        weights, bias = net.last_layer(f)
        close(weights, oracle.network.weights[-1].T, "last layer")
        close(bias, oracle.network.biases[-1], "last bias")
        contexts = world.normal(size=(5, N_FEATURES))
        close(net.features(f, contexts), [oracle.network.features(c) for c in contexts], "features")


LIM2_SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "sample": {"matching": "sample"},
    "solve": {"matching": "solve"},
    "no matching": {"matching": None},
    "rate x 100": {"matching": Matching(rate=1.0)},
    "rate x 10000": {"matching": Matching(rate=100.0)},
    "intercept": {"intercept": True},
    "three steps": {"steps": 3},
    "three steps, sample": {"steps": 3, "matching": "sample"},
    "tight clip of matching": {"matching": Matching(rate=1.0, clip=0.05)},
    "much jitter": {"matching": Matching(jitter=0.01)},
    "solve with a large ridge": {"matching": Matching("solve", ridge=1.0)},
    "slow network": {"learning_rate": 0.01},
    "other batch": {"batch": 5},
    "ucb": {"exploration": "ucb"},
    "other priors": {"prior_precision": 0.3, "a0": 2.0, "b0": 0.5, "initial_pulls": 1},
}


VARIANT_SETTINGS: dict[str, dict[str, Any]] = {
    "refresh all": {"refresh": "all"},
    "no recount": {"recount": False},
    "no recount, sample": {"recount": False, "matching": "sample"},
    "no recount, rate x 1000": {"recount": False, "matching": Matching(rate=10.0)},
    "noise of the buffer": {"noise": "buffer"},
    "intercept, refresh all, no recount, solve": {
        "intercept": True,
        "refresh": "all",
        "recount": False,
        "matching": "solve",
    },
    "no mean prior": {"mean_prior": False},
    "no recount, three steps": {"recount": False, "steps": 3},
}


def oracle_options(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the oracle's options; it has one word for jitter and ridge: what is added to a matrix."""
    options = {k: v for k, v in settings.items() if k not in ("steps", "batch", "learning_rate")}
    matcher = options.get("matching", "batch")
    if matcher is not None:
        matcher = matcher if isinstance(matcher, Matching) else Matching(matcher)
        added = matcher.ridge if matcher.method == "solve" else matcher.jitter
        options |= {"matching": matcher.method, "matching_rate": matcher.rate, "matching_clip": matcher.clip}
        options["matching_ridge"] = added
    return options


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *(
            pytest.param(name, settings, id=f"{name}: {label}")
            for label, settings in LIM2_SETTINGS.items()
            for name in ("LiM2", "LiM2Variant")
        ),
        *(pytest.param("LiM2Variant", settings, id=label) for label, settings in VARIANT_SETTINGS.items()),
    ],
)
def test_lim2(name: str, settings: dict[str, Any], drawn: list[list[int]]) -> None:
    agent = lim2.AGENTS[name](N_ARMS, N_FEATURES, **{**SMALL, **settings}, buffer=CAP, seed=1)
    options = oracle_options(settings)
    network = network_like(agent, learning_rate=settings.get("learning_rate", 0.1))
    oracle = OracleLiM2(network, N_ARMS, buffer=CAP, **options)
    run_together(agent, oracle, drawn, steps=settings.get("steps", 1), batch=settings.get("batch", 16))
    if options.get("matching_rate", 0.0) > 1.0:
        assert agent.state.projections > 0, "this setting is there to leave the cone"


def test_lim2_with_more_stored_than_features_and_with_less(drawn: list[list[int]]) -> None:
    """Both forms of conditioning, in one arm and the other: 30 features, up to 150 tuples per arm."""
    agent = lim2.LiM2(N_ARMS, N_FEATURES, hidden=(30,), batch=16, buffer=150, seed=2)
    run_together(agent, OracleLiM2(network_like(agent), N_ARMS, buffer=150), drawn, rounds=200)
    counts = agent.state.memory.counts
    assert counts.min() < 30 < counts.max()


def test_lim2_with_deep_network(drawn: list[list[int]]) -> None:
    agent = lim2.LiM2(N_ARMS, N_FEATURES, hidden=(7, 5), batch=16, buffer=CAP, seed=3)
    run_together(agent, OracleLiM2(network_like(agent), N_ARMS, buffer=CAP), drawn)


@pytest.mark.parametrize(
    ("optimizer", "named"),
    [
        (SGD(0.05, decay=0.01), {"optimizer": "sgd", "learning_rate": 0.05, "learning_rate_decay": 0.01}),
        (Adam(0.01), {"optimizer": "adam", "learning_rate": 0.01, "learning_rate_decay": 0.0}),
        (RMSProp(0.02, clip=0.1), {"learning_rate": 0.02, "clip": 0.1}),
        (RMSProp(0.02, clip=None), {"learning_rate": 0.02, "clip": None}),
    ],
    ids=["sgd", "adam", "tight clip", "no clip"],
)
def test_lim2_with_other_optimizers(optimizer: Any, named: dict[str, Any], drawn: list[list[int]]) -> None:
    representation = MLP(hidden=(8,), optimizer=optimizer)
    agent = lim2.LiM2(N_ARMS, N_FEATURES, batch=16, buffer=CAP, representation=representation, seed=4)
    run_together(agent, OracleLiM2(network_like(agent, **named), N_ARMS, buffer=CAP), drawn, rounds=150)


ABLATION_SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "intercept": {"intercept": True},
    "ucb": {"exploration": "ucb"},
    "other priors": {"prior_precision": 0.3, "a0": 2.0, "b0": 0.5, "initial_pulls": 1},
}


@pytest.mark.parametrize("settings", ABLATION_SETTINGS.values(), ids=ABLATION_SETTINGS.keys())
def test_mm(settings: dict[str, Any], drawn: list[list[int]]) -> None:
    agent = lim2.NeuralLinearMM(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=5, **settings)
    run_together(agent, oracle_mm(network_like(agent), N_ARMS, buffer=CAP, **settings), drawn)


@pytest.mark.parametrize("settings", ABLATION_SETTINGS.values(), ids=ABLATION_SETTINGS.keys())
def test_naive_online(settings: dict[str, Any], drawn: list[list[int]]) -> None:
    agent = lim2.NeuralLinearNaive(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=6, **settings)
    run_together(agent, oracle_naive(network_like(agent), N_ARMS, buffer=CAP, **settings), drawn)


def test_naive_in_phases(drawn: list[list[int]]) -> None:
    agent = lim2.NeuralLinearNaive(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=7, train_every=50, steps=20)
    run_together(
        agent, oracle_naive(network_like(agent), N_ARMS, buffer=CAP, train_every=50), drawn, steps=20, every=50
    )


@pytest.mark.parametrize("kind", ["MM", "Naive", "NTK"])
def test_several_steps_at_another_rate(kind: str, drawn: list[list[int]]) -> None:
    fast = {"MM": lim2.NeuralLinearMM, "Naive": lim2.NeuralLinearNaive, "NTK": lim2.NeuralLinearNTK}[kind]
    slow: Any = {"MM": oracle_mm, "Naive": oracle_naive, "NTK": OracleNTK}[kind]
    agent = fast(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=13, steps=3, learning_rate=0.02)
    oracle = slow(network_like(agent, learning_rate=0.02), N_ARMS, buffer=CAP)
    run_together(agent, oracle, drawn, rounds=120, steps=3, first=16 if kind == "NTK" else 2)


PRIORS = {"prior_precision": 2.0, "a0": 2.0, "b0": 0.5, "initial_pulls": 3}


@pytest.mark.parametrize("settings", [{}, {"intercept": True}, {"exploration": "ucb"}, PRIORS], ids=str)
def test_full_memory(settings: dict[str, Any], drawn: list[list[int]]) -> None:
    agent = lim2.NeuralLinear(N_ARMS, N_FEATURES, **SMALL, seed=8, train_every=60, steps=25, **settings)
    oracle = oracle_full(network_like(agent), N_ARMS, train_every=60, **settings)
    run_together(agent, oracle, drawn, steps=25, every=60)


@pytest.mark.parametrize("settings", [{}, {"intercept": True}, {"exploration": "ucb"}, PRIORS], ids=str)
def test_ntk(settings: dict[str, Any], drawn: list[list[int]]) -> None:
    agent = lim2.NeuralLinearNTK(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=9, **settings)
    run_together(agent, OracleNTK(network_like(agent), N_ARMS, buffer=CAP, **settings), drawn, first=16)


@pytest.mark.parametrize("settings", [{}, {"intercept": False}, {"prior_precision": 2.0}], ids=str)
def test_linear_ts(settings: dict[str, Any]) -> None:
    agent = lim2.LinearTS(N_ARMS, N_FEATURES, seed=10, **settings)
    run_together(agent, OracleLinearTS(N_ARMS, N_FEATURES, **settings), rounds=400)


def test_optimism_of_ucb() -> None:
    agent = lim2.LinearTS(N_ARMS, N_FEATURES, seed=11, exploration=UCB(optimism=2.5))
    run_together(agent, OracleLinearTS(N_ARMS, N_FEATURES, exploration="ucb", ucb_width=2.5))


def test_published_size(drawn: list[list[int]]) -> None:
    """The paper's own sizes, for fewer rounds: 50 features, and the default buffer and batch."""
    agent = lim2.LiM2(N_ARMS, N_FEATURES, seed=12)
    assert agent.state.memory.capacity == 100 * N_ARMS
    run_together(
        agent, OracleLiM2(network_like(agent), N_ARMS, buffer=100 * N_ARMS), drawn, rounds=60, batch=16 * N_ARMS
    )
