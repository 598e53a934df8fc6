"""Component 4, likelihood matching: carry a covariance over to new features.

When the network changes, the features of a context change from ``old`` to ``new``, but the posterior of its reward
should stay the same. Matching changes the covariance A of the weights so that the variance of the score, z'Az, is the
same for the new features as for the old ones: minimise sum_j (new_j' A new_j - s_j^2)^2 with s_j^2 = old_j' A0 old_j
over positive semi-definite A. Three methods:

``"batch"``
    One projected gradient step on the mean over the samples, clipped, plus a small multiple of I: the published runs.
``"sample"``
    One projected gradient step per sample, in turn: the paper's Algorithm PGD to the letter.
``"solve"``
    Transport by the least-squares map M from new to old features, A -> M A M': beyond the paper, PSD by construction.

**Projection.** Thresholding the eigenvalues of a matrix that is inside the cone already changes nothing, so it is only
done when needed. ``floor`` is a lower bound of each covariance's smallest eigenvalue: a step of Frobenius norm s lowers
it by s at most. While the bound stays positive nothing can have left the cone; otherwise a Cholesky factorisation
decides, and only if that fails is there an eigendecomposition.

**Samples in turn, without a loop.** As long as no projection interferes, the steps A <- A - c_j z_j z_j' with
c_j = 2 rate (z_j'A z_j - s_j^2) are linear in each other: z_j'A z_j has lost sum_{k<j} c_k (z_j'z_k)^2. So c solves the
unit lower triangular system (I + 2 rate tril(K, -1)) c = 2 rate gap with K_jk = (z_j'z_k)^2, and A0 - Z'diag(c)Z is the
end of the loop. That no projection interfered is certain if A0 minus the positive c_j alone is still in the cone.
"""

import logging
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack

from lim2.state import Array

_dgemm = blas.dgemm
_logger = logging.getLogger("lim2")

Groups = list[tuple[int, slice]]

LARGEST_ENTRY = 1e30

METHODS = ("batch", "sample", "solve")


class Matched(NamedTuple):
    """A matched covariance, and the difference between the variances of old and new features before and after matching.

    ``before`` and ``after`` are root mean squares of new'A new - old'A0 old over the samples, with A the covariance
    before and after matching. ``projections`` is the number of projections that changed the covariance.
    """

    cov: Array
    before: float
    after: float
    projections: int


def match(
    cov: Array,
    old: Array,
    new: Array,
    *,
    method: str | None = "batch",
    rate: float = 0.01,
    clip: float = 5.0,
    jitter: float = 1e-5,
    ridge: float = 0.01,
) -> Matched:
    """Match one covariance to a change of features.

    Parameters
    ----------
    cov
        Covariance for the old features, (g, g), symmetric positive semi-definite.
    old, new
        Features of the same contexts before and after the change, (n, g).
    method
        ``"batch"``: one projected gradient step on the mean over the samples, as in the published runs. ``"sample"``:
        one step per sample, the paper's Algorithm PGD. ``"solve"``: transport by a least-squares map. None: no
        matching, only the residual is reported.
    clip
        For ``"batch"``: largest Frobenius norm of the gradient.
    jitter
        For ``"batch"``: multiple of I that is added after the projection.
    ridge
        For ``"solve"``: strength of the penalty that draws the map to the identity, relative to the mean square of a
        feature.

    Examples
    --------
    A representation that doubles: the variance of a score should stay, so the covariance must shrink by 4.

    >>> z = np.random.default_rng(0).normal(size=(200, 3))
    >>> matched = match(np.eye(3), z, 2 * z, method="solve", ridge=1e-9)
    >>> matched.cov.round(3).tolist()
    [[0.25, 0.0, 0.0], [0.0, 0.25, 0.0], [0.0, 0.0, 0.25]]
    >>> bool(matched.after < 1e-6 < matched.before)
    True
    """
    cov, old, new = (np.array(array, dtype=float) for array in (cov, old, new))
    _check_match(cov, old, new)
    stack, projections = cov[None], 0
    if method is not None:
        matching = Matching(method, rate=rate, clip=clip, jitter=jitter, ridge=ridge)
        groups = [(0, slice(0, len(old)))] if len(old) else []
        stack, _, projections = matching.step(Prior(stack, np.zeros(1), 0), old, new, groups, 0)
    target = np.vecdot(old @ cov, old)

    def residual(covariance: Array) -> float:
        return float(np.sqrt(np.mean((np.vecdot(new @ covariance, new) - target) ** 2))) if len(old) else 0.0

    return Matched(stack[0], residual(cov), residual(stack[0]), projections)


