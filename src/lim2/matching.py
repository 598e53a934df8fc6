"""Component 4, likelihood matching: carry a covariance across a change of features.

When the network changes, the features of a context change from ``old`` to ``new``, while what is believed about its
reward should not. A covariance A of the weights is moved so that the variance of the score, z'Az, is the same for the
new features as it was for the old ones: minimise sum_j (new_j' A new_j - s_j^2)^2 with s_j^2 = old_j' A0 old_j over
positive semi-definite A. Three methods:

``"batch"``
    One projected gradient step on the mean over the samples, clipped, plus a small multiple of I: the published runs.
``"sample"``
    One projected gradient step a sample, in turn: the paper's Algorithm PGD to the letter.
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
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import blas, lapack

from lim2._arrays import with_row, without_row
from lim2._state import Stateful

Array = NDArray[np.float64]

_dgemm = blas.dgemm
_logger = logging.getLogger("lim2")

Groups = list[tuple[int, slice]]

LARGEST_ENTRY = 1e30

METHODS = ("batch", "sample", "solve")


class Matched(NamedTuple):
    """A matched covariance, and how far the variances of old and new features differ before and after.

    ``before`` and ``after`` are root mean squares of new'A new - old'A0 old over the samples, with A the covariance
    before and after matching; ``projections`` counts eigenvalue thresholdings that changed something.
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
        (g, g), symmetric positive semi-definite, the covariance for the old features.
    old, new
        (n, g), features of the same contexts before and after the change.
    method
        ``"batch"``, ``"sample"`` or ``"solve"``, see the module; None changes nothing, and reports the residual.
    rate
        Step size of the two gradient methods.
    clip, jitter
        Of ``"batch"``: largest Frobenius norm of the gradient, and the multiple of I added after the projection.
    ridge
        Of ``"solve"``: how strongly the map is drawn to the identity, relative to the mean square of a feature.

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
    stack, projections = cov[None].copy(), 0
    if method is not None:
        matching = Matching(method, rate=rate, clip=clip, jitter=jitter, ridge=ridge)
        matching.bind(np.zeros(1))
        matching.step(stack, old, new, [(0, slice(0, len(old)))] if len(old) else [], rate)
        projections = matching.projections
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
            raise ValueError(f"{name} has values that are not finite")
    size = np.abs(cov).max(initial=0.0)
    if np.abs(cov - cov.T).max(initial=0.0) > 1e-8 * size:
        raise ValueError("cov is not symmetric")
    if len(cov) and np.linalg.eigvalsh(cov)[0] < -1e-8 * size:
        raise ValueError("cov is not positive semi-definite")


def project(cov: Array) -> tuple[Array, bool]:
    """Return the nearest positive semi-definite matrix, and whether anything had to change.

    Examples
    --------
    >>> project(np.diag([1.0, -1.0]))[0].tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if _is_positive(cov):
        return cov, False
    values, vectors = _eigenpairs(cov)
    if values[0] >= 0.0:
        return cov, False
    return (vectors * np.maximum(values, 0.0)) @ vectors.T, True


def _eigenpairs(cov: Array) -> tuple[Array, Array]:
    """Return eigenvalues, ascending, and eigenvectors; LAPACK's quickest method may not converge, its oldest does."""
    try:
        return np.linalg.eigh(cov)
    except np.linalg.LinAlgError:
        values, vectors = linalg.eigh(cov, driver="ev")
        return values, vectors


def transport_map(old: Array, new: Array, ridge: float = 0.01) -> Array:
    """Return M, the least-squares map with new M close to old, drawn to the identity where the data say nothing."""
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


