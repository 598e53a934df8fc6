"""Common part of the neural-linear algorithms: settings of network and prior, and their use."""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import memory
from lim2.algorithms.base import Algorithm, rms
from lim2.checks import one_of, positive_int, share
from lim2.exploration import Exploration, StudentT, named
from lim2.exploration import posterior as beliefs
from lim2.exploration.posterior import Posterior
from lim2.matching import Matching, Prior
from lim2.memory import Batch, Memory
from lim2.representation import MLP, ContextReader, Intercept, Representation, RMSProp, Standardized, Step
from lim2.representation.recomputed import Cache, Recompute
from lim2.state import Array, Ints, with_arm, without_arm

BUFFER_PER_ARM, BATCH_PER_ARM = 100, 16
LARGEST_BATCH, MOST_STEPS = 2**17, 10**4


@dataclass(frozen=True, kw_only=True, eq=False)
class WithNetwork(Algorithm):
    """Settings of an algorithm with a network."""

    hidden: int | Sequence[int] = (50,)
    learning_rate: float = 0.1
    representation: Representation | None = None

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        if isinstance(self.representation, type) or not (
            self.representation is None or hasattr(self.representation, "train")
        ):
            raise ValueError(
                f"representation must be an object such as MLP(hidden=(100, 50)), got {self.representation!r}"
            )
        super().validate()
        _ = self.policy, self.network

    @functools.cached_property
    def network(self) -> Representation:
        """The representation in the settings."""
        given = self.representation
        return MLP(self.hidden, RMSProp(self.learning_rate)) if given is None else given

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of a context, from the settings or from the representation."""
        if self.crossing is not None:
            return super().shape
        known = self.network.context_shape if isinstance(self.network, ContextReader) else None
        given = self.n_features
        if given is None:
            if known is None:
                raise ValueError(
                    "n_features is missing: give the size of a context, or its shape, e.g. n_features=(3, 32, 32). "
                    "It may be left out only if the representation knows it, as TextCNN does"
                )
            return known
        if isinstance(given, list | tuple):
            if not given:
                raise ValueError("n_features must be the size of a context or its shape, got an empty shape")
            shape = tuple(positive_int("n_features", size) for size in given)
        else:
            shape = (positive_int("n_features", given),)  # type: ignore[arg-type]  # refuses what is no number
        if known is not None and shape != known:
            raise ValueError(f"n_features is {given!r}, but the representation takes contexts of shape {known}")
        return shape

    @functools.cached_property
    def takes_floats(self) -> bool:
        """Whether contexts are arrays of float64."""
        return not isinstance(self.network, ContextReader)

    def read(self, state: Any, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return contexts as the representation takes them."""
        if self.takes_floats:
            return super().read(state, values, what)
        read: NDArray[Any] = self.network.read(state.network, values, what)  # type: ignore[attr-defined]
        return read

    def check_memory(self, state: Any) -> None:
        """Raise a ValueError if the memory of a loaded state is impossible."""
        E = state.memory
        memory.check(E, counted=not self.dated)
        if E.held and self.read(state, E.contexts, "the memory").dtype != E.contexts.dtype:
            raise ValueError(f"the memory holds contexts of {E.contexts.dtype}, which the network does not take")


def check_network(net: Representation, f: Any, n_arms: int) -> None:
    """Raise a ValueError if a loaded network is impossible."""
    if getattr(f, "n_arms", n_arms) != n_arms:
        raise ValueError(f"the network should have {n_arms} arms, and has {f.n_arms}")
    if hasattr(net, "check"):
        net.check(f)


