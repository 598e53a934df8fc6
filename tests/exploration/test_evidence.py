"""Evidence and forgetting against closed forms."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from lim2.exploration.evidence import Data, faded, log_evidence
from lim2.exploration.roots import RootPosterior
from lim2.state import frozen


def beliefs_of(rng: np.random.Generator, n_arms: int, width: int) -> RootPosterior:
    root = rng.normal(size=(n_arms, width, width)) / np.sqrt(width)
    return frozen(
        RootPosterior(rng.normal(size=(n_arms, width)), root, rng.uniform(2, 9, n_arms), rng.uniform(1, 5, n_arms))
    )


@pytest.mark.parametrize("rows", [1, 3, 20], ids=["one", "few", "many"])
def test_the_evidence_is_the_density_of_a_multivariate_t(rows: int) -> None:
    rng = np.random.default_rng(rows)
    beliefs = beliefs_of(rng, 3, 5)
    arms = np.sort(rng.integers(3, size=3 * rows))
    data = frozen(Data(rng.normal(size=(3 * rows, 5)), rng.normal(size=3 * rows), arms))
    factors = (1.0, 4.0, 100.0)
    for asked in ([0, 1, 2], [2], []):
        expected = np.zeros(3)
        for arm in asked:
            z, r = data.features[arms == arm], data.rewards[arms == arm]
            if len(r):
                a, scale = beliefs.a[arm], beliefs.b[arm] / beliefs.a[arm]
                expected += [
                    multivariate_t.logpdf(
                        r, z @ beliefs.mu[arm], scale * (np.eye(len(r)) + c * z @ beliefs.cov[arm] @ z.T), df=2 * a
                    )
                    for c in factors
                ]
        got = log_evidence(beliefs, np.array(asked, dtype=np.intp), data, factors)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("factor", [1.0, 4.0, 1e6])
def test_fading_averages_precisions(factor: float) -> None:
    rng = np.random.default_rng(1)
    beliefs, keep = beliefs_of(rng, 2, 4), 1.0 / factor
    variances = rng.uniform(0.5, 3.0, 4)
    start = RootPosterior(
        rng.normal(size=(1, 4)), np.diag(np.sqrt(variances))[None], np.array([15.0]), np.array([30.0])
    )
    after = faded(beliefs, frozen(start), factor)
    for arm in range(2):
        known, first = keep * np.linalg.inv(beliefs.cov[arm]), (1.0 - keep) * np.diag(1.0 / variances)
        np.testing.assert_allclose(np.linalg.inv(after.cov[arm]), known + first, rtol=1e-7, atol=1e-7)
        mean = np.linalg.solve(known + first, known @ beliefs.mu[arm] + first @ start.mu[0])
        np.testing.assert_allclose(after.mu[arm], mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(after.a, keep * beliefs.a + (1 - keep) * 15.0)
    np.testing.assert_allclose(after.b, keep * beliefs.b + (1 - keep) * 30.0)
