"""The fast agents against the literal oracle, given the same random draws: every agent, every setting."""

import copy
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import Network, OracleLiM2, OracleLinearTS, OracleNTK, oracle_full, oracle_mm, oracle_naive
from oracle.transport_ts import OracleTransport, settings_of

import lim2
from lim2.agents.believer import Believer
from lim2.agents.neural import NeuralBeliever
from lim2.agents.priors import Carried
from lim2.exploration import UCB
from lim2.representation import MLP, SGD, Adam, RMSProp

N_ARMS, N_FEATURES, ROUNDS = 4, 6, 300
TOLERANCE = 1e-8
SMALL: dict[str, Any] = {"hidden": (8,), "batch": 16}
CAP = 40  # tuples in the buffer: it is full after an eighth of the run


def network_like(agent: NeuralBeliever, **optimizer: Any) -> Network:
    """Start the oracle's network from the agent's initial parameters."""
    mlp = agent.representation
    assert isinstance(mlp, MLP)
    flat, shapes = mlp.state()["parameters"], mlp._shapes()
    weights, biases, start = [], [], 0
    for depth, (rows, columns) in enumerate(shapes):
        block = flat[start : start + rows * columns]
        last = depth == len(shapes) - 1
        weights.append(block.reshape(columns, rows).T if last else block.reshape(rows, columns))
        biases.append(flat[start + rows * columns : start + rows * columns + columns])
        start += rows * columns + columns
    return Network(weights, biases, **optimizer)


def rewards_of(context: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """A nonlinear problem in which arms differ in how often they are best."""
    clean = np.array([0.6, context[0] * context[1], np.sin(context[2]), -0.5 + 0.2 * context[3]])
    return clean + 0.1 * rng.normal(size=N_ARMS)


def record_batches(agent: NeuralBeliever) -> list[list[int]]:
    """Note the stamps of every batch that the agent draws."""
    drawn: list[list[int]] = []
    sample = agent.memory.sample

    def recording(size: int, rng: np.random.Generator, weights: NDArray[np.float64] | None = None) -> Any:
        batch = sample(size, rng, weights)
        drawn.append(agent.memory.stamps[batch.slots].tolist())
        return batch

    agent.memory.sample = recording  # type: ignore[method-assign]
    return drawn


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def run_together(
    agent: Believer,
    oracle: Any,
    rounds: int = ROUNDS,
    *,
    steps: int = 1,
    batch: int = 16,
    every: int = 1,
    first: int = 2,
) -> None:
    """Play both; ``steps`` batches of ``batch`` tuples are due every ``every`` rounds, from the round ``first`` on."""
    drawn = record_batches(agent) if isinstance(agent, NeuralBeliever) else None
    world = np.random.default_rng(7)
    for t in range(rounds):
        context = world.normal(size=N_FEATURES)
        draws = copy.deepcopy(agent._act_rng).standard_t(2.0 * agent.posterior.a)
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
                close(getattr(agent.posterior, name), getattr(oracle, name), f"{name} of round {t}")
    if isinstance(agent, NeuralBeliever):
        weights, bias = agent.representation.head
        close(weights, oracle.network.weights[-1].T, "last layer")
        close(bias, oracle.network.biases[-1], "last bias")
        contexts = world.normal(size=(5, N_FEATURES))
        close(agent.representation.features(contexts), [oracle.network.features(c) for c in contexts], "features")


LIM2_SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "sample": {"matching": "sample"},
    "solve": {"matching": "solve"},
    "no matching": {"matching": None},
    "rate x 100": {"matching_rate": 1.0},
    "rate x 10000": {"matching_rate": 100.0},
    "refresh all": {"refresh": "all"},
    "no recount": {"recount": False},
    "no recount, sample": {"recount": False, "matching": "sample"},
    "no recount, rate x 1000": {"recount": False, "matching_rate": 10.0},
    "noise of the buffer": {"noise": "buffer"},
    "intercept": {"intercept": True},
    "intercept, refresh all, no recount, solve": {
        "intercept": True,
        "refresh": "all",
        "recount": False,
        "matching": "solve",
    },
    "no mean prior": {"mean_prior": False},
    "three steps": {"steps": 3},
    "three steps, sample": {"steps": 3, "matching": "sample"},
    "tight clip of matching": {"matching_clip": 0.05, "matching_rate": 1.0},
    "much jitter": {"matching_jitter": 0.01},
    "solve with a large ridge": {"matching": "solve", "matching_ridge": 1.0},
    "slow network": {"learning_rate": 0.01},
    "other batch": {"batch": 5},
    "ucb": {"exploration": "ucb"},
    "other priors": {"prior_precision": 0.3, "a0": 2.0, "b0": 0.5, "initial_pulls": 1},
}


