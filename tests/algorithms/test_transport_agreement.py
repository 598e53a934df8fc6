"""TransportTS against the literal oracle, given the same random draws: every setting."""

import copy
from typing import Any

import numpy as np
import pytest
from algorithms.transport_world import algorithm_of
from numpy.typing import NDArray
from oracle import Network
from oracle.transport_ts import OracleTransport

import lim2
from lim2.memory import Memory, sample
from lim2.representation import MLP

N_ARMS, N_FEATURES, ROUNDS = 4, 6, 300
TOLERANCE = 1e-8
CAP = 40  # tuples in the buffer: it is full after an eighth of the run

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "in every round": {"tolerance": 0.0},
    "seldom": {"tolerance": 0.5, "train_every": 3},
    "never by features": {"tolerance": 1e6},
    "no skip": {"skip": False},
    "no skip, fast network, three steps": {"skip": False, "learning_rate": 0.1, "tolerance": 0.05, "steps": 3},
    "no skip, low threshold": {"skip": False, "change_threshold": 0.0, "learning_rate": 0.1, "tolerance": 0.5},
    "ucb": {"exploration": "ucb", "tolerance": 0.05},
    "other priors": {
        "prior_precision": 0.3,
        "a0": 2.0,
        "b0": 0.5,
        "initial_pulls": 1,
        "temperature": 1.0,
        "optimism": 0.0,
    },
    "low threshold": {"change_threshold": 0.0, "tolerance": 0.5},
    "no change test": {"change_threshold": np.inf},
    "a large ridge": {"ridge": 1.0, "tolerance": 0.02},
}


def oracle_of(agent: lim2.Agent) -> OracleTransport:
    """Return an oracle with the settings and the initial parameters of an agent."""
    how, f = algorithm_of(agent), agent.state.network
    assert isinstance(how.net, MLP)
    hidden, head, bias = how.net.layers(f, f.parameters)
    weights, biases = [w.copy() for w, _ in hidden], [b.copy() for _, b in hidden]
    network = Network([*weights, head.T.copy()], [*biases, bias.copy()], learning_rate=how.learning_rate)
    names = (
        "tolerance", "ridge", "initial_pulls", "prior_precision", "a0", "b0", "optimism", "temperature", "exploration",
    )  # fmt: skip
    given = {name: getattr(how, name) for name in names}
    given |= {"train_every": how.period, "skip": how.skips, "surprise": how.change_threshold}
    return OracleTransport(network, N_ARMS, N_FEATURES, buffer=CAP, **given)


def rewards_of(context: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the rewards of a nonlinear problem in which arms differ in how often they are best."""
    clean = np.array([0.6, context[0] * context[1], np.sin(context[2]), -0.5 + 0.2 * context[3]])
    return clean + 0.1 * rng.normal(size=N_ARMS)


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list that takes up the stamps of every batch drawn."""
    drawn: list[list[int]] = []

    def recording(memory: Memory, size: int, rng: np.random.Generator) -> Any:
        batch = sample(memory, size, rng)
        drawn.append(memory.stamps[batch.rows].tolist())
        return batch

    monkeypatch.setattr("lim2.algorithms.transport_ts.sample", recording)
    return drawn


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_it_agrees_with_the_oracle(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    agent = lim2.TransportTS(N_ARMS, N_FEATURES, hidden=(8,), batch=16, buffer=CAP, seed=14, **settings)
    how, oracle, drawn, world = algorithm_of(agent), oracle_of(agent), recorded(monkeypatch), np.random.default_rng(7)
    for t in range(ROUNDS):
        context = world.normal(size=N_FEATURES)
        draws = copy.deepcopy(agent._streams.act).standard_t(2.0 * agent.state.posterior.a)
        arm = agent.act(context)
        assert arm == oracle.act(context, draws), f"decision of round {t}"
        reward = float(rewards_of(context, world)[arm])
        agent.update(context, arm, reward)
        due = how.steps if t and (t + 1) % how.period == 0 else 0
        assert [len(stamps) for stamps in drawn] == [16] * due, f"batches of round {t}"
        oracle.update(context, arm, reward, list(drawn))
        drawn.clear()
        if t % 20 == 0 or t == ROUNDS - 1:
            for name in ("mu", "cov", "a", "b"):
                close(getattr(agent.state.posterior, name), getattr(oracle, name), f"{name} of round {t}")
    state = agent.state
    weights, bias = how.net.last_layer(state.network)
    close(weights, oracle.network.weights[-1].T, "last layer")
    close(bias, oracle.network.biases[-1], "last bias")
    contexts = world.normal(size=(5, N_FEATURES))
    close(how.net.features(state.network, contexts), [oracle.network.features(c) for c in contexts], "features")
    assert (state.refits, state.inflations, state.network_priors) == (oracle.refits, oracle.widened, oracle.deferred)
    if "learning_rate" in settings:
        assert state.network_priors >= 3, "this setting is there to have a network that is at times better"
    if how.change_threshold == 0.0:
        assert state.inflations >= 2, "this setting is there to detect changes often"
    if how.tolerance <= 0.05:
        assert state.refits > 30, "this setting is there to be transported often"
    else:
        assert state.refits < ROUNDS / 2, "this setting is there to be updated tuple by tuple"
