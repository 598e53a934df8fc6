"""The oracle's own tests: it must be right before anything is compared with it."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import (
    Buffer,
    Network,
    OracleLiM2,
    OracleLinearTS,
    OracleNTK,
    Tuple,
    eigenvalue_thresholding,
    objective_gradient,
    oracle_full,
    oracle_mm,
    oracle_naive,
    pgd_batch,
    pgd_sample,
    posterior,
    posterior_limit,
    transport,
    transport_map,
)

Array = NDArray[np.float64]
N_FEATURES, WIDTH, N_ARMS = 4, 6, 3


def make_network(seed: int = 0, hidden: tuple[int, ...] = (WIDTH,), **options: Any) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (N_FEATURES, *hidden, N_ARMS)
    weights = [rng.uniform(-0.5, 0.5, shape) for shape in pairwise(sizes)]
    biases = [rng.uniform(-0.2, 0.2, size) for size in sizes[1:]]
    return Network(weights, biases, **options)


def random_psd(rng: np.random.Generator, d: int) -> Array:
    root = rng.normal(size=(d, d))
    return np.asarray(root @ root.T + 0.1 * np.eye(d), dtype=np.float64)


def numerical_gradient(f: Callable[[], float], x: Array) -> Array:
    gradient = np.zeros_like(x)
    for k in np.ndindex(*x.shape):
        value = x[k]
        x[k] = value + 1e-6
        above = f()
        x[k] = value - 1e-6
        below = f()
        x[k] = value
        gradient[k] = (above - below) / 2e-6
    return gradient


# Network


@pytest.mark.parametrize("hidden", [(WIDTH,), (5, WIDTH)])
def test_network_gradient_is_that_of_the_mean_squared_error(hidden: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    network = make_network(hidden=hidden)
    contexts, arms, rewards = (
        rng.normal(size=(7, N_FEATURES)),
        rng.integers(N_ARMS, size=7),
        rng.normal(size=7),
    )

    def loss() -> float:
        errors = [(network.outputs(c)[i] - r) ** 2 for c, i, r in zip(contexts, arms, rewards, strict=True)]
        return float(np.mean(errors))

    value, gradients = network.gradient(contexts, arms, rewards)
    assert value == pytest.approx(loss())
    for parameter, gradient in zip(network.parameters, gradients, strict=True):
        np.testing.assert_allclose(gradient, numerical_gradient(loss, parameter), atol=1e-8)


def one_weight(**options: Any) -> Network:
    """w x with w = 2 and a head of 1: the gradient of (w x - r)^2 by w is 2 (w x - r) x."""
    return Network([np.array([[2.0]]), np.array([[1.0]])], [np.zeros(1), np.zeros(1)], **options)


ONE = (np.ones((1, 1)), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        # reward 1.5, so error 0.5 and gradient 1; then the rates are 0.1 and 0.1 / 1.05
        ("sgd", 2.0 - 0.1),
        ("rmsprop", 2.0 - 0.1 / np.sqrt(0.9 + 0.1 + 1e-10)),
        ("adam", 2.0 - 0.1 / (1.0 + 1e-8)),
    ],
)
def test_first_step_of_each_optimizer(optimizer: str, expected: float) -> None:
    network = one_weight(optimizer=optimizer)
    assert network.train(*ONE, np.array([1.5])) == pytest.approx(0.25)
    assert network.weights[0][0, 0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adam"])
def test_second_step_of_each_optimizer(optimizer: str) -> None:
    network = one_weight(optimizer=optimizer)
    network.train(*ONE, np.array([1.5]))
    before = network.weights[0][0, 0]
    g = network.gradient(*ONE, np.array([1.5]))[1][0][0, 0]
    assert g != pytest.approx(1.0)
    network.train(*ONE, np.array([1.5]))
    rate = 0.1 / 1.05
    if optimizer == "sgd":
        expected = before - rate * g
    elif optimizer == "rmsprop":
        expected = before - rate * g / np.sqrt(0.9 * 1.0 + 0.1 * g**2 + 1e-10)
    else:
        m, v = 0.9 * 0.1 + 0.1 * g, 0.999 * 0.001 + 0.001 * g**2
        expected = before - rate * (m / (1 - 0.81)) / (np.sqrt(v / (1 - 0.999**2)) + 1e-8)
    assert network.weights[0][0, 0] == pytest.approx(expected, abs=1e-12)


def test_gradient_norm_is_clipped_over_all_parameters() -> None:
    network = one_weight(optimizer="sgd", learning_rate=1.0)
    before = [p.copy() for p in network.parameters]
    network.train(*ONE, np.array([-100.0]))
    steps = [p - q for p, q in zip(network.parameters, before, strict=True)]
    assert np.sqrt(sum(np.sum(s**2) for s in steps)) == pytest.approx(5.0)
    free = one_weight(optimizer="sgd", learning_rate=1.0, clip=None)
    free.train(*ONE, np.array([-100.0]))
    assert free.weights[0][0, 0] == pytest.approx(2.0 - 204.0)


def test_network_copies_its_inputs() -> None:
    W = [np.ones((1, 1)), np.ones((1, 1))]
    c = [np.zeros(1), np.zeros(1)]
    Network(W, c).train(*ONE, np.array([5.0]))
    assert W[0][0, 0] == 1.0
    assert c[1][0] == 0.0


# Likelihood matching


def test_matching_gradient_is_that_of_the_objective() -> None:
    rng = np.random.default_rng(2)
    A, phi, s2 = random_psd(rng, 4), rng.normal(size=4), 0.7

    def objective() -> float:
        return float((np.trace(np.outer(phi, phi).T @ A) - s2) ** 2)

    np.testing.assert_allclose(objective_gradient(A, phi, s2), numerical_gradient(objective, A), rtol=1e-6)


def test_thresholding_keeps_the_psd_part() -> None:
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])
    indefinite = rotation @ np.diag([3.0, -2.0]) @ rotation.T
    expected = rotation @ np.diag([3.0, 0.0]) @ rotation.T
    np.testing.assert_allclose(eigenvalue_thresholding(indefinite), expected, atol=1e-12)


def test_pgd_on_a_hand_worked_example() -> None:
    A0 = np.eye(2)
    old, new = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0]])
    # sample: 1 - 0.01 * 2 (4 - 1) 4 = 0.76, then 0.76 - 0.01 * 2 (0.76 - 1) = 0.7648
    np.testing.assert_allclose(pgd_sample(A0, old, new, 0.01), np.diag([0.7648, 1.0]), atol=1e-12)
    # batch: mean gradient (24 + 0) / 2 = 12, clipped to 5
    np.testing.assert_allclose(
        pgd_batch(A0, old, new, 0.01, ridge=0.5), np.diag([0.95, 1.0]) + 0.5 * np.eye(2), atol=1e-12
    )
    np.testing.assert_allclose(pgd_batch(A0, old, new, 0.01, clip=100.0, ridge=0.0), np.diag([0.88, 1.0]), atol=1e-12)
    # a step out of the cone is projected: 1 - 0.1 * 24 < 0
    np.testing.assert_allclose(pgd_sample(A0, old[:1], new[:1], 0.1), np.diag([0.0, 1.0]), atol=1e-12)
    np.testing.assert_array_equal(pgd_batch(A0, old[:0], new[:0], 0.01), A0)


def test_pgd_s2_is_of_the_matrix_before_the_pass() -> None:
    A0 = np.eye(1)
    same = np.array([[1.0], [1.0]])
    # with unchanged features nothing moves; had the first sample moved A, s^2 would still be 1
    np.testing.assert_allclose(pgd_sample(A0, same, same, 0.1), A0)
    old, new = np.array([[2.0], [1.0]]), np.array([[1.0], [1.0]])
    # 1 + 0.1 * 2 (4 - 1) = 1.6, then 1.6 - 0.1 * 2 (1.6 - 1) = 1.48
    np.testing.assert_allclose(pgd_sample(A0, old, new, 0.1), [[1.48]], atol=1e-12)


def test_transport_keeps_the_variance_of_every_sample() -> None:
    rng = np.random.default_rng(3)
    A0, change = random_psd(rng, 4), rng.normal(size=(4, 4))
    new = rng.normal(size=(20, 4))
    old = new @ change
    moved = transport(A0, transport_map(old, new, ridge=1e-12))
    for phi_old, phi in zip(old, new, strict=True):
        assert phi @ moved @ phi == pytest.approx(phi_old @ A0 @ phi_old, rel=1e-8)
    np.testing.assert_array_equal(transport_map(old, 0.0 * new, 0.1), np.eye(4))
    # by hand: Z'Z = diag(4, 0), Z'Z_old = diag(2, 0), rho = 0.5 * 4 / 2 = 1
    M = transport_map(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]), 0.5)
    np.testing.assert_allclose(M, np.diag([3.0 / 5.0, 1.0]), atol=1e-12)


# Bayesian linear regression


def test_conjugate_updates_in_a_loop_equal_the_batch_posterior() -> None:
    rng = np.random.default_rng(4)
    Z, r = rng.normal(size=(30, 5)), rng.normal(size=30)
    A0, mu0 = random_psd(rng, 5), rng.normal(size=5)
    cov, mu, total = A0, mu0, 0.0
    for z, reward in zip(Z, r, strict=True):
        cov, mu, difference = posterior(cov, mu, np.outer(z, z), z * reward)
        total += difference
    batch_cov, batch_mu, batch_total = posterior(A0, mu0, Z.T @ Z, Z.T @ r)
    np.testing.assert_allclose(cov, batch_cov, atol=1e-10)
    np.testing.assert_allclose(mu, batch_mu, atol=1e-10)
    assert total == pytest.approx(batch_total, abs=1e-9)
    # and R^2 plus that difference is a sum of squares
    residual, shift = r - Z @ mu, mu - mu0
    expected = residual @ residual + shift @ np.linalg.inv(A0) @ shift
    assert r @ r + total == pytest.approx(expected, abs=1e-9)


def test_posterior_of_a_singular_prior_is_the_limit() -> None:
    rng = np.random.default_rng(5)
    Z, r, mu0 = rng.normal(size=(9, 4)), rng.normal(size=9), rng.normal(size=4)
    regular = random_psd(rng, 4)
    data = mu0, Z.T @ Z, Z.T @ r

    def gap(x: tuple[Array, Array, float], y: tuple[Array, Array, float]) -> Array:
        return np.array([np.linalg.norm(x[0] - y[0]), np.linalg.norm(x[1] - y[1]), abs(x[2] - y[2])])

    assert np.linalg.cond(regular) < 1e4
    assert (gap(posterior(regular, *data), posterior_limit(regular, *data)) < 1e-9).all()
    singular = regular - np.min(np.linalg.eigvalsh(regular)) * np.eye(4)
    exact = posterior(singular, *data)
    assert np.linalg.eigvalsh(exact[0])[0] == pytest.approx(0.0, abs=1e-12)
    near, nearer = (posterior(singular + e * np.eye(4), *data) for e in (1e-2, 1e-3))
    assert (gap(exact, nearer) < 0.2 * gap(exact, near)).all()
    assert (gap(exact, nearer) > 0.0).all()


# Memory


def test_buffer_evicts_on_a_hand_worked_example() -> None:
    buffer = Buffer(4)

    def store(stamp: int, arm: int) -> int | None:
        removed = buffer.store(Tuple(stamp, np.zeros(1), arm, 0.0))
        return None if removed is None else removed.stamp

    assert [store(t, arm) for t, arm in enumerate([2, 0, 2, 0])] == [None] * 4
    assert store(4, 2) == 0  # the first tuple of arm 2
    assert store(5, 1) == 1  # arm 1 holds none; 0 and 2 tie, the lowest goes
    assert store(6, 1) == 5  # the first of its own
    assert store(7, 5) == 2  # arm 5 holds none; arm 2 holds most
    assert [(e.stamp, e.arm) for e in buffer.tuples] == [(3, 0), (4, 2), (6, 1), (7, 5)]
    with pytest.raises(KeyError):
        buffer.find(2)
    unbounded = Buffer(None)
    assert all(unbounded.store(Tuple(t, np.zeros(1), 0, 0.0)) is None for t in range(50))


# Agents


def run(agent: OracleLiM2 | OracleNTK, rounds: int, seed: int, batch: int = 12) -> None:
    """Play random contexts; batches are drawn from what the buffer holds after storing."""
    rng = np.random.default_rng(seed)
    for t in range(rounds):
        context = rng.normal(size=N_FEATURES)
        arm = agent.act(context, rng.standard_t(2 * agent.a))
        reward = float(context[arm] + 0.1 * rng.normal())
        after = Buffer(agent.buffer.capacity)
        after.tuples = list(agent.buffer.tuples)
        after.store(Tuple(t, context, arm, reward))
        stamps = [e.stamp for e in after.tuples]
        batches = [[int(s) for s in rng.choice(stamps, size=batch)]] if t >= 1 else []
        agent.update(context, arm, reward, batches)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"matching": "sample"},
    {"matching": "sample", "matching_rate": 1.0},
    {"matching": "solve", "matching_ridge": 0.01},
    {"matching": None},
    {"recount": False},
    {"recount": False, "train_every": 7},
    {"refresh": "all", "intercept": True, "noise": "buffer"},
    {"exploration": "ucb", "ucb_width": 2.0},
    {"carry": False, "mean_prior": False, "train_every": 10},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_run_stays_finite_and_psd(options: dict[str, Any]) -> None:
    agent = OracleLiM2(make_network(), N_ARMS, buffer=20, **options)
    run(agent, 60, seed=6)
    assert agent.t == 60
    assert len(agent.buffer.tuples) == 20
    assert agent.plays.sum() == 60
    for name in ("mu", "cov", "prior_cov", "a", "b"):
        assert np.isfinite(getattr(agent, name)).all()
    for C in (*agent.cov, *agent.prior_cov):
        np.testing.assert_allclose(C, C.T, atol=1e-9)
        assert np.linalg.eigvalsh(C).min() > -1e-9
    assert (agent.b >= agent.b0 - 1e-9).all()


def test_first_round_by_hand() -> None:
    """One tuple, no training yet: the textbook posterior with the last layer as prior mean."""
    network = make_network()
    agent = OracleLiM2(network, N_ARMS, buffer=20, prior_precision=2.0)
    context, reward = np.array([0.3, -1.0, 0.5, 2.0]), 1.5
    z, mu0 = network.features(context), network.weights[-1][:, 1].copy()
    agent.update(context, 1, reward, [])
    precision = 2.0 * np.eye(WIDTH) + np.outer(z, z)
    mu = np.linalg.solve(precision, 2.0 * mu0 + z * reward)
    np.testing.assert_allclose(agent.cov[1], np.linalg.inv(precision), atol=1e-12)
    np.testing.assert_allclose(agent.mu[1], mu, atol=1e-12)
    assert agent.a[1] == 6.5
    assert agent.b[1] == pytest.approx(6.0 + 0.5 * (reward**2 + 2.0 * mu0 @ mu0 - mu @ precision @ mu))
    np.testing.assert_array_equal(agent.mu[[0, 2]], 0.0)
    np.testing.assert_array_equal(agent.a, [6.0, 6.5, 6.0])
    # second round of the same arm: the posterior is the prior and the whole buffer is counted again
    agent.update(context, 1, reward, [])
    np.testing.assert_allclose(np.linalg.inv(agent.cov[1]), 2.0 * np.eye(WIDTH) + 3.0 * np.outer(z, z), atol=1e-10)


@pytest.mark.parametrize("matching", ["batch", "sample", "solve", None])
def test_a_training_round_by_hand(matching: str | None) -> None:
    """Order of a round: prior from the last posterior, two steps of training and matching, refit."""
    agent = OracleLiM2(make_network(), N_ARMS, buffer=20, matching=matching, matching_rate=0.05, matching_ridge=1e-3)
    twin = make_network()
    rng = np.random.default_rng(11)
    data = [(rng.normal(size=N_FEATURES), int(rng.integers(N_ARMS)), float(rng.normal())) for _ in range(4)]
    for context, arm, reward in data[:3]:
        agent.update(context, arm, reward, [])
    prior, mu_before = agent.cov.copy(), agent.mu.copy()
    batches = [[0, 3, 1, 3], [2, 0, 0]]
    agent.update(*data[3], batches)

    for stamps in batches:
        contexts, arms = np.array([data[k][0] for k in stamps]), np.array([data[k][1] for k in stamps])
        old = np.array([twin.features(c) for c in contexts])
        twin.train(contexts, arms, np.array([data[k][2] for k in stamps]))
        new = np.array([twin.features(c) for c in contexts])
        for i in range(N_ARMS):
            if matching == "batch":
                prior[i] = pgd_batch(prior[i], old[arms == i], new[arms == i], 0.05 / 4, 5.0, 1e-3)
            elif matching == "sample":
                prior[i] = pgd_sample(prior[i], old[arms == i], new[arms == i], 0.05 / 4)
            elif matching == "solve":
                prior[i] = transport(prior[i], transport_map(old, new, 1e-3))
    np.testing.assert_allclose(agent.prior_cov, prior, atol=1e-10)
    for i in range(N_ARMS):
        Z = np.array([twin.features(c) for c, a, _ in data if a == i]).reshape(-1, WIDTH)
        r = np.array([x for _, a, x in data if a == i])
        cov, mu, difference = posterior(prior[i], twin.weights[-1][:, i], Z.T @ Z, Z.T @ r)
        np.testing.assert_allclose(agent.cov[i], cov, atol=1e-10)
        if i == data[3][1]:
            np.testing.assert_allclose(agent.mu[i], mu, atol=1e-10)
            assert agent.b[i] == pytest.approx(6.0 + 0.5 * (r @ r + difference))
        else:
            np.testing.assert_array_equal(agent.mu[i], mu_before[i])


def test_an_evicted_tuple_joins_the_prior_under_the_features_before_training() -> None:
    agent = OracleLiM2(make_network(), N_ARMS, buffer=2, recount=False, matching=None)
    rng = np.random.default_rng(12)
    contexts = rng.normal(size=(3, N_FEATURES))
    agent.update(contexts[0], 1, 1.0, [])
    agent.update(contexts[1], 1, 0.5, [[0, 1]])
    z = agent.features(contexts[0])
    agent.update(contexts[2], 0, 2.0, [[1, 2]])
    np.testing.assert_allclose(np.linalg.inv(agent.prior_cov[1]), np.eye(WIDTH) + np.outer(z, z), atol=1e-10)
    np.testing.assert_array_equal(agent.prior_cov[0], np.eye(WIDTH))


def test_nothing_is_trained_before_train_from_or_between_phases() -> None:
    context = np.ones(N_FEATURES)
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"train_from": 2}, [0, 0, 1, 2]),
        ({"train_every": 3}, [0, 0, 1, 1]),
    ]
    for options, steps in cases:
        agent = OracleLiM2(make_network(), N_ARMS, buffer=9, **options)
        seen = []
        for t in range(4):
            agent.update(context, 0, 1.0, [[t]])
            seen.append(agent.network.step)
        assert seen == steps


def test_noise_counts_all_plays_or_the_buffer() -> None:
    rewards = [3.0, 1.0, 2.0, -1.0, 0.5]
    for noise, kept in (("history", rewards), ("buffer", rewards[-2:])):
        agent = OracleLiM2(make_network(), N_ARMS, buffer=2, noise=noise)
        for reward in rewards:
            agent.update(np.zeros(N_FEATURES), 0, reward, [])
        z, mu0 = agent.features(np.zeros(N_FEATURES)), agent.network.weights[-1][:, 0]
        _, _, difference = posterior(agent.prior_cov[0], mu0, 2 * np.outer(z, z), z * sum(rewards[-2:]))
        assert agent.a[0] == 6.0 + len(kept) / 2
        assert agent.b[0] == pytest.approx(6.0 + 0.5 * (sum(r**2 for r in kept) + difference))


def test_intercept_takes_the_bias_into_the_prior_mean() -> None:
    agent = oracle_mm(make_network(), N_ARMS, buffer=9, intercept=True, prior_precision=1e9)
    agent.update(np.ones(N_FEATURES), 2, 1.0, [])
    expected = np.append(agent.network.weights[-1][:, 2], agent.network.biases[-1][2])
    np.testing.assert_allclose(agent.mu[2], expected, atol=1e-6)
    assert agent.features(np.ones(N_FEATURES))[-1] == 1.0


def test_without_recount_every_tuple_is_counted_once() -> None:
    """With the network at rest, prior and buffer together are the posterior of all history."""
    agent = OracleLiM2(make_network(), N_ARMS, buffer=5, recount=False, intercept=True, refresh="all")
    rng = np.random.default_rng(7)
    precision = np.array([np.eye(WIDTH + 1)] * N_ARMS)
    for _ in range(25):
        context, arm = rng.normal(size=N_FEATURES), int(rng.integers(N_ARMS))
        z = agent.features(context)
        precision[arm] += np.outer(z, z)
        agent.update(context, arm, float(rng.normal()), [])
    for i in range(N_ARMS):
        np.testing.assert_allclose(np.linalg.inv(agent.cov[i]), precision[i], atol=1e-9)


def test_phases_end_at_the_posterior_of_all_history() -> None:
    """Full memory: between phases by conjugate updates, at a phase by recomputing everything."""
    agent = oracle_full(make_network(), N_ARMS, train_every=10)
    rng = np.random.default_rng(8)
    data = [(rng.normal(size=N_FEATURES), int(rng.integers(N_ARMS)), float(rng.normal())) for _ in range(27)]
    for t, (context, arm, reward) in enumerate(data):
        agent.update(context, arm, reward, [list(range(t + 1))] * 3 if (t + 1) % 10 == 0 else [])
        if t + 1 in (20, 27):
            for i in range(N_ARMS):
                Z = np.array([agent.features(c) for c, a, _ in data[: t + 1] if a == i])
                r = np.array([x for _, a, x in data[: t + 1] if a == i])
                cov, mu, difference = posterior(4.0 * np.eye(WIDTH), np.zeros(WIDTH), Z.T @ Z, Z.T @ r)
                np.testing.assert_allclose(agent.cov[i], cov, atol=1e-10)
                np.testing.assert_allclose(agent.mu[i], mu, atol=1e-10)
                assert agent.a[i] == 6.0 + len(r) / 2
                assert agent.b[i] == pytest.approx(6.0 + 0.5 * (r @ r + difference))
    assert agent.network.step == 6


def test_ablations_differ_in_their_priors() -> None:
    mm = oracle_mm(make_network(), N_ARMS, buffer=20)
    naive = oracle_naive(make_network(), N_ARMS, buffer=20)
    context = np.array([0.3, -1.0, 0.5, 2.0])
    z = mm.features(context)
    for agent in (mm, naive):
        for t in range(2):
            agent.update(context, 0, 1.0, [])
            np.testing.assert_allclose(
                np.linalg.inv(agent.cov[0]), np.eye(WIDTH) + (t + 1) * np.outer(z, z), atol=1e-10
            )
    np.testing.assert_allclose(naive.mu[0], naive.cov[0] @ (2.0 * z), atol=1e-10)
    np.testing.assert_allclose(mm.mu[0], mm.cov[0] @ (mm.network.weights[-1][:, 0] + 2.0 * z), atol=1e-10)


def test_ntk_accumulates_features_as_they_were_seen() -> None:
    agent = OracleNTK(make_network(), N_ARMS, buffer=3, prior_precision=2.0, refresh="all")
    rng = np.random.default_rng(9)
    precision, psi = np.array([2.0 * np.eye(WIDTH)] * N_ARMS), np.zeros((N_ARMS, WIDTH))
    R2 = np.zeros(N_ARMS)
    for t in range(12):
        context, arm, reward = rng.normal(size=N_FEATURES), t % N_ARMS, float(rng.normal())
        z = agent.features(context)
        precision[arm] += np.outer(z, z)
        psi[arm] += z * reward
        R2[arm] += reward**2
        agent.update(context, arm, reward, [[t]])
        assert np.abs(agent.features(context) - z).max() > 1e-6  # the network did move
    for i in range(N_ARMS):
        mu0 = agent.network.weights[-1][:, i]
        np.testing.assert_allclose(agent.cov[i], np.linalg.inv(precision[i]), atol=1e-10)
        mu = np.linalg.solve(precision[i], 2.0 * mu0 + psi[i])
        np.testing.assert_allclose(agent.mu[i], mu, atol=1e-10)
        expected = 6.0 + 0.5 * (R2[i] + 2.0 * mu0 @ mu0 - mu @ precision[i] @ mu)
        assert agent.b[i] == pytest.approx(expected)
    assert (agent.a == 8.0).all()


def test_act_plays_round_robin_then_the_best_score() -> None:
    agent = OracleLinearTS(3, 1, initial_pulls=2, intercept=False)
    played = []
    for _ in range(6):
        played.append(agent.act(np.ones(1), np.zeros(3)))
        agent.update(np.ones(1), played[-1], float(played[-1] == 1))
    assert played == [0, 1, 2, 0, 1, 2]
    assert agent.act(np.ones(1), np.zeros(3)) == 1  # the best mean
    assert agent.act(np.ones(1), np.array([0.0, 0.0, 9.0])) == 2  # a large draw
    # mu = 2 / 2.25 against 0, and deviation sqrt(b / a / 2.25): a draw decides beyond the gap
    deviation = np.sqrt(agent.b / agent.a / 2.25)
    gap = (2 / 2.25) / deviation[2]
    assert agent.act(np.ones(1), np.array([0.0, 0.0, 0.999 * gap])) == 1
    assert agent.act(np.ones(1), np.array([0.0, 0.0, 1.001 * gap])) == 2


def test_ucb_adds_its_width() -> None:
    agents = [OracleLinearTS(2, 1, initial_pulls=0, exploration="ucb", ucb_width=w) for w in (0.0, 50.0)]
    for agent in agents:
        for _ in range(5):
            agent.update(np.ones(1), 0, 1.0)
    assert [agent.act(np.ones(1)) for agent in agents] == [0, 1]


def test_linear_ts_equals_the_textbook_posterior() -> None:
    agent = OracleLinearTS(2, 1)
    for x, reward in ((1.0, 2.0), (3.0, -1.0)):
        agent.update(np.array([x]), 1, reward)
    precision = np.array([[0.25 + 10.0, 4.0], [4.0, 0.25 + 2.0]])  # features (1, 1) and (3, 1)
    mu = np.linalg.solve(precision, [-1.0, 1.0])
    np.testing.assert_allclose(np.linalg.inv(agent.cov[1]), precision, atol=1e-10)
    np.testing.assert_allclose(agent.mu[1], mu, atol=1e-12)
    assert agent.a.tolist() == [6.0, 7.0]
    np.testing.assert_allclose(agent.b, [6.0, 6.0 + 0.5 * (5.0 - mu @ precision @ mu)], atol=1e-12)


def test_linear_ts_beats_uniform_on_a_linear_problem() -> None:
    rng = np.random.default_rng(10)
    theta, offset = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]]), np.array([0.2, 0.0, -0.2])
    agent = OracleLinearTS(3, 2)
    regret, uniform = 0.0, 0.0
    for _ in range(400):
        context = rng.normal(size=2)
        means = theta @ context + offset
        arm = agent.act(context, rng.standard_t(2 * agent.a))
        agent.update(context, arm, float(means[arm] + 0.1 * rng.normal()))
        regret += means.max() - means[arm]
        uniform += means.max() - means.mean()
    assert regret < 0.1 * uniform
    np.testing.assert_allclose(agent.mu, np.column_stack([theta, offset]), atol=0.1)