@dataclass(frozen=True, kw_only=True, eq=False)
class Neural(WithNetwork):
    """Settings of an algorithm with a network, a training memory, and a linear posterior over its features."""

    batch: int | None = None
    steps: int = 1
    prior_precision: float = 1.0
    a0: float = 6.0
    b0: float = 6.0
    intercept: bool = False
    exploration: str | Exploration = "thompson"
    standardize: bool = False
    forget: float = 0.0

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        beliefs.check_prior(self.prior_precision, self.a0, self.b0)
        self.batch_size(len(self.names))
        positive_int("steps", self.steps, most=MOST_STEPS)
        share("forget", self.forget)
        _ = self.net

    @functools.cached_property
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""
        return named(self.exploration)

    @functools.cached_property
    def net(self) -> Representation:
        """The representation with the scaling and intercept of the settings."""
        net: Representation = Standardized(self.network, 1.0 - self.forget) if self.standardize else self.network
        return Intercept(net) if self.intercept else net

    @functools.cached_property
    def takes_floats(self) -> bool:
        """Whether contexts are arrays of float64; with raw columns they always are."""
        return self.standardize or not isinstance(self.network, ContextReader)

    def batch_size(self, n_arms: int) -> int:
        """Return the number of tuples in a training batch."""
        usual = BATCH_PER_ARM * n_arms
        return usual if self.batch is None else positive_int("batch", self.batch, most=max(usual, LARGEST_BATCH))

    def prior(self, n_arms: int) -> Posterior:
        """Return the prior."""
        return beliefs.prior(n_arms, self.net.width, self.prior_precision, self.a0, self.b0)

    def features(self, f: Any, contexts: NDArray[Any]) -> Array:
        """Return the features of one context, (g,), or of rows of contexts, (n, g)."""
        return (
            self.net.features(f, contexts[None])[0]
            if contexts.ndim == len(self.shape)
            else self.net.features(f, contexts)
        )

    def score(self, state: Any, contexts: NDArray[Any]) -> StudentT:
        """Return the score phi' mu~ of every arm."""
        return beliefs.score(state.posterior, self.features(state.network, contexts))

    def joint_covariance(self, state: Any, rows: NDArray[Any]) -> Array:
        """Return the covariance matrix of the scores of rows of context and item."""
        return beliefs.covariance(state.posterior, self.features(state.network, rows))

    def observe(self, f: Any, context: NDArray[Any]) -> Any:
        """Add a context to the moments of the scaling, if there is one."""
        return self.net.observe(f, context) if self.standardize else f  # type: ignore[attr-defined]

    def kinds(self) -> Mapping[str, Any]:
        """Return the type of the network."""
        return self.net.kinds("network")

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that follow from the settings."""
        return {**super().sizes(n_arms), **self.net.sizes(self.shape, n_arms)}

    def check(self, state: Any) -> None:
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""
        self.check_memory(state)
        check_network(self.net, state.network, len(state.memory.counts))


def check_words(refresh: str, noise: str) -> None:
    """Raise a ValueError unless these say whose mean is refitted, and what the noise is estimated from."""
    one_of("refresh", refresh, ("played", "all"))
    one_of("noise", noise, ("history", "buffer"))


def buffer_size(buffer: int | None, n_arms: int) -> int:
    """Return the size of a buffer."""
    return BUFFER_PER_ARM * n_arms if buffer is None else positive_int("buffer", buffer)


def recomputing(every: int, share_: float) -> Recompute | None:
    """Return the part of the memory that is recomputed in a round; None: all of it."""
    recompute = Recompute(positive_int("recompute_every", every), float(share_))
    return None if recompute.every == recompute.share == 1 else recompute


def with_new_arm(
    settings: Neural, buffer: int | None, state: Any, first: Any, like: int | None, rng: np.random.Generator
) -> tuple[Any, Ints]:
    """Return a state with one more arm, and the rows of memory that there was no room to copy for it.

    Parameters
    ----------
    settings, buffer
        The algorithm, and the size of the buffer; one that was not given grows.
    state
        State with a network, a posterior, a memory, optional sums, and arrays with one row per arm.
    first
        A state of which the only arm is new.
    like
        The arm whose rows, output and tuples are copied; None takes the rows of ``first``.
    rng
        Random generator for the new output of the network.
    """
    n_arms, rows = len(state.memory.counts) + 1, np.zeros(0, dtype=np.intp)
    E = memory.add_arm(state.memory, buffer_size(None, n_arms) if buffer is None else None)
    if like is not None:
        E, rows = memory.copy_tuples(E, like, n_arms - 1)
    network = settings.net.add_arm(state.network, like, rng)
    parts = {name: with_arm(getattr(state, name), like, getattr(first, name)) for name in _believed(state)}
    return with_arm(state, like, first)._replace(network=network, memory=E, **parts), rows


def without_old_arm(settings: Neural, buffer: int | None, state: Any, arm: int) -> Any:
    """Return a state without an arm; those after it move up. A buffer whose size was not given shrinks."""
    n_arms = len(state.memory.counts) - 1
    E = memory.remove_arm(state.memory, arm, buffer_size(None, n_arms) if buffer is None else None)
    parts = {name: without_arm(getattr(state, name), arm) for name in _believed(state)}
    return without_arm(state, arm)._replace(network=settings.net.remove_arm(state.network, arm), memory=E, **parts)


def _believed(state: Any) -> list[str]:
    """Return the fields of a state that hold posteriors."""
    return [name for name in ("posterior", "sums") if getattr(state, name, None) is not None]


def features_of(
    net: Representation, f: Any, E: Memory, recompute: Recompute | None, cache: Cache | None, batch: Batch | None
) -> tuple[Array, Cache | None]:
    """Return the features of every slot of the memory; with ``recompute``, some are not up to date."""
    in_turn = E.order is None and E.free == E.held
    contexts = E.contexts[: E.held] if in_turn else E.contexts.take(E.rows(), axis=0)
    if recompute is None:
        return net.features(f, contexts), None
    needed = None if batch is None else batch.slots
    cache = recompute(cache, E.stamps[E.rows()], contexts, lambda some: net.features(f, some), needed)
    return cache.features, cache


def weighted_rows(E: Memory, phi: Array, weights: Array | None) -> tuple[Array, Array, list[int], Array]:
    """Return features and rewards sorted by arm, their bounds, and how much each arm's rows count together.

    A weighted regression is a plain one on rows times the roots of their weights.
    """
    rows, bounds = E.by_arm()
    if E.heads is None:  # slots are not sorted by arm
        phi = phi.take(E.arms[E.rows()].argsort(kind="stable"), axis=0)
    r = E.rewards.take(rows)
    if weights is None:
        return phi, r, bounds, E.counts.astype(np.float64)
    w = weights.take(rows)
    roots = np.sqrt(w)
    held = np.array([w[start:stop].sum() for start, stop in itertools.pairwise(bounds)])
    return phi * roots[:, None], r * roots, bounds, held


def fit_arms(
    settings: Neural,
    posterior: Posterior,
    cov: Array,
    mu0: Array | None,
    data: tuple[Array, Array, list[int], Array],
    history: tuple[Array, Array],
    *,
    noise: str,
    arms: Iterable[int],
) -> Posterior:
    """Return the posterior with new covariances, and with means and noise of some arms refitted from their data.

    Parameters
    ----------
    settings
        The algorithm: its a0 and b0.
    posterior, cov
        Posterior, in which the other arms keep mean and noise, and new covariances (n_arms, g, g).
    mu0
        Prior means (n_arms, g); None for 0.
    data
        Result of :func:`weighted_rows`.
    history
        (n_arms,), how many rewards each arm has earned, and the squares of those of which no features are held.
    noise
        Data for the estimate of the noise: the whole ``"history"``, or the ``"buffer"``.
    arms
        Arms to refit.
    """
    Z, r, bounds, held = data
    plays, left = history if noise == "history" else (held, np.zeros(len(held)))
    mu, a, b = posterior.mu.copy(), posterior.a.copy(), posterior.b.copy()
    for i in arms:
        own = slice(bounds[i], bounds[i + 1])
        mean = np.zeros(mu.shape[1]) if mu0 is None else mu0[i]
        mu[i], squares = beliefs.fit_mean(cov[i], mean, Z[own], r[own])
        a[i], b[i] = settings.a0 + 0.5 * plays[i], settings.b0 + 0.5 * (squares + left[i])
    return Posterior(mu, cov, a, b)


def absorbed(prior: Prior, arm: int, z: Array) -> Prior:
    """Add the features (1, g) of an evicted tuple to its arm's prior."""
    cov, floor = prior.cov.copy(), prior.floor.copy()
    cov[arm] = beliefs.condition(cov[arm], z)
    floor[arm] /= 1.0 + floor[arm] * float(np.sum(z * z))
    return Prior(cov, floor, prior.projections)


def faded(prior: Prior, keep: float, precision: float) -> Prior:
    """Let priors fade: every arm's precision moves towards its initial value, I * precision."""
    cov = np.empty_like(prior.cov)
    for before, after in zip(prior.cov, cov, strict=True):
        beliefs.relax(before, keep, precision, out=after)
    floor = prior.floor / keep
    return Prior(cov, floor / (1.0 + floor * (1.0 - keep) * precision), prior.projections)


Moved = tuple[Any, ...]  # what a matching step starts from: the prior, old and new features, groups, rate


def report(
    net: Representation, f: Any, E: Memory, step: Step | None, matcher: Matching | None = None,
    moved: Moved | None = None, projections: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the diagnostics of an update: memory, training and matching."""
    values: dict[str, Any] = {"stored": E.held, "evicted": E.evicted, "skipped": net.skipped(f)}
    if step is not None and not math.isnan(step.gradient_norm):
        values |= step._asdict()
    if moved is not None:
        values["drift"] = rms(moved[2] - moved[1], moved[1])
    if matcher is not None:
        values |= {"projections": projections, "residual": None if moved is None else matcher.residual(*moved)}
    return values