@pytest.mark.parametrize("settings", LIM2_SETTINGS.values(), ids=LIM2_SETTINGS.keys())
def test_lim2(settings: dict[str, Any]) -> None:
    agent = lim2.LiM2(N_ARMS, N_FEATURES, **{**SMALL, **settings}, buffer=CAP, seed=1)
    options = {k: v for k, v in settings.items() if k not in ("steps", "batch", "learning_rate")}
    # the oracle has one word for the two: what is added to a matrix
    if options.get("matching") == "solve":
        options.setdefault("matching_ridge", 0.01)
    elif "matching_jitter" in options:
        options["matching_ridge"] = options.pop("matching_jitter")
    network = network_like(agent, learning_rate=settings.get("learning_rate", 0.1))
    oracle = OracleLiM2(network, N_ARMS, buffer=CAP, **options)
    run_together(agent, oracle, steps=settings.get("steps", 1), batch=settings.get("batch", 16))
    if settings.get("matching_rate", 0.0) > 1.0:
        assert isinstance(agent.prior, Carried)
        assert agent.prior.matching is not None
        assert agent.prior.matching.projections > 0, "this setting is there to leave the cone"


def test_lim2_with_more_stored_than_features_and_with_less() -> None:
    """Both forms of conditioning, in one arm and the other: 30 features, up to 150 tuples an arm."""
    agent = lim2.LiM2(N_ARMS, N_FEATURES, hidden=(30,), batch=16, buffer=150, seed=2)
    run_together(agent, OracleLiM2(network_like(agent), N_ARMS, buffer=150), rounds=250)
    counts = agent.memory.counts
    assert counts.min() < 30 < counts.max()


def test_lim2_with_deep_network() -> None:
    agent = lim2.LiM2(N_ARMS, N_FEATURES, hidden=(7, 5), batch=16, buffer=CAP, seed=3)
    run_together(agent, OracleLiM2(network_like(agent), N_ARMS, buffer=CAP))


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
def test_lim2_with_other_optimizers(optimizer: Any, named: dict[str, Any]) -> None:
    representation = MLP(hidden=(8,), optimizer=optimizer)
    agent = lim2.LiM2(N_ARMS, N_FEATURES, batch=16, buffer=CAP, representation=representation, seed=4)
    run_together(agent, OracleLiM2(network_like(agent, **named), N_ARMS, buffer=CAP), rounds=150)


ABLATION_SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "refresh all": {"refresh": "all"},
    "noise of the buffer": {"noise": "buffer"},
    "intercept": {"intercept": True},
    "ucb": {"exploration": "ucb"},
    "other priors": {"prior_precision": 0.3, "a0": 2.0, "b0": 0.5, "initial_pulls": 1},
}


@pytest.mark.parametrize("settings", ABLATION_SETTINGS.values(), ids=ABLATION_SETTINGS.keys())
def test_mm(settings: dict[str, Any]) -> None:
    agent = lim2.NeuralLinearMM(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=5, **settings)
    run_together(agent, oracle_mm(network_like(agent), N_ARMS, buffer=CAP, **settings))


@pytest.mark.parametrize("settings", ABLATION_SETTINGS.values(), ids=ABLATION_SETTINGS.keys())
def test_naive_online(settings: dict[str, Any]) -> None:
    agent = lim2.NeuralLinearNaive(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=6, **settings)
    run_together(agent, oracle_naive(network_like(agent), N_ARMS, buffer=CAP, **settings))


def test_naive_in_phases() -> None:
    agent = lim2.NeuralLinearNaive(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=7, train_every=50, steps=20)
    run_together(agent, oracle_naive(network_like(agent), N_ARMS, buffer=CAP, train_every=50), steps=20, every=50)


@pytest.mark.parametrize("kind", ["MM", "Naive", "NTK"])
def test_several_steps_at_another_rate(kind: str) -> None:
    fast = {"MM": lim2.NeuralLinearMM, "Naive": lim2.NeuralLinearNaive, "NTK": lim2.NeuralLinearNTK}[kind]
    slow: Any = {"MM": oracle_mm, "Naive": oracle_naive, "NTK": OracleNTK}[kind]
    agent = fast(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=13, steps=3, learning_rate=0.02)
    oracle = slow(network_like(agent, learning_rate=0.02), N_ARMS, buffer=CAP)
    run_together(agent, oracle, rounds=120, steps=3, first=16 if kind == "NTK" else 2)