def _check_match(cov: Array, old: Array, new: Array) -> None:
    if cov.ndim != 2 or cov.shape[0] != cov.shape[1]:
        raise ValueError(f"cov must be a square matrix, got shape {cov.shape}")
    if old.ndim != 2 or old.shape != new.shape or old.shape[1] != len(cov):
        raise ValueError(
            f"old and new must both be (n, {len(cov)}), features of the same contexts; got {old.shape} and {new.shape}"
        )
    for name, array in (("cov", cov), ("old", old), ("new", new)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, and has NaN or infinite values")
    size = np.abs(cov).max(initial=0.0)
    if np.abs(cov - cov.T).max(initial=0.0) > 1e-8 * size:
        raise ValueError("cov must be symmetric, and is not")
    if len(cov) and np.linalg.eigvalsh(cov)[0] < -1e-8 * size:
        raise ValueError("cov must be positive semi-definite, and is not")


class Prior(NamedTuple):
    """Prior covariances (n_arms, g, g), lower bounds of their smallest eigenvalues, and the number of projections."""

    cov: Array
    floor: Array
    projections: int


def project(cov: Array) -> tuple[Array, bool]:
    """Return the nearest positive semi-definite matrix, and whether it differs.

    Only the negative eigenpairs are computed, usually one.

    Examples
    --------
    >>> project(np.diag([1.0, -1.0]))[0].tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if _is_positive(cov):
        return cov, False
    values, vectors = _negative_eigenpairs(cov)
    if not len(values):
        return cov, False
    return cov - (vectors * values) @ vectors.T, True


def _negative_eigenpairs(cov: Array) -> tuple[Array, Array]:
    """Return the eigenvalues below 0 and their eigenvectors."""
    bound = -float(np.abs(cov).sum(axis=0).max()) - 1.0  # no eigenvalue lies below it (Gershgorin)
    values, vectors, count, _, failed = lapack.dsyevr(cov, range="V", vl=bound, vu=0.0)
    if failed:  # the oldest method of LAPACK always converges
        values, vectors = linalg.eigh(cov, driver="ev")
        count = int((values < 0.0).sum())
    return values[:count], vectors[:, :count]


def transport_map(old: Array, new: Array, ridge: float = 0.01) -> Array:
    """Return M, the least-squares map with new M close to old, drawn to the identity in directions without data."""
    gram = new.T @ new
    width = len(gram)
    rho = ridge * float(np.trace(gram)) / width
    if rho == 0.0:  # dead features: nothing to learn the map from
        return np.eye(width)
    mixed = new.T @ old
    gram.ravel()[:: width + 1] += rho
    mixed.ravel()[:: width + 1] += rho
    factor, failed = lapack.dpotrf(gram.T, lower=1)
    if failed:  # a ridge below rounding
        return np.asarray(np.linalg.lstsq(gram, mixed, rcond=None)[0])
    return np.ascontiguousarray(lapack.dpotrs(factor, mixed, lower=1)[0])


class Matcher(Protocol):
    """Carries the prior covariances of all arms over from old to new features; see :class:`Matching`."""

    def step(self, prior: Prior, old: Array, new: Array, groups: Groups, t: int) -> Prior:
        """Return the priors under the new features, after t rounds.

        Parameters
        ----------
        prior
            The priors under the old features. ``floor`` may be 0 where no bound is known.
        old, new
            Features of a batch before and after training, (n, g), sorted by arm.
        groups
            The arms of the batch, each with its rows: pairs ``(arm, slice)``.
        t
            Number of rounds so far.
        """
        ...


class NoMatching:
    """Leaves the priors as they are."""

    def step(self, prior: Prior, old: Array, new: Array, groups: Groups, t: int) -> Prior:  # noqa: ARG002
        """Return the priors unchanged."""
        return prior


@dataclass(frozen=True)
class Matching:
    """Matching step for all arms at once.

    Parameters
    ----------
    method
        ``"batch"``: one projected gradient step on the mean over the samples, as in the published runs. ``"sample"``:
        one step per sample, the paper's Algorithm PGD. ``"solve"``: transport by a least-squares map.
    rate
        Step size of the two gradient methods in the first round; in round t it is ``rate / (t + 1)``.
    """

    method: str = "batch"
    rate: float = 0.01
    clip: float = 5.0
    jitter: float = 1e-5
    ridge: float = 0.01

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"matching must be one of {', '.join(map(repr, METHODS))} or None, got {self.method!r}")
        for name in ("rate", "clip", "jitter", "ridge"):
            value: Any = getattr(self, name)
            positive = name in ("clip", "ridge")
            if not isinstance(value, Real) or not 0.0 <= float(value) < math.inf or (positive and value == 0.0):
                condition = "positive" if positive else "0 or positive"
                raise ValueError(f"the {name} of matching must be {condition} and finite, got {value!r}")

    def step(self, prior: Prior, old: Array, new: Array, groups: Groups, t: int) -> Prior:
        """Match every arm's covariance.

        An arm without a sample does not change, except with ``"solve"``, whose map is learned from all samples.
        """
        rate = self.rate / (t + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.method == "solve":
                return self._transport(prior, old, new)
            # new'A new - old'A old = (new - old)'A (new + old): one product instead of two, and no cancellation
            difference = new - old
            half = np.empty(difference.shape)  # in float64, whatever the features are
            for arm, rows in groups:
                np.dot(difference[rows], prior.cov[arm], out=half[rows])
            gap = np.vecdot(half, new + old)
            return (self._batch if self.method == "batch" else self._samples)(prior, new, gap, groups, rate)

    def _batch(self, prior: Prior, new: Array, gap: Array, groups: Groups, rate: float) -> Prior:
        covs, floor, projections = prior.cov.copy(), prior.floor.tolist(), prior.projections
        longest, jitter = rate * self.clip, [0.0] * len(covs)
        weighted = new * gap[:, None]
        sizes = np.abs(np.vecdot(weighted, new)).tolist()
        for arm, rows in groups:
            cov, weighted_rows, new_rows = covs[arm], weighted[rows].T, new[rows]
            factor = 2.0 * rate / len(new_rows)
            # The norms of the terms add up to at least the norm of their sum, and mostly even that is small enough.
            length = factor * sum(sizes[rows])
            if length <= longest:
                _dgemm(-factor, weighted_rows, new_rows.T, 1.0, cov.T, trans_b=1, overwrite_c=1)
            else:
                step = factor * np.dot(weighted_rows, new_rows)
                length = float(np.linalg.norm(step))
                if length > longest:
                    step *= longest / length
                    length = longest
                cov -= step
            lowest = floor[arm] - length
            if lowest < 0.0:  # it may have left the cone
                lowest = 0.0
                covs[arm], changed = project(cov)
                if changed:
                    projections += 1
                    _logger.debug("the covariance of arm %d left the cone and was projected", arm)
            floor[arm], jitter[arm] = lowest + self.jitter, self.jitter
        diagonals = covs.reshape(len(covs), -1)[:, :: covs.shape[1] + 1]
        diagonals += np.array(jitter)[:, None]
        return Prior(covs, np.array(floor), projections)

    def _samples(self, prior: Prior, new: Array, gap: Array, groups: Groups, rate: float) -> Prior:
        covs, floor, projections = prior.cov.copy(), prior.floor.copy(), prior.projections
        for arm, rows in groups:
            matched, lowest, projected = _by_samples(covs[arm], float(floor[arm]), new[rows], gap[rows], rate)
            projections += projected
            if _is_usable(matched):
                covs[arm], floor[arm] = matched, lowest
        return Prior(covs, floor, projections)

    def _transport(self, prior: Prior, old: Array, new: Array) -> Prior:
        mapping = transport_map(old, new, self.ridge)
        moved = mapping @ prior.cov @ mapping.T
        if not _is_usable(moved):
            return prior
        return Prior(0.5 * (moved + moved.transpose(0, 2, 1)), np.zeros_like(prior.floor), prior.projections)


def _by_samples(cov: Array, floor: float, new: Array, gap: Array, rate: float) -> tuple[Array, float, int]:
    """Take one step per sample; return the covariance, a lower bound of its eigenvalues and a count of projections."""
    overlap = np.dot(new, new.T)
    squares = overlap.diagonal().copy()
    overlap *= overlap
    overlap *= 2.0 * rate
    steps = lapack.dtrtrs(overlap.T, 2.0 * rate * gap, lower=1, unitdiag=1)[0]
    positive = np.maximum(steps, 0.0)
    shrink = float(np.dot(positive, squares))
    lowest, projected = max(floor - shrink, 0.0), 0
    if shrink > floor and not _is_positive(cov - (new * positive[:, None]).T @ new):
        matched, projected = _in_turn(cov, new, np.vecdot(new @ cov, new) - gap, rate)
    else:
        change = np.dot((new * steps[:, None]).T, new)
        matched = cov - 0.5 * (change + change.T)
    return matched, lowest, projected


def _in_turn(cov: Array, new: Array, targets: Array, rate: float) -> tuple[Array, int]:
    """Loop as Algorithm PGD does, for a batch in which a projection may interfere.

    A step up cannot leave the cone; a step down leaves it by at most one eigenvalue, so thresholding needs the
    smallest eigenpair alone.
    """
    projected = 0
    for z, target in zip(new, targets, strict=True):
        step = 2.0 * rate * (float(z @ cov @ z) - target)
        cov = cov - step * np.outer(z, z)
        if not _is_usable(cov):
            break
        if step > 0.0 and not _is_positive(cov):
            value, vector = _smallest_eigenpair(cov)
            if value < 0.0:
                cov = cov - value * np.outer(vector, vector)
                projected += 1
    return cov, projected


def _is_usable(covs: Array) -> bool:
    """Return whether a matched covariance is finite and moderate: steps can explode if features are huge or vanish."""
    return bool(np.abs(covs).max() < LARGEST_ENTRY)


def _is_positive(matrix: Array) -> bool:
    """Return whether a Cholesky factorisation exists: true inside the cone, false on its boundary."""
    return bool(lapack.dpotrf(matrix.T, lower=1, clean=0)[1] == 0)


def _smallest_eigenpair(matrix: Array) -> tuple[float, Array]:
    values, vectors, *_ = lapack.dsyevr(matrix, range="I", il=1, iu=1)
    return float(values[0]), vectors[:, 0]


def named(matching: str | Matcher | None) -> Matcher:
    """Return the matching named by a setting; an object is returned unchanged."""
    if matching is None:
        return NoMatching()
    if isinstance(matching, str):
        return Matching(matching)
    if isinstance(matching, type) or not callable(getattr(matching, "step", None)):
        raise ValueError(
            f"matching must be one of {', '.join(map(repr, METHODS))}, None, or an object with a method `step`, such "
            f"as lim2.matching.Matching(rate=0.1); got {matching!r}"
        )
    return matching


def residual(matcher: Matcher, prior: Prior, old: Array, new: Array, groups: Groups, t: int) -> float:
    """Return the relative difference between the variances of new and old features after a step."""
    matched = matcher.step(prior, old, new, groups, t)
    before, after = np.empty((2, len(old)))
    for arm, rows in groups:
        before[rows] = np.vecdot(old[rows] @ prior.cov[arm], old[rows])
        after[rows] = np.vecdot(new[rows] @ matched.cov[arm], new[rows])
    size = float(np.linalg.norm(before))
    return float(np.linalg.norm(after - before)) / size if size else math.nan
