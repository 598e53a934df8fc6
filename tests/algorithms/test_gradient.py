"""NeuralUCB and NeuralTS against the literal oracle and closed forms, as pure functions of frozen states."""

import copy
from typing import Any

import numpy as np
import pytest
from algorithms.gradient_world import (
    ALGORITHMS,
    HIDDEN,
    N_ARMS,
    N_FEATURES,
    algorithm,
    both,
    context_of,
    learned,
    reward_of,
)
from oracle.gradient_bandit import OracleGradientBandit

from lim2.algorithms.gradient import GradientBandit, State
from lim2.representation.blocks import Network, Trained, forward

TOLERANCE = 1e-8


def oracle_like(how: GradientBandit, f: Network, exploration: str, **options: Any) -> OracleGradientBandit:
    """Start the oracle from a network's parameters."""
    concatenated = f.weights.transpose(2, 0, 1).reshape(len(f.bias), -1)  # (hidden, n_arms * d)
    layers = concatenated, f.bias, f.head, float(f.head_bias[0])
    options = {"iterations": how.descent.steps, **{k: v for k, v in options.items() if k != "hidden"}}
    return OracleGradientBandit(*layers, N_ARMS, exploration=exploration, **options)


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def run_together(exploration: str, rounds: int, **options: Any) -> int:
    """Let the algorithm and its oracle play, each by itself, with the same draws; return the last number of steps."""
    how, rng, world = algorithm(exploration, **options), np.random.default_rng(1), np.random.default_rng(7)
    state = how.init(N_ARMS, rng)
    oracle = oracle_like(how, state.network, exploration, **options)
    probes = np.array([context_of(world) for _ in range(3)])
    steps = 0
    for t in range(rounds):
        context = context_of(world)
        draws = copy.deepcopy(rng).standard_normal(N_ARMS)
        arm = int(how.policy.scores(how.score(state, context), rng).argmax())
        assert arm == oracle.act(context, draws), f"decision of round {t}"
        reward = reward_of(context, arm, world)
        held = min(t + 1, how.capacity or rounds)
        order = copy.deepcopy(rng).choice(held, size=min(held, how.descent.steps), replace=False).tolist()
        state, diagnostics = learned(how, state, context, arm, reward, rng)
        steps, loss = oracle.update(context, arm, reward, order)
        close(diagnostics["loss"], loss, f"loss of round {t}")
        assert (diagnostics["stored"], diagnostics["evicted"]) == (held, t + 1 - held)
        if t % 25 == 0 or t == rounds - 1:
            inputs = [[oracle.encode(c, k) for k in range(N_ARMS)] for c in probes]
            score = how.score(state, probes)
            close(score.mean, [[oracle.f(x) for x in row] for row in inputs], f"means of round {t}")
            close(score.scale**2, [[oracle.variance(x) for x in row] for row in inputs], f"variances, {t}")
            close(state.network.weights.transpose(2, 0, 1).reshape(oracle.W1.shape), oracle.W1, f"weights of round {t}")
    assert len(np.unique(state.memory.counts)) > 1, "a run that plays all arms alike shows little"
    return steps


SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "full": {"covariance": "full"},
    "bounded": {"history": 30},
    "bounded, full": {"history": 30, "covariance": "full"},
    "raw contexts": {"normalize": False},
    "strong decay": {"regularization": 0.5, "learning_rate": 0.05},
    "little exploration": {"nu": 0.01, "regularization": 0.1},
    "no early stop": {"stop_loss": 0.0},
    "early stop": {"stop_loss": 0.05},
}


@both
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_by_samples(exploration: str, options: dict[str, Any]) -> None:
    run_together(exploration, rounds=200, **{"iterations": 25, **options})


@both
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_by_batches(exploration: str, options: dict[str, Any]) -> None:
    rounds = 150 if not options or {"history", "covariance"} & options.keys() else 80
    run_together(exploration, rounds, **{"training": "batch", "iterations": 3, "learning_rate": 0.1, **options})


