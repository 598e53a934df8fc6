"""AdaptiveTS against the literal oracle, given the same random draws: every setting."""

import copy
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import Network
from oracle import adaptive_ts as adaptive_oracle
from oracle.adaptive_ts import OracleAdaptive

import lim2
from lim2.algorithms import AdaptiveTS, adaptive_ts
from lim2.algorithms.adaptive_ts import State
from lim2.memory import Memory, sample
from lim2.representation import MLP

N_ARMS, N_FEATURES, ROUNDS = 4, 6, 200
TOLERANCE = 1e-8
CAP = 48  # tuples in the buffer: it is full after a quarter of the run

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "low threshold": {"change_threshold": 0.0},
    "no change test": {"change_threshold": np.inf},
    "a range": {"reward_range": (-5.0, 5.0)},
    "trained in every round, fast": {"train_every": 1, "learning_rate": 0.05},
    "other exploration": {"temperature": 1.0, "optimism": 0.0, "initial_pulls": 1},
    "a buffer that is never full": {"buffer": 400},
    "many arms": {"n_arms": 10, "buffer": 80, "change_threshold": 1.0},
}


def algorithm_of(agent: lim2.Agent) -> AdaptiveTS:
    """Return the algorithm of an agent."""
    return cast(AdaptiveTS, agent.algorithm)


def oracle_of(agent: lim2.Agent, buffer: int) -> OracleAdaptive:
    """Return an oracle with the settings and the initial parameters of an agent."""
    how, f = algorithm_of(agent), agent.state.network
    assert isinstance(how.network, MLP)
    hidden, head, bias = how.network.layers(f, f.parameters)
    weights, biases = [w.copy() for w, _ in hidden], [b.copy() for _, b in hidden]
    parameters = [*weights, head.T.copy()], [*biases, bias.copy()]
    network = Network(*parameters, learning_rate=how.learning_rate, learning_rate_decay=adaptive_ts.RATE_DECAY)
    given = {name: getattr(how, name) for name in ("optimism", "temperature", "change_threshold", "reward_range")}
    return OracleAdaptive(network, len(how.names), N_FEATURES, **given, buffer=buffer, initial_pulls=how.turns)


def rewards_of(t: int, n_arms: int, context: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the rewards of a nonlinear problem that changes at half time."""
    sign = 1.0 if t < ROUNDS / 2 else -1.0
    clean = np.array([0.6, sign * context[0] * context[1], sign * np.sin(context[2]), -0.5 + 0.2 * context[3]])
    return np.resize(clean, n_arms) + 0.1 * rng.normal(size=n_arms)


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list that takes up the stamps of every batch drawn."""
    drawn: list[list[int]] = []

    def recording(memory: Memory, size: int, rng: np.random.Generator, batches: int) -> Any:
        batch = sample(memory, size, rng, batches=batches)
        drawn.append(memory.stamps[batch.rows].tolist())
        return batch

    monkeypatch.setattr("lim2.algorithms.adaptive_ts.sample", recording)
    return drawn


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_it_agrees_with_the_oracle(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    state, oracle = played(settings, monkeypatch)
    assert (state.refits, state.changes) == (oracle.refits, oracle.changes)
    if settings.get("change_threshold") == 0.0:
        assert state.changes >= 1, "this setting is there to detect the change"


def test_both_regressions_take_part_in_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_ts, "LEAD_RANGE", 2.0)
    monkeypatch.setattr(adaptive_oracle, "LEAD_RANGE", 2.0)
    state, oracle = played({}, monkeypatch)
    assert state.lead != 0.0
    assert len(oracle.shares_taken) > 5, "parts of decisions"


def test_late_rewards_and_outliers(monkeypatch: pytest.MonkeyPatch) -> None:
    state, oracle = played({"change_threshold": 0.0}, monkeypatch, late=True)
    assert oracle.late_before > 0
    assert state.rewards.high < 500.0, "one reward of 1,000 is limited"


def played(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, late: bool = False
) -> tuple[State, OracleAdaptive]:
    """Let an agent and an oracle play the same rounds, compare them, and return them."""
    n_arms = settings.get("n_arms", N_ARMS)
    given = {"n_arms": n_arms, "n_features": N_FEATURES, "hidden": (8,), "buffer": CAP, "seed": 14, **settings}
    agent = lim2.AdaptiveTS(**given)
    oracle = oracle_of(agent, settings.get("buffer", CAP))
    how, drawn, world = algorithm_of(agent), recorded(monkeypatch), np.random.default_rng(7)
    waiting: list[tuple[int, int, NDArray[np.float64], int, float]] = []
    for t in range(ROUNDS):
        context = world.normal(size=N_FEATURES) * [1.0, 1.0, 1.0, 1.0, 100.0, 0.0] + [0, 0, 0, 0, 1e4, 3.0]
        decides = agent.state.linear if agent.state.lead >= adaptive_ts.LEAD_RANGE else agent.state.full
        draws = copy.deepcopy(agent.core.streams.act).standard_t(2.0 * decides.a)
        arm = agent.act(context)
        if not late or oracle.t == t:
            assert arm == oracle.act(context, draws), f"decision of round {t}"
        reward = float(rewards_of(t, n_arms, context, world)[arm]) + 1000.0 * (late and t == 90)
        waiting.append((t + (7 * (t % 3) if late else 0), t + 1, context, arm, reward))
        for lesson in sorted(waiting)[: sum(due <= t for due, *_ in waiting)]:
            waiting.remove(lesson)
            _, decided, x, played_arm, earned = lesson
            agent.update(x, played_arm, earned, decided=decided if late else None)
            expected = agent.rounds > 1 and agent.rounds % how.period == 0
            assert len(drawn) == expected, f"batches of round {t}"
            oracle.update(x, played_arm, earned, decided, list(drawn))
            drawn.clear()
        if t % 20 == 0 or t == ROUNDS - 1:
            for name in ("mu", "cov", "a", "b"):
                close(getattr(agent.state.full, name), getattr(oracle, name), f"{name} of round {t}")
            linear = [oracle.linear(i, oracle.of(i)) for i in range(n_arms)]
            close(agent.state.linear.mu, [mu for _, mu, _, _ in linear], f"linear mean of round {t}")
            close(agent.state.linear.b, [b for _, _, _, b in linear], f"linear noise of round {t}")
    state = agent.state
    weights, bias = how.network.last_layer(state.network)
    close(weights, oracle.network.weights[-1].T, "last layer")
    close(bias, oracle.network.biases[-1], "last bias")
    scalars = (state.lead, state.noise, *state.width), (oracle.lead, oracle.noise, *oracle.width)
    close(*scalars, "lead, noise and widths")
    return cast(State, state), oracle
