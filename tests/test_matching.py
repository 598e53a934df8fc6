"""Likelihood matching: against Algorithm PGD as written, the cone, and the certificate that makes it cheap."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import eigenvalue_thresholding, pgd_batch, pgd_sample
from oracle import transport_map as oracle_transport_map

import lim2
from lim2.matching import Matching, Prior, named, project, residual, transport_map
from lim2.state import frozen

Float = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def random_cov(rng: np.random.Generator, g: int, least: float = 0.01) -> Float:
    vectors = np.linalg.qr(rng.normal(size=(g, g)))[0]
    cov: Float = (vectors * rng.uniform(least, 1.0, g)) @ vectors.T
    return cov


def drifted(rng: np.random.Generator, n: int, g: int, drift: float) -> tuple[Float, Float]:
    old = np.maximum(rng.normal(size=(n, g)), 0.0)
    return old, np.maximum(old + drift * rng.normal(size=(n, g)), 0.0)


@given(seed=seeds, g=st.integers(1, 10))
def test_projection_equals_eigenvalue_thresholding(seed: int, g: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(g, g))
    matrix = matrix + matrix.T
    projected, changed = project(matrix)
    np.testing.assert_allclose(projected, eigenvalue_thresholding(matrix), atol=1e-9)
    assert np.linalg.eigvalsh(projected).min() > -1e-12
    assert changed == (np.linalg.eigvalsh(matrix).min() < 0)


@given(seed=seeds, g=st.integers(1, 8), n=st.integers(0, 20), rate=st.floats(1e-6, 100.0), drift=st.floats(0.0, 2.0))
def test_batch_equals_the_oracle(seed: int, g: int, n: int, rate: float, drift: float) -> None:
    rng = np.random.default_rng(seed)
    cov = random_cov(rng, g)
    old, new = drifted(rng, n, g, drift)
    matched = lim2.match(cov, old, new, method="batch", rate=rate)
    expected = pgd_batch(cov, old, new, rate)
    np.testing.assert_allclose(matched.cov, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert np.linalg.eigvalsh(matched.cov).min() > -1e-9 * np.abs(matched.cov).max()


@given(seed=seeds, g=st.integers(1, 8), n=st.integers(0, 20), rate=st.floats(1e-6, 0.05), drift=st.floats(0.0, 1.0))
def test_sample_equals_the_oracle(seed: int, g: int, n: int, rate: float, drift: float) -> None:
    """The triangular solve, and the loop by smallest eigenpairs, against a projection per sample."""
    rng = np.random.default_rng(seed)
    cov = random_cov(rng, g)
    old, new = drifted(rng, n, g, drift)
    matched = lim2.match(cov, old, new, method="sample", rate=rate)
    expected = pgd_sample(cov, old, new, rate)
    np.testing.assert_allclose(matched.cov, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert np.linalg.eigvalsh(matched.cov).min() > -1e-9 * max(1.0, np.abs(matched.cov).max())


def test_both_ways_through_the_samples_are_taken() -> None:
    """The two paths of the test above: rates at which the cone is left, and at which it is not."""
    rng = np.random.default_rng(0)
    cov, (old, new) = random_cov(rng, 6), drifted(rng, 15, 6, 0.5)
    calm = lim2.match(cov, old, new, method="sample", rate=1e-4)
    rough = lim2.match(cov, old, 2 * new, method="sample", rate=0.02)
    assert calm.projections == 0 < rough.projections
    np.testing.assert_allclose(rough.cov, pgd_sample(cov, old, 2 * new, 0.02), atol=1e-9 * np.abs(rough.cov).max())


@given(seed=seeds, g=st.integers(2, 8), excess=st.floats(1.01, 50.0))
def test_one_step_down_leaves_the_cone_by_one_eigenvalue(seed: int, g: int, excess: float) -> None:
    """The rank-one fact behind the loop: A - c zz' is PSD while c z'A^-1 z <= 1, else one eigenvalue is negative."""
    rng = np.random.default_rng(seed)
    cov, z = random_cov(rng, g, least=0.1), rng.normal(size=g)
    edge = 1.0 / float(z @ np.linalg.solve(cov, z))
    assert np.linalg.eigvalsh(cov - 0.99 * edge * np.outer(z, z)).min() > 0
    values = np.linalg.eigvalsh(cov - excess * edge * np.outer(z, z))
    assert (values < 0).sum() == 1


@given(seed=seeds, method=st.sampled_from(["batch", "sample"]), rate=st.floats(1e-4, 5.0))
def test_the_floor_is_a_lower_bound(seed: int, method: str, rate: float) -> None:
    """The certificate is only worth anything if it never claims too much: matching, then conditioning, many times."""
    rng = np.random.default_rng(seed)
    n_arms, g = 2, 5
    prior, matching = frozen(Prior(np.array([np.eye(g)] * n_arms), np.ones(n_arms), 0)), Matching(method, rate=rate)
    for t in range(15):
        old, new = drifted(rng, 12, g, 0.2)
        groups = [(0, slice(0, 7)), (1, slice(7, 12))]
        prior = matching.step(prior, 0.3 * old, 0.3 * new, groups, t)
        least = np.array([np.linalg.eigvalsh(c).min() for c in prior.cov])
        assert (prior.floor <= least + 1e-12).all()
        assert (least >= -1e-10).all()
        z = rng.normal(size=(4, g))
        covs = np.array([np.linalg.inv(np.linalg.inv(c + 1e-12 * np.eye(g)) + z.T @ z) for c in prior.cov])
        # conditioning on Z raises the largest precision, 1 / floor, by the trace of Z'Z at most
        floor = prior.floor / (1.0 + prior.floor * float(np.sum(z * z)))
        prior = frozen(Prior(0.5 * (covs + covs.transpose(0, 2, 1)), floor, prior.projections))


@given(seed=seeds, method=st.sampled_from(["batch", "sample", "solve"]), rate=st.floats(1e-4, 5.0))
def test_arms_are_matched_one_by_one(seed: int, method: str, rate: float) -> None:
    """All arms at once are as each by itself; an arm without a sample stays, unless the map is learned from all."""
    rng = np.random.default_rng(seed)
    covs, (old, new) = np.array([random_cov(rng, 4) for _ in range(3)]), drifted(rng, 9, 4, 0.3)
    prior, matching = frozen(Prior(covs, np.full(3, 0.01), 5)), Matching(method, rate=rate)
    together = matching.step(prior, old, new, [(0, slice(0, 4)), (2, slice(4, 9))], 0)
    if method == "solve":
        mapping = transport_map(old, new)
        np.testing.assert_allclose(together.cov, mapping @ covs @ mapping.T, atol=1e-9 * np.abs(together.cov).max())
        return
    np.testing.assert_array_equal(together.cov[1], covs[1])
    assert together.floor[1] == prior.floor[1]
    projections = 5
    for arm, rows in ((0, slice(0, 4)), (2, slice(4, 9))):
        alone = lim2.match(covs[arm], old[rows], new[rows], method=method, rate=rate)
        np.testing.assert_allclose(together.cov[arm], alone.cov, atol=1e-9 * max(1.0, np.abs(alone.cov).max()))
        projections += alone.projections
    assert together.projections == projections


@pytest.mark.parametrize("method", ["batch", "sample", "solve"])
def test_without_samples_nothing_is_matched(method: str) -> None:
    covs, nothing = np.array([np.eye(3), 2.0 * np.eye(3)]), np.zeros((0, 3))
    prior = Matching(method).step(frozen(Prior(covs, np.ones(2), 0)), nothing, nothing, [], 0)
    np.testing.assert_array_equal(prior.cov, covs)


def test_the_residual_is_that_of_the_matched_covariances() -> None:
    rng = np.random.default_rng(9)
    covs, (old, new) = np.array([random_cov(rng, 4), random_cov(rng, 4)]), drifted(rng, 9, 4, 0.3)
    prior, groups = Prior(covs, np.full(2, 0.01), 0), [(0, slice(0, 4)), (1, slice(4, 9))]
    matching = Matching("batch", rate=1.0)
    matched = matching.step(prior, old, new, groups, 1).cov
    arms = [0] * 4 + [1] * 5
    wanted = np.array([z @ covs[arm] @ z for z, arm in zip(old, arms, strict=True)])
    got = np.array([z @ matched[arm] @ z for z, arm in zip(new, arms, strict=True)])
    expected = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
    assert residual(matching, prior, old, new, groups, 1) == pytest.approx(expected)


def test_at_the_published_rate_almost_nothing_needs_a_projection() -> None:
    agent = lim2.LiM2(3, 4, hidden=(10,), seed=0)
    for context in np.random.default_rng(1).normal(size=(300, 4)):
        arm = agent.act(context)
        agent.update(context, arm, float(np.sin(context[arm])))
    assert agent.state.projections <= 3
    assert (agent.state.floor > 0).all()


@pytest.mark.parametrize("method", ["batch", "sample", "solve"])
def test_unchanged_features_leave_the_covariance(method: str) -> None:
    rng = np.random.default_rng(2)
    cov, z = random_cov(rng, 4), rng.normal(size=(30, 4))
    matched = lim2.match(cov, z, z, method=method, jitter=0.0)
    np.testing.assert_allclose(matched.cov, cov, atol=1e-12)
    assert matched.before == pytest.approx(0.0, abs=1e-12)
    assert matched.after == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("method", "rate"), [("batch", 0.05), ("sample", 0.002), ("solve", 0.0)])
def test_matching_brings_the_variances_closer(method: str, rate: float) -> None:
    rng = np.random.default_rng(3)
    cov, (old, new) = random_cov(rng, 5, least=0.3), drifted(rng, 60, 5, 0.3)
    matched = lim2.match(cov, old, new, method=method, rate=rate)
    gap = np.vecdot(new @ cov, new) - np.vecdot(old @ cov, old)
    assert matched.before == pytest.approx(float(np.sqrt(np.mean(gap**2))))
    left = np.vecdot(new @ matched.cov, new) - np.vecdot(old @ cov, old)
    assert matched.after == pytest.approx(float(np.sqrt(np.mean(left**2))))
    assert matched.after < 0.95 * matched.before


def test_transport_undoes_an_invertible_change_of_features() -> None:
    rng = np.random.default_rng(4)
    cov, old, change = random_cov(rng, 4), rng.normal(size=(50, 4)), rng.normal(size=(4, 4)) + 3 * np.eye(4)
    matched = lim2.match(cov, old, old @ change, method="solve", ridge=1e-12)
    inverse = np.linalg.inv(change)
    np.testing.assert_allclose(matched.cov, inverse @ cov @ inverse.T, rtol=1e-6, atol=1e-9)
    assert matched.after < 1e-8 < matched.before


@given(seed=seeds, n=st.integers(1, 12), ridge=st.floats(1e-6, 10.0))
def test_transport_map_equals_the_oracle(seed: int, n: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    old, new = drifted(rng, n, 5, 0.3)
    np.testing.assert_allclose(transport_map(old, new, ridge), oracle_transport_map(old, new, ridge), atol=1e-7)


def test_dead_features_transport_nothing() -> None:
    old = np.random.default_rng(5).normal(size=(6, 3))
    np.testing.assert_array_equal(transport_map(old, np.zeros((6, 3))), np.eye(3))


def test_arguments_are_left_alone_and_checked() -> None:
    rng = np.random.default_rng(6)
    cov, (old, new) = random_cov(rng, 3), drifted(rng, 5, 3, 0.5)
    copies = cov.copy(), old.copy(), new.copy()
    for method in ("batch", "sample", "solve"):
        lim2.match(cov, old, new, method=method, rate=1.0)
    for given_array, copy in zip((cov, old, new), copies, strict=True):
        np.testing.assert_array_equal(given_array, copy)
    with pytest.raises(ValueError, match="'batch'"):
        lim2.match(cov, old, new, method="pgd")
    with pytest.raises(ValueError, match="square"):
        lim2.match(cov[:2], old, new)
    with pytest.raises(ValueError, match="same contexts"):
        lim2.match(cov, old[:3], new)


def test_no_method_only_reports() -> None:
    rng = np.random.default_rng(7)
    cov, (old, new) = random_cov(rng, 3), drifted(rng, 9, 3, 0.5)
    matched = lim2.match(cov, old, new, method=None)
    np.testing.assert_array_equal(matched.cov, cov)
    assert matched.before == matched.after > 0


@pytest.mark.parametrize("method", ["batch", "sample", "solve", None])
def test_what_is_no_covariance_is_refused(method: str | None) -> None:
    rng = np.random.default_rng(8)
    cov, (old, new) = random_cov(rng, 3), drifted(rng, 9, 3, 0.5)
    broken = new.copy()
    broken[2, 1] = np.nan
    with pytest.raises(ValueError, match="new"):
        lim2.match(cov, old, broken, method=method)
    with pytest.raises(ValueError, match="symmetric"):
        lim2.match(cov + np.triu(np.ones((3, 3)), 1), old, new, method=method)
    with pytest.raises(ValueError, match="positive"):
        lim2.match(cov - 2 * np.eye(3), old, new, method=method)
    wrong: list[dict[str, Any]] = [{"rate": np.inf}, {"clip": 0.0}, {"ridge": 0.0}, {"jitter": -1.0}, {"rate": "1"}]
    for setting in wrong:
        with pytest.raises(ValueError, match=next(iter(setting))):
            lim2.match(cov, old, new, method=method or "batch", **setting)


def test_projection_when_the_quickest_method_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(6, 6))
    matrix = matrix + matrix.T
    expected, changed = project(matrix)
    assert changed

    def fails(cov: Float, **_: object) -> tuple[Float, Float, int, None, int]:
        return np.zeros(6), np.zeros((6, 6)), 0, None, 1  # its last number says that it did not converge

    monkeypatch.setattr("lim2.matching.lapack.dsyevr", fails)
    np.testing.assert_allclose(project(matrix)[0], expected, atol=1e-12)


def test_the_rate_of_round_t_is_one_over_t_of_the_first() -> None:
    rng = np.random.default_rng(10)
    covs, (old, new) = np.array([random_cov(rng, 4)]), drifted(rng, 9, 4, 0.3)
    prior, groups = Prior(covs, np.zeros(1), 0), [(0, slice(0, 9))]
    late, slow = (
        Matching(rate=0.8).step(prior, old, new, groups, 3),
        Matching(rate=0.2).step(prior, old, new, groups, 0),
    )
    np.testing.assert_array_equal(late.cov, slow.cov)


class Shrinking:
    """A matcher that trusts less in what was known under the old features."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def step(self, prior: Prior, old: Float, new: Float, groups: list[tuple[int, slice]], t: int) -> Prior:
        assert old.shape == new.shape
        assert next(rows.start for _, rows in groups) == 0
        self.rounds.append(t)
        return Prior(1.01 * prior.cov, prior.floor, prior.projections)


def test_any_object_with_a_step_matches() -> None:
    matcher = Shrinking()
    plain, grown = (lim2.LiM2(2, 3, matching=matching, seed=0) for matching in (None, matcher))
    contexts = np.random.default_rng(0).normal(size=(6, 3))
    for agent in (plain, grown):
        agent.update(contexts, [0, 1] * 3, contexts[:, 0])
    assert matcher.rounds == [1, 2, 3, 4, 5]
    assert (grown.variances(contexts) > plain.variances(contexts)).all()
    assert grown.info is not None and plain.info is not None
    assert grown.info.residual is not None and plain.info.residual is None
    with pytest.raises(ValueError, match="cannot be saved"):
        grown.to_bytes()
    with pytest.raises(ValueError, match="a method `step`"):
        lim2.LiM2(2, 3, matching=0.1)  # type: ignore[call-overload]


def test_a_name_is_the_object_with_its_defaults() -> None:
    assert named("sample") == Matching("sample")
    assert named("batch") == Matching() == Matching("batch", rate=0.01)