PRIORS = {"prior_precision": 2.0, "a0": 2.0, "b0": 0.5, "initial_pulls": 3}


@pytest.mark.parametrize("settings", [{}, {"intercept": True}, {"exploration": "ucb"}, PRIORS], ids=str)
def test_full_memory(settings: dict[str, Any]) -> None:
    agent = lim2.NeuralLinear(N_ARMS, N_FEATURES, **SMALL, seed=8, train_every=60, steps=25, **settings)
    oracle = oracle_full(network_like(agent), N_ARMS, train_every=60, **settings)
    run_together(agent, oracle, steps=25, every=60)


@pytest.mark.parametrize(
    "settings", [{}, {"refresh": "all"}, {"intercept": True}, {"exploration": "ucb"}, PRIORS], ids=str
)
def test_ntk(settings: dict[str, Any]) -> None:
    agent = lim2.NeuralLinearNTK(N_ARMS, N_FEATURES, **SMALL, buffer=CAP, seed=9, **settings)
    run_together(agent, OracleNTK(network_like(agent), N_ARMS, buffer=CAP, **settings), first=16)


@pytest.mark.parametrize("settings", [{}, {"intercept": False}, {"prior_precision": 2.0}], ids=str)
def test_linear_ts(settings: dict[str, Any]) -> None:
    agent = lim2.LinearTS(N_ARMS, N_FEATURES, seed=10, **settings)
    run_together(agent, OracleLinearTS(N_ARMS, N_FEATURES, **settings), rounds=600)


def test_optimism_of_ucb() -> None:
    agent = lim2.LinearTS(N_ARMS, N_FEATURES, seed=11, exploration=UCB(optimism=2.5))
    run_together(agent, OracleLinearTS(N_ARMS, N_FEATURES, exploration="ucb", ucb_width=2.5))


def test_published_size() -> None:
    """The paper's own sizes, for fewer rounds: 50 features, and the default buffer and batch."""
    agent = lim2.LiM2(N_ARMS, N_FEATURES, seed=12)
    assert agent.memory.capacity == 100 * N_ARMS
    run_together(agent, OracleLiM2(network_like(agent), N_ARMS, buffer=100 * N_ARMS), rounds=60, batch=16 * N_ARMS)


TRANSPORT_SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "in every round": {"tolerance": 0.0},
    "seldom": {"tolerance": 0.5, "train_every": 3},
    "never by features": {"tolerance": 1e6},
    "no skip": {"skip": False},
    "no skip, fast network, three steps": {"skip": False, "learning_rate": 0.1, "tolerance": 0.05, "steps": 3},
    "no skip, easily surprised": {"skip": False, "surprise": 0.0, "learning_rate": 0.1, "tolerance": 0.5},
    "ucb": {"exploration": "ucb", "tolerance": 0.05},
    "other priors": {
        "prior_precision": 0.3,
        "a0": 2.0,
        "b0": 0.5,
        "initial_pulls": 1,
        "temperature": 1.0,
        "optimism": 0.0,
    },
    "easily surprised": {"surprise": 0.0, "tolerance": 0.5},
    "never surprised": {"surprise": np.inf},
    "a large ridge": {"ridge": 1.0, "tolerance": 0.02},
}


@pytest.mark.parametrize("settings", TRANSPORT_SETTINGS.values(), ids=TRANSPORT_SETTINGS.keys())
def test_transport(settings: dict[str, Any]) -> None:
    agent = lim2.TransportTS(N_ARMS, N_FEATURES, **{**SMALL, **settings}, buffer=CAP, seed=14)
    network = network_like(agent, learning_rate=agent._settings["learning_rate"])
    options = {**settings_of(agent), "exploration": settings.get("exploration", "thompson")}
    oracle = OracleTransport(network, N_ARMS, N_FEATURES, buffer=CAP, **options)
    run_together(agent, oracle, steps=settings.get("steps", 1), every=agent.train_every)
    counted = agent.refits, agent.widened, agent.deferred
    assert counted == (oracle.refits, oracle.widened, oracle.deferred)
    if "learning_rate" in settings:
        assert agent.deferred >= 3, "this setting is there to have a network that is at times ahead of the beliefs"
    if agent.surprise == 0.0:
        assert agent.widened >= 2, "this setting is there to be surprised often"
    if agent.tolerance <= 0.05:
        assert agent.refits > 30, "this setting is there to be transported often"
    else:
        assert agent.refits < ROUNDS / 2, "this setting is there to be updated tuple by tuple"