class Matching(Stateful):
    """The matching step for all arms at once, with the lower bounds that make most projections unnecessary.

    Parameters
    ----------
    method
        ``"batch"``, ``"sample"`` or ``"solve"``.
    rate, clip, jitter, ridge
        As in :func:`match`. The rate of round t is ``rate / (t + 1)``; the caller decides on t.
    """

    _kept: ClassVar[tuple[str, ...]] = ("floor", "projections")

    def __init__(
        self,
        method: str = "batch",
        *,
        rate: float = 0.01,
        clip: float = 5.0,
        jitter: float = 1e-5,
        ridge: float = 0.01,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"matching must be one of {', '.join(map(repr, METHODS))} or None, got {method!r}")
        positive = {"clip": clip, "ridge": ridge}
        for name, value in {"rate": rate, "jitter": jitter, **positive}.items():
            if not isinstance(value, Real) or not 0.0 <= value < math.inf or (name in positive and value == 0.0):
                least = "positive" if name in positive else "0 or positive"
                raise ValueError(f"the {name} of matching must be {least} and finite, got {value!r}")
        self.method = method
        self.rate, self.clip, self.jitter, self.ridge = float(rate), float(clip), float(jitter), float(ridge)
        self.floor: Array = np.zeros(0)
        self.projections = 0

    def bind(self, floor: Array) -> None:
        """Start with a lower bound of each arm's smallest eigenvalue; 0 says nothing and is always true."""
        self.floor = np.array(floor, dtype=float)

    def add_arm(self, floor: float) -> None:
        """Take in one more arm with a lower bound of its smallest eigenvalue."""
        self.floor = with_row(self.floor, floor)

    def remove_arm(self, arm: int) -> None:
        """Drop an arm; those after it move up."""
        self.floor = without_row(self.floor, arm)

    def note(self) -> tuple[Array, int]:
        """Return what :meth:`undo` needs to put the bounds back as they are now."""
        return self.floor.copy(), self.projections

    def undo(self, noted: tuple[Array, int]) -> None:
        """Put back what :meth:`note` returned."""
        self.floor, self.projections = noted

    def step(self, covs: Array, old: Array, new: Array, groups: Groups, rate: float) -> None:
        """Match the (n_arms, g, g) covariances in place; ``groups`` lists (arm, rows of its samples), in row order.

        An arm without a sample is left as it is, except by ``"solve"``, whose map is learned from all samples.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            self._step(covs, old, new, groups, rate)

    def _step(self, covs: Array, old: Array, new: Array, groups: Groups, rate: float) -> None:
        if self.method == "solve":
            self._transport(covs, old, new)
            return
        # new'A new - old'A old = (new - old)'A (new + old): one product instead of two, and no cancellation
        difference, total = new - old, new + old
        half = np.empty_like(difference)
        for arm, rows in groups:
            np.dot(difference[rows], covs[arm], out=half[rows])
        gap = np.vecdot(half, total)
        if self.method == "batch":
            self._batch(covs, new, gap, groups, rate)
        else:
            for arm, rows in groups:
                self._samples(covs, arm, new[rows], gap[rows], rate)

    def conditioned(self, trace: Array | float, arms: slice | int = slice(None)) -> None:
        """Lower the bounds after covariances were conditioned on features Z; ``trace`` is at least that of Z'Z."""
        self.floor[arms] /= 1.0 + self.floor[arms] * trace

    def _batch(self, covs: Array, new: Array, gap: Array, groups: Groups, rate: float) -> None:
        n_arms, g, _ = covs.shape
        weighted = new * gap[:, None]
        # The norms of the terms add up to at least the norm of their sum, and mostly even that is small enough.
        reach = np.add.reduceat(np.abs(gap) * np.vecdot(new, new), [rows.start for _, rows in groups]).tolist()
        floor, jitter = self.floor.tolist(), np.zeros(n_arms)
        for (arm, rows), terms in zip(groups, reach, strict=True):
            cov = covs[arm]
            factor = 2.0 * rate / (rows.stop - rows.start)
            length = factor * terms
            if length <= rate * self.clip:
                _dgemm(-factor, weighted[rows].T, new[rows].T, 1.0, cov.T, trans_b=1, overwrite_c=1)
            else:
                step = factor * np.dot(weighted[rows].T, new[rows])
                length = float(np.linalg.norm(step))
                if length > rate * self.clip:
                    step *= rate * self.clip / length
                    length = rate * self.clip
                cov -= step
            floor[arm] -= length
            if floor[arm] < 0.0:
                floor[arm] = 0.0
                self._project(covs, arm)
            jitter[arm] = self.jitter
        covs.reshape(n_arms, g * g)[:, :: g + 1] += jitter[:, None]
        self.floor = floor + jitter

    def _samples(self, covs: Array, arm: int, new: Array, gap: Array, rate: float) -> None:
        cov = covs[arm]
        overlap = np.dot(new, new.T)
        squares = overlap.diagonal().copy()
        overlap *= overlap
        overlap *= 2.0 * rate
        steps = lapack.dtrtrs(overlap.T, 2.0 * rate * gap, lower=1, unitdiag=1)[0]
        positive = np.maximum(steps, 0.0)
        shrink = float(np.dot(positive, squares))
        floor = max(float(self.floor[arm]) - shrink, 0.0)
        if shrink > self.floor[arm] and not _is_positive(cov - (new * positive[:, None]).T @ new):
            matched = self._samples_in_turn(arm, cov, new, np.vecdot(new @ cov, new) - gap, rate)
        else:
            change = np.dot((new * steps[:, None]).T, new)
            matched = cov - 0.5 * (change + change.T)
        if _is_usable(matched):
            covs[arm] = matched
            self.floor[arm] = floor

    def _samples_in_turn(self, arm: int, cov: Array, new: Array, targets: Array, rate: float) -> Array:
        """Loop as Algorithm PGD does, for a batch in which a projection may interfere.

        A step up cannot leave the cone; a step down leaves it by at most one eigenvalue, so thresholding needs the
        smallest eigenpair alone.
        """
        for z, target in zip(new, targets, strict=True):
            step = 2.0 * rate * (float(z @ cov @ z) - target)
            cov = cov - step * np.outer(z, z)
            if not _is_usable(cov):
                break
            if step > 0.0 and not _is_positive(cov):
                value, vector = _smallest_eigenpair(cov)
                if value < 0.0:
                    cov = cov - value * np.outer(vector, vector)
                    self._count(arm)
        return cov

    def _transport(self, covs: Array, old: Array, new: Array) -> None:
        mapping = transport_map(old, new, self.ridge)
        moved = mapping @ covs @ mapping.T
        if _is_usable(moved):
            np.add(moved, moved.transpose(0, 2, 1), out=covs)
            covs *= 0.5
            self.floor[:] = 0.0

    def _project(self, covs: Array, arm: int) -> None:
        projected, changed = project(covs[arm])
        if changed:
            covs[arm] = projected
            self._count(arm)

    def _count(self, arm: int) -> None:
        self.projections += 1
        _logger.debug("the covariance of arm %d left the cone and was projected, projection %d", arm, self.projections)

    def __repr__(self) -> str:
        settings: dict[str, Any] = {"rate": self.rate}
        if self.method == "solve":
            settings = {"ridge": self.ridge}
        elif self.method == "batch":
            settings.update(clip=self.clip, jitter=self.jitter)
        return f"Matching({self.method!r}, {', '.join(f'{k}={v:g}' for k, v in settings.items())})"


def _is_usable(covs: Array) -> bool:
    """Whether a matched covariance can be worked with.

    Steps by sample, and transport, have nothing that keeps them from growing without bound when features are huge or
    vanish; such a step is left out.
    """
    return bool(np.abs(covs).max() < LARGEST_ENTRY)


def _is_positive(matrix: Array) -> bool:
    """Whether a Cholesky factorisation exists: certain inside the cone, false on its edge."""
    return bool(lapack.dpotrf(matrix.T, lower=1, clean=0)[1] == 0)


def _smallest_eigenpair(matrix: Array) -> tuple[float, Array]:
    values, vectors, *_ = lapack.dsyevr(matrix, range="I", il=1, iu=1)
    return float(values[0]), vectors[:, 0]
