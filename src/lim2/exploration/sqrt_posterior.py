"""The square-root posterior, for fixed features: every covariance is stored as a root.

It is only ever conditioned on one more row, forever. With cov = S S', the root of the next covariance is
S - S f f' / (s + sqrt(s)), where f = S'z and s = 1 + f'f (Potter's form). Variances are sums of squares, which rounding
cannot make negative, however large the features or long the run.
"""

import math
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from lim2 import _kernels
from lim2.exploration.scores import StudentT
from lim2.state import Array, Write

_dtrmm = blas.dtrmm

PIECE = 256  # rows that are scored at a time, so that what is computed of them stays in the cache


class SqrtPosterior(NamedTuple):
    """Normal-inverse-gamma posterior over the linear weights of every arm, with roots of the covariances."""

    mu: Annotated[Array, "arm g"]
    root: Annotated[Array, "arm g g"]  # S', so that cov = root' root, in units of the noise variance
    a: Annotated[Array, "arm", "positive"]
    b: Annotated[Array, "arm", "positive"]

    @property
    def cov(self) -> Array:
        """The covariances, computed from their sqrt_posterior."""
        return self.root.transpose(0, 2, 1) @ self.root


class LinearPosterior(NamedTuple):
    """Linear posterior over fewer features, in addition to a :class:`SqrtPosterior`."""

    mu: Annotated[Array, "arm linear"]
    root: Annotated[Array, "arm linear linear"]
    a: Annotated[Array, "arm", "positive"]
    b: Annotated[Array, "arm", "positive"]


class TriangularPosterior(NamedTuple):
    """Posterior of one arm that learns no more: a product with a triangular root takes half of the time."""

    mu: Array
    root: Array  # upper triangular, stored by columns
    a: Array
    b: Array


Roots = SqrtPosterior | LinearPosterior
Scorer = Roots | TriangularPosterior
Beliefs = TypeVar("Beliefs", SqrtPosterior, LinearPosterior)


def of_features(posterior: Roots, columns: NDArray[np.bool_]) -> TriangularPosterior:
    """Return the posterior of one arm, to score rows whose other features are 0.

    Rows of the root that these features do not reach add nothing to a variance, and are left out first.
    """
    root = posterior.root[0][:, columns]
    triangle = np.asfortranarray(np.linalg.qr(root[root.any(axis=1)], mode="r"))
    return TriangularPosterior(posterior.mu[:, columns], triangle[None], posterior.a, posterior.b)


def prior(n_arms: int, width: int, precision: float, a0: float, b0: float) -> SqrtPosterior:
    """Return the prior: N(0, noise I / precision), InvGamma(a0, b0)."""
    root = np.tile(np.eye(width) / math.sqrt(precision), (n_arms, 1, 1))
    return SqrtPosterior(np.zeros((n_arms, width)), root, np.full(n_arms, float(a0)), np.full(n_arms, float(b0)))


def restarted(posterior: Beliefs, weight: float, before: float, after: float, centre: float | None) -> Beliefs:
    """Return the posterior of all arms with another prior variance of the noise; what was learned of it stays.

    ``weight`` is the prior's a. With a centre nothing was learned: without a scale of the rewards, errors mean nothing.
    """
    mu, root, a, b = posterior
    if centre is None:
        return type(posterior)(mu, root, a, weight * after + np.maximum(b - weight * before, 0.0))
    mu = mu.copy()
    mu[:, -1] = centre
    return type(posterior)(mu, root, a, np.full(len(b), weight * after))


def score(posterior: Scorer, z: Array) -> StudentT:
    """Return the score z'w of every arm, for one feature vector (g,) or rows of them (n, g); a triangle takes rows."""
    mu, root, a, b = posterior
    if isinstance(posterior, TriangularPosterior):
        spread = np.empty((len(z), 1))
        for start in range(0, len(z), PIECE):
            whitened = _dtrmm(1.0, root[0], z[start : start + PIECE].T).T
            np.vecdot(whitened, whitened, out=spread[start : start + PIECE, 0])
        return StudentT(z @ mu.T, np.sqrt(spread * (b / a)), a + a)
    if z.ndim == 1:
        return StudentT(*_kernels.score(mu, root, a, b, z))
    mean, spread = z @ mu.T, np.empty((len(z), len(mu)))
    for start in range(0, len(z), PIECE):
        rows = z[start : start + PIECE]
        for arm, matrix in enumerate(root):
            whitened = rows @ matrix.T
            np.vecdot(whitened, whitened, out=spread[start : start + PIECE, arm])
    return StudentT(mean, np.sqrt(spread * (b / a)), a + a)


def covariance(posterior: Scorer, rows: Array) -> Array:
    """Return the covariances of the first arm's scores of several rows of features, (n, n), given the mean noise."""
    whitened = rows @ posterior.root[0].T
    cov: Array = whitened @ whitened.T * (posterior.b[0] / posterior.a[0])
    return cov


def observe(posterior: Roots, arm: int, z: Array, reward: float) -> list[Write]:
    """Condition one arm on one more (features, reward): the exact conjugate update, in O(g^2). Returns its new rows.

    Examples
    --------
    >>> from lim2.state import Writes, written
    >>> before = prior(n_arms=1, width=2, precision=1.0, a0=6.0, b0=6.0)
    >>> after = written(Writes(before, observe(before, 0, np.array([1.0, 0.0]), 1.0)))
    >>> after.cov[0].round(3).tolist(), after.mu[0].tolist()
    ([[0.5, 0.0], [0.0, 1.0]], [0.5, 0.0])
    """
    return predicted(posterior, arm, z, reward)[0]


class Predicted(NamedTuple):
    """What a posterior said of rewards before it learned them: their densities are Student-t."""

    a: Any
    b: Any
    error: Any  # half the squared errors, in units of the variances of their means and noise
    scale: Any  # of these variances, in units of the noise: 1 + z'C z


def log_density(predicted: Predicted, a: Any) -> Any:
    """Return the log density of rewards with a common ``a``, up to what depends on it alone.

    With their own a, of two posteriors with the same mean noise the one that knows less of it has heavier tails, and
    rare large rewards would speak for it.

    Examples
    --------
    >>> before = prior(n_arms=1, width=2, precision=1.0, a0=6.0, b0=6.0)
    >>> one = [predicted(before, 0, np.array([1.0, 0.0]), reward)[1] for reward in (0.0, 3.0)]
    >>> [round(log_density(prediction, 6.0), 3) for prediction in one]
    [-1.242, -3.312]
    """
    log: Any = math.log if isinstance(a, float) else np.log
    b = predicted.b * (a / predicted.a)
    return a * log(b) - (a + 0.5) * log(b + predicted.error) - 0.5 * log(predicted.scale)


def predicted(posterior: Roots, arm: int, z: Array, reward: float) -> tuple[list[Write], Predicted]:
    """Return the rows of :func:`observe`, and what was said of the reward before."""
    mu, root, a, b = posterior
    mean, changed, half, scale = _kernels.predicted(mu, root, arm, z, reward)
    count, spread = float(a[arm]), float(b[arm])
    rows: list[Write] = [(mu, arm, mean), (root, arm, changed), (a, arm, count + 0.5), (b, arm, spread + half)]
    return rows, Predicted(count, spread, half, scale)
