"""What is believed about each arm: Bayesian linear regression with unknown noise.

The belief about arm i is normal-inverse-gamma: noise variance ~ InvGamma(a_i, b_i), and weights given the noise
~ N(mu_i, noise * cov_i), with cov_i the paper's (Phi0_i + Phi_i)^-1. No inverse is ever formed to be used: a
covariance is conditioned on features through Cholesky factors, on the smaller side of the problem.
"""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from lim2._arrays import with_row, without_row
from lim2._state import Stateful

Array = NDArray[np.float64]

# A covariance of 1 / precision must stay finite when it is multiplied with features.
SMALLEST_PRECISION = 1e-100

Noted = tuple[int | None, Array, Array, Array]

_dpotrf, _dtrmm, _dtrsm, _dger, _dgemm = lapack.dpotrf, blas.dtrmm, blas.dtrsm, blas.dger, blas.dgemm


def condition(cov: Array, features: Array, out: Array | None = None) -> Array:
    """Return the covariance after seeing rows of features: (cov^-1 + Z'Z)^-1.

    Works on the smaller side: n rows by Woodbury in an n x n system, or the g x g form through the Cholesky factor of
    ``cov``. ``out`` may be ``cov`` itself.

    Parameters
    ----------
    cov
        (g, g) symmetric positive semi-definite.
    features
        (n, g), the rows Z.
    out
        Where to write; a new array when absent.

    Examples
    --------
    >>> condition(np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])).round(4).tolist()
    [[0.3333, 0.0], [0.0, 0.2]]
    """
    n, g = features.shape
    out = np.empty_like(cov) if out is None else out
    if n == 0:
        out[:] = cov
    elif not (_condition_on_few if n < g else _condition_on_many)(cov, features, out):
        out[:] = _condition_safely(cov, features)
    return out


# BLAS and LAPACK read arrays by columns. A row-major array is handed over as its transpose, which is no copy.