@both
def test_published_size(exploration: str) -> None:
    """100 hidden units and 1,000 steps per round, for fewer rounds."""
    assert run_together(exploration, rounds=12, hidden=100, iterations=1000) > 100


def test_blocks_against_concatenation() -> None:
    """Every arm at once in blocks, against a network that takes the whole vector: outputs and gradients."""
    rng = np.random.default_rng(5)
    how = algorithm("ucb", normalize=False)
    f = how.init(N_ARMS, rng).network
    oracle = oracle_like(how, f, "ucb", normalize=False)
    for _ in range(20):
        context = context_of(rng)
        outputs, factors = forward(f, context[None])
        for arm in range(N_ARMS):
            x = oracle.encode(context, arm)
            close(outputs[arm, 0], oracle.f(x), "output")
            gates, hidden = factors.gates[arm, 0], factors.hidden[arm, 0]
            own = np.zeros((N_ARMS, N_FEATURES, HIDDEN))
            own[arm] = np.outer(context, gates)
            inner = own.reshape(-1, HIDDEN).T.ravel()
            close(np.concatenate([inner, gates, hidden, [1.0]]), oracle.flat_gradient(x), "gradient")


# What is known


@both
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_playing_an_arm_never_raises_a_variance_at_fixed_parameters(
    exploration: str, covariance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GradientBandit, "train", lambda _, f, *rest: (f, Trained(0, 0.0)))
    rng = np.random.default_rng(8)
    how = algorithm(exploration, covariance=covariance)
    state = how.init(N_ARMS, rng)
    probes = rng.normal(size=(10, N_FEATURES))
    for _ in range(30):
        before = how.score(state, probes).variance
        state, _ = learned(how, state, context_of(rng), int(rng.integers(N_ARMS)), 0.0, rng)
        assert (how.score(state, probes).variance <= before * (1.0 + 1e-12)).all()


def test_an_update_writes_one_row_of_the_diagonal() -> None:
    """So that its cost does not grow with the number of arms."""
    how, rng = algorithm("ucb"), np.random.default_rng(0)
    state = how.init(N_ARMS, rng)
    (new, [(array, arm, row)]), _ = how.learn(state, context_of(rng), 1, 0.5, rng)
    assert array is new.precision.blocks is state.precision.blocks
    assert (arm, row.shape) == (1, (N_FEATURES, HIDDEN))


def test_nu_scales_the_variance_and_zero_is_greedy() -> None:
    context = np.linspace(-1.0, 1.0, N_FEATURES)

    def started(exploration: str, nu: float) -> tuple[GradientBandit, State]:
        how = algorithm(exploration, nu=nu)
        return how, how.init(N_ARMS, np.random.default_rng(1))

    quarter, one = (how.score(state, context) for how, state in (started("ucb", 0.25), started("ucb", 1.0)))
    assert quarter.variance == pytest.approx(0.25 * one.variance)
    for exploration in ALGORITHMS:
        how, state = started(exploration, 0.0)
        score, rng = how.score(state, context), np.random.default_rng(2)
        assert {int(how.policy.scores(score, rng).argmax()) for _ in range(5)} == {int(score.mean.argmax())}


def test_ucb_adds_one_deviation_and_ts_draws_it() -> None:
    context, rng = np.linspace(-1.0, 1.0, N_FEATURES), np.random.default_rng(1)
    ucb, ts = algorithm("ucb"), algorithm("thompson")
    state = ucb.init(N_ARMS, rng)
    score = ucb.score(state, context)
    np.testing.assert_allclose(ucb.policy.scores(score, rng), score.mean + score.scale)
    scores = ts.policy.scores(ts.score(state, np.tile(context, (20_000, 1))), rng)
    np.testing.assert_allclose(scores.mean(axis=0), score.mean, atol=5 * score.scale.max() / np.sqrt(20_000))
    np.testing.assert_allclose(scores.std(axis=0), score.scale, rtol=0.03)
