"""Common part of the neural-linear algorithms: settings of network and prior, and their use."""

import functools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import memory
from lim2.algorithms.base import Algorithm, rms
from lim2.checks import positive_int
from lim2.exploration import Exploration, StudentT, named
from lim2.exploration import posterior as beliefs
from lim2.exploration.posterior import Posterior
from lim2.memory import Evicted, Memory
from lim2.representation import MLP, ContextReader, Intercept, Representation, RMSProp, Standardized, Step
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
        setting = self.representation
        return MLP(self.hidden, RMSProp(self.learning_rate)) if setting is None else setting

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of a context, from the settings or from the representation."""
        if self.crossing is not None:
            return super().shape
        expected = self.network.context_shape if isinstance(self.network, ContextReader) else None
        setting = self.n_features
        if setting is None:
            if expected is None:
                raise ValueError(
                    "n_features is missing: give the size of a context, or its shape, e.g. n_features=(3, 32, 32). "
                    "It may be left out only if the representation knows it, as TextCNN does"
                )
            return expected
        if isinstance(setting, list | tuple):
            if not setting:
                raise ValueError("n_features must be the size of a context or its shape, got an empty shape")
            shape = tuple(positive_int("n_features", size) for size in setting)
        else:
            shape = (positive_int("n_features", setting),)  # type: ignore[arg-type]  # refuses what is no number
        if expected is not None and shape != expected:
            raise ValueError(f"n_features is {setting!r}, but the representation takes contexts of shape {expected}")
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
    """Settings of an algorithm with a network, a training memory, and a linear posterior over its features.

    Its state has the fields ``network``, ``posterior`` and ``memory``, and arrays with one row per arm.
    """

    batch: int | None = None
    steps: int = 1
    prior_precision: float = 1.0
    a0: float = 6.0
    b0: float = 6.0
    intercept: bool = False
    exploration: str | Exploration = "thompson"
    standardize: bool = False

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        beliefs.check_prior(self.prior_precision, self.a0, self.b0)
        self.batch_size(len(self.names))
        positive_int("steps", self.steps, most=MOST_STEPS)
        _ = self.net, self.capacity(len(self.names))

    @functools.cached_property
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""
        return named(self.exploration)

    @functools.cached_property
    def net(self) -> Representation:
        """The representation with the scaling and intercept of the settings."""
        net: Representation = Standardized(self.network) if self.standardize else self.network
        return Intercept(net) if self.intercept else net

    @functools.cached_property
    def takes_floats(self) -> bool:
        """Whether contexts are arrays of float64; with raw columns they always are."""
        return self.standardize or not isinstance(self.network, ContextReader)

    def capacity(self, n_arms: int) -> int | None:  # noqa: ARG002
        """Return the number of tuples that the memory holds; None: all."""
        return None

    def batch_size(self, n_arms: int) -> int:
        """Return the number of tuples in a training batch."""
        usual = BATCH_PER_ARM * n_arms
        return usual if self.batch is None else positive_int("batch", self.batch, most=max(usual, LARGEST_BATCH))

    def init(self, n_arms: int, rng: np.random.Generator) -> Any:
        """Return the initial state."""
        return self.start(n_arms, self.net.init(self.shape, n_arms, rng))

    @abstractmethod
    def start(self, n_arms: int, f: Any) -> Any:
        """Return the state of arms that were never played, with a network."""

    def prior(self, n_arms: int) -> Posterior:
        """Return the prior."""
        return beliefs.prior(n_arms, self.net.width, self.prior_precision, self.a0, self.b0)

    def empty_memory(self, n_arms: int) -> Memory:
        """Return a memory without tuples."""
        return memory.empty(self.capacity(n_arms), n_arms, self.shape)

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

    def renewed(self, f: Any, E: Memory, context: NDArray[Any]) -> tuple[Any, Array]:
        """Return the network once it has observed a context, and the features of every slot of the memory under it."""
        f, in_turn = self.observe(f, context), E.order is None and E.free == E.held
        return f, self.net.features(f, E.contexts[: E.held] if in_turn else E.contexts.take(E.rows(), axis=0))

    def add_arm(self, state: Any, like: int | None, rng: np.random.Generator) -> Any:
        """Return a state with one more arm: from the prior, or a copy of another."""
        n_arms, rows = len(state.memory.counts) + 1, np.zeros(0, dtype=np.intp)
        E = memory.add_arm(state.memory, self.capacity(n_arms))
        if like is not None:
            E, rows = memory.copy_tuples(E, like, n_arms - 1)
        network, prior = self.net.add_arm(state.network, like, rng), self.start(1, None)
        posterior = with_arm(state.posterior, like, prior.posterior)
        new = with_arm(state, like, prior)._replace(network=network, memory=E, posterior=posterior)
        return self.without_room(new, rows)

    def without_room(self, state: Any, rows: Ints) -> Any:
        """Return the state after rows of memory were evicted that there was no room to copy for the newest arm."""
        state.evicted_squares[-1] += np.sum(state.memory.rewards[rows] ** 2)
        return state

    def remove_arm(self, state: Any, arm: int) -> Any:
        """Return a state without an arm; later arms move up."""
        n_arms = len(state.memory.counts) - 1
        E = memory.remove_arm(state.memory, arm, self.capacity(n_arms))
        network, posterior = self.net.remove_arm(state.network, arm), without_arm(state.posterior, arm)
        return without_arm(state, arm)._replace(network=network, memory=E, posterior=posterior)

    def rebuilt(self, leaves: Mapping[str, Any]) -> Any:
        """Return the state with these leaves by path; lim2 0.2 also wrote sums and priors, if any, and a cache."""
        removed = {"cache", "sums", "prior_cov"}.difference(self.state_type._fields)
        return super().rebuilt({path: leaf for path, leaf in leaves.items() if path.partition("/")[0] not in removed})

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Buffered(Neural):
    """Settings of an algorithm whose memory is a buffer."""

    buffer: int | None = None

    def capacity(self, n_arms: int) -> int | None:
        """Return the number of tuples that the buffer holds."""
        return BUFFER_PER_ARM * n_arms if self.buffer is None else positive_int("buffer", self.buffer)


def counted(plays: Array, squares: Array, arm: int, evicted: Evicted | None) -> tuple[Array, Array]:
    """Return the plays of every arm, and the sum of its evicted squared rewards, after one more play."""
    plays, squares = plays.copy(), squares.copy()
    plays[arm] += 1.0
    if evicted is not None:
        squares[evicted.arm] += evicted.reward**2
    return plays, squares


def sorted_by_arm(E: Memory, phi: Array) -> tuple[Array, Array, list[int]]:
    """Return features and rewards of the whole memory by arm, and their bounds, from features by slot."""
    rows, bounds = E.by_arm()
    if E.heads is None:  # slots are not sorted by arm
        phi = phi.take(E.arms[E.rows()].argsort(kind="stable"), axis=0)
    return phi, E.rewards.take(rows), bounds


def report(
    net: Representation, f: Any, E: Memory, step: Step | None, change: tuple[Array, Array] | None = None
) -> dict[str, Any]:
    """Return the diagnostics of an update: its memory, and its last training step with old and new features."""
    values: dict[str, Any] = {"stored": E.held, "evicted": E.evicted, "skipped": net.skipped(f)}
    if step is not None and not math.isnan(step.gradient_norm):
        values |= step._asdict()
    if change is not None:
        old, new = change
        values["drift"] = rms(new - old, old)
    return values