def _condition_on_few(cov: Array, features: Array, out: Array) -> bool:
    """Woodbury: cov - W'W with W = C^-1 Z cov and C C' = I + Z cov Z'. Tell whether the factor exists."""
    projected = np.dot(features, cov)  # Z cov
    inner = np.dot(projected, features.T)
    inner.ravel()[:: len(inner) + 1] += 1.0
    factor, failed = _dpotrf(inner.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return False
    whitened = _dtrsm(1.0, factor, projected.T, side=1, lower=1, trans_a=1, overwrite_b=1)  # W'
    if out is not cov:
        out[:] = cov
    _dgemm(-1.0, whitened, whitened, 1.0, out.T, trans_b=1, overwrite_c=1)
    return True


def _condition_on_many(cov: Array, features: Array, out: Array) -> bool:
    """W'W with W = K^-1 L', cov = L L' and K K' = I + L' Z'Z L. Tell whether both factors exist."""
    root, failed = _dpotrf(cov.T, lower=1, clean=1)
    if failed:
        return False
    gram = np.dot(features.T, features)
    inner = _dtrmm(1.0, root, gram.T, side=0, lower=1, trans_a=1, overwrite_b=1)
    inner = _dtrmm(1.0, root, inner, side=1, lower=1, overwrite_b=1)
    inner.ravel(order="F")[:: len(inner) + 1] += 1.0
    factor, failed = _dpotrf(inner, lower=1, clean=0, overwrite_a=1)
    if failed:
        return False
    whitened = _dtrsm(1.0, factor, root, side=1, lower=1, trans_a=1, overwrite_b=1)  # W'
    np.dot(whitened, whitened.T, out=out)
    return True


def _condition_safely(cov: Array, features: Array) -> Array:
    """Condition by singular values, for a covariance on the edge of the cone or features that swamp it.

    With cov = L L' and Z L = U S V', the result is B B' for B = L (I + V (1 / sqrt(1 + S^2) - 1) V'): positive
    semi-definite whatever is rounded.
    """
    values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    _, singular, right = np.linalg.svd(features @ root, full_matrices=False)
    shrink = 1.0 / np.hypot(1.0, singular) - 1.0
    shrunk = root + (root @ right.T * shrink) @ right
    return cast(Array, shrunk @ shrunk.T)


def relax(cov: Array, keep: float, precision: float, out: Array) -> Array:
    """Return the covariance whose precision has moved towards the prior's: (keep cov^-1 + (1 - keep) precision I)^-1.

    That is the covariance over ``keep``, conditioned on a little of the prior: positive semi-definite by construction.

    Examples
    --------
    >>> cov = np.diag([0.01, 1.0])
    >>> relax(cov, keep=0.5, precision=1.0, out=cov).round(4).tolist()  # 1 / (0.5 * 100 + 0.5), and the prior stays
    [[0.0198, 0.0], [0.0, 1.0]]
    """
    return condition(cov / keep, math.sqrt((1.0 - keep) * precision) * np.eye(len(cov)), out=out)


def rank_one(cov: Array, z: Array) -> tuple[Array, float]:
    """Condition ``cov`` on one row of features, in place; return cov z as it was before, and 1 + z' cov z.

    Examples
    --------
    >>> cov = np.eye(2)
    >>> _, scale = rank_one(cov, np.array([1.0, 0.0]))
    >>> scale, cov.tolist()
    (2.0, [[0.5, 0.0], [0.0, 1.0]])
    """
    direction = np.dot(cov, z)
    spread = float(np.dot(direction, z))
    if spread <= 0.0:  # what is left of the variance is below rounding: nothing more can be learned in this direction
        return np.zeros_like(z), 1.0
    _dger(-1.0 / (1.0 + spread), direction, direction, a=cov.T, overwrite_a=1)
    return direction, 1.0 + spread


class Beliefs(Stateful):
    """What every kind of belief shares: means, and the noise with its inverse-gamma parameters.

    Attributes
    ----------
    mu
        (n_arms, width), the means.
    a, b
        (n_arms,), the inverse-gamma parameters.
    """

    _kept: ClassVar[tuple[str, ...]] = ("mu", "a", "b")

    def __init__(self, n_arms: int, width: int, precision: float, a0: float, b0: float) -> None:
        for name, value in (("prior_precision", precision), ("a0", a0), ("b0", b0)):
            if not isinstance(value, Real) or not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
        if precision < SMALLEST_PRECISION:
            raise ValueError(f"prior_precision must be at least {SMALLEST_PRECISION:g}, got {precision!r}")
        self.precision, self.a0, self.b0 = float(precision), float(a0), float(b0)
        self.mu: Array = np.zeros((n_arms, width))
        self.a: Array = np.full(n_arms, self.a0)
        self.b: Array = np.full(n_arms, self.b0)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        super().restore(state)
        if not ((self.a > 0.0) & (self.b > 0.0)).all():
            raise ValueError("a and b must be positive")

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(value.nbytes for value in self.__dict__.values() if isinstance(value, np.ndarray))

    def moments(self, features: Array) -> tuple[Array, Array]:
        """Return the mean and the variance, in units of the noise, of every arm's score z'w.

        ``features`` is (width,), giving two (n_arms,) arrays, or (n, width), giving two (n, n_arms) arrays.
        """
        raise NotImplementedError

    def scales(self, spread: Array) -> Array:
        """Return the scale of the Student-t score, from its variance in units of the noise."""
        return np.sqrt(spread * (self.b / self.a))

    def with_noise(self, spread: Array) -> Array:
        """Return the variance of the score, noise integrated out, from its variance in units of the noise."""
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(self.a > 1.0, self.b / (self.a - 1.0), np.inf)
        return np.where(spread > 0.0, spread * noise, 0.0)

    def set_noise(self, arm: int, observations: float, squares: float) -> None:
        """Set an arm's inverse-gamma parameters from a count of rewards and their sum of squares."""
        self.a[arm] = self.a0 + 0.5 * observations
        self.b[arm] = self.b0 + 0.5 * squares

    def add_arm(self, like: int | None = None) -> None:
        """Start to believe something about one more arm: the prior, or what is believed about another."""
        self.mu = with_row(self.mu, 0.0 if like is None else self.mu[like])
        self.a = with_row(self.a, self.a0 if like is None else self.a[like])
        self.b = with_row(self.b, self.b0 if like is None else self.b[like])

    def remove_arm(self, arm: int) -> None:
        """Forget an arm; those after it move up."""
        self.mu, self.a, self.b = (without_row(rows, arm) for rows in (self.mu, self.a, self.b))

    def fade_noise(self, keep: float) -> None:
        """Let what is known of the noise count less: a and b move towards where they started."""
        for value, start in ((self.a, self.a0), (self.b, self.b0)):
            value -= start
            value *= keep
            value += start

    def __repr__(self) -> str:
        n_arms, width = self.mu.shape
        noise = math.sqrt(float(np.mean(self.b / self.a)))
        return f"{type(self).__name__}(n_arms={n_arms}, width={width}, noise={noise:.3g})"


class Posterior(Beliefs):
    """Normal-inverse-gamma beliefs about the linear weights of every arm, in stacked arrays.

    Parameters
    ----------
    n_arms
        Number of arms.
    width
        Number of features g.
    precision
        Prior precision: cov starts at I / precision, mu at 0.
    a0, b0
        Inverse-gamma prior of the noise variance.

    Attributes
    ----------
    cov
        (n_arms, width, width), the covariances in units of the noise variance.
    """

    _kept: ClassVar[tuple[str, ...]] = (*Beliefs._kept, "cov")

    def __init__(self, n_arms: int, width: int, precision: float = 1.0, a0: float = 6.0, b0: float = 6.0) -> None:
        super().__init__(n_arms, width, precision, a0, b0)
        self.cov: Array = np.tile(np.eye(width) / precision, (n_arms, 1, 1))
        self._spare: list[Array] = []  # where `note` puts the covariances, which is no state

    def note(self, arm: int | None = None) -> Noted:
        """Return what :meth:`undo` needs to put the beliefs back as they are now; of ``cov`` all arms, or one.

        Only what was noted last can be put back.
        """
        # Kept between rounds: as much memory, if asked for anew each time, costs several times the copy.
        if not self._spare or self._spare[0].shape != self.cov.shape:
            self._spare = [np.empty_like(self.cov)]
        if arm is None:
            np.copyto(self._spare[0], self.cov)
        else:
            self._spare[0][arm] = self.cov[arm]
        return arm, self.mu.copy(), self.a.copy(), self.b.copy()

    def undo(self, noted: Noted) -> None:
        """Put back what :meth:`note` returned."""
        arm, self.mu[...], self.a[...], self.b[...] = noted
        arms = slice(None) if arm is None else arm
        self.cov[arms] = self._spare[0][arms]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spare": []}

    def add_arm(self, like: int | None = None) -> None:
        """Start to believe something about one more arm: the prior, or what is believed about another."""
        super().add_arm(like)
        self.cov = with_row(self.cov, np.eye(self.mu.shape[1]) / self.precision if like is None else self.cov[like])

    def remove_arm(self, arm: int) -> None:
        """Forget an arm; those after it move up."""
        super().remove_arm(arm)
        self.cov = without_row(self.cov, arm)

    def moments(self, features: Array) -> tuple[Array, Array]:
        """Return the mean and the variance, in units of the noise, of every arm's score."""
        if features.ndim == 1:
            directions = np.dot(self.cov.reshape(-1, len(features)), features).reshape(self.mu.shape)
            return np.dot(self.mu, features), np.maximum(np.dot(directions, features), 0.0)
        spread = np.empty((len(features), len(self.mu)))
        for arm, cov in enumerate(self.cov):
            np.vecdot(features @ cov, features, out=spread[:, arm])
        return features @ self.mu.T, np.maximum(spread, 0.0, out=spread)

    def observe(self, arm: int, z: Array, reward: float) -> None:
        """Condition one arm on one more (features, reward): the exact conjugate update, in O(width^2)."""
        surprise = reward - float(np.dot(self.mu[arm], z))
        direction, scale = rank_one(self.cov[arm], z)
        self.mu[arm] += (surprise / scale) * direction
        self.a[arm] += 0.5
        self.b[arm] += 0.5 * surprise * surprise / scale

    def refit_mean(self, arm: int, prior_mean: Array, features: Array, rewards: Array) -> float:
        """Set an arm's mean from a prior mean and all its data, given that its ``cov`` is up to date.

        Returns r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu, computed as the sum of two squares
        |r - Z mu|^2 + |mu - mu0|^2_Phi0, so that it cannot go negative: twice what the data add to b.
        """
        residual = rewards - np.dot(features, prior_mean)
        step = np.dot(self.cov[arm], np.dot(residual, features))
        np.add(prior_mean, step, out=self.mu[arm])
        residual -= np.dot(features, step)
        # Phi0 (mu - mu0) = Z'(r - Z mu): the prior precision is not needed
        moved = float(np.dot(step, np.dot(residual, features)))
        return float(np.dot(residual, residual)) + max(moved, 0.0)


class RecursivePosterior(Beliefs):
    """The same beliefs, for features that never change: every covariance is carried as a root.

    Only ever conditioned on one more row, for ever. With cov = S S', the root of the next covariance is
    S - S f f' / (s + sqrt(s)), where f = S'z and s = 1 + f'f (Potter's form): variances are sums of squares, which
    rounding cannot make negative, however large the features or long the run.

    Examples
    --------
    >>> posterior = RecursivePosterior(n_arms=1, width=2)
    >>> posterior.observe(0, np.array([1.0, 0.0]), 1.0)
    >>> posterior.cov[0].round(3).tolist(), posterior.mu[0].tolist()
    ([[0.5, 0.0], [0.0, 1.0]], [0.5, 0.0])
    """

    _kept: ClassVar[tuple[str, ...]] = (*Beliefs._kept, "_roots")

    def __init__(self, n_arms: int, width: int, precision: float = 1.0, a0: float = 6.0, b0: float = 6.0) -> None:
        super().__init__(n_arms, width, precision, a0, b0)
        self._roots: Array = np.tile(np.eye(width) / math.sqrt(precision), (n_arms, 1, 1))  # S', an arm a matrix

    def _first_root(self) -> Array:
        """Return the root that an arm starts with."""
        return np.eye(self.mu.shape[1]) / math.sqrt(self.precision)

    @property
    def cov(self) -> Array:
        """The covariances in units of the noise variance, computed from their roots."""
        return self._roots.transpose(0, 2, 1) @ self._roots

    def add_arm(self, like: int | None = None) -> None:
        """Start to believe something about one more arm: the prior, or what is believed about another."""
        super().add_arm(like)
        self._roots = with_row(self._roots, self._first_root() if like is None else self._roots[like])

    def remove_arm(self, arm: int) -> None:
        """Forget an arm; those after it move up."""
        super().remove_arm(arm)
        self._roots = without_row(self._roots, arm)

    def moments(self, features: Array) -> tuple[Array, Array]:
        """Return the mean and the variance, in units of the noise, of every arm's score."""
        if features.ndim == 1:
            whitened = np.dot(self._roots.reshape(-1, len(features)), features).reshape(self.mu.shape)
            return np.dot(self.mu, features), np.vecdot(whitened, whitened)
        spread = np.empty((len(features), len(self.mu)))
        for arm, root in enumerate(self._roots):
            whitened = features @ root.T
            np.vecdot(whitened, whitened, out=spread[:, arm])
        return features @ self.mu.T, spread

    def observe(self, arm: int, z: Array, reward: float) -> None:
        """Condition one arm on one more (features, reward): the exact conjugate update, in O(width^2)."""
        root = self._roots[arm]
        whitened = np.dot(root, z)  # f
        scale = 1.0 + float(np.dot(whitened, whitened))
        direction = np.dot(whitened, root)  # S f = cov z
        surprise = reward - float(np.dot(self.mu[arm], z))
        self.mu[arm] += (surprise / scale) * direction
        self.a[arm] += 0.5
        self.b[arm] += 0.5 * surprise * surprise / scale
        # root.T is S by columns: its transpose's update f (S f)', without a copy
        _dger(-1.0 / (scale + math.sqrt(scale)), direction, whitened, a=root.T, overwrite_a=1)
