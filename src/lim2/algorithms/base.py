"""What an algorithm is: settings, and pure functions of a state."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import arm_names
from lim2.checks import as_float, as_floats, positive_int
from lim2.exploration import Exploration, StudentT
from lim2.representation.crossing import Crossing
from lim2.state import Array, Ints

# The size of a context, its shape, or None where the representation knows it.
Size = int | Sequence[int] | None

LARGEST_CONTEXT = 2**26

# What an update did, as fields of lim2.Info; computed when somebody asks.
Diagnostics = Callable[[], Mapping[str, Any]]


def nothing_to_report() -> Mapping[str, Any]:
    """Return no diagnostics."""
    return {}


@dataclass(frozen=True, eq=False)
class Algorithm(ABC):
    """A contextual bandit algorithm. Its fields are its settings; it holds nothing else and never changes.

    An algorithm adds a named tuple ``State``, and ``init``, ``score`` and ``learn``. Arms can come and go if it also
    adds ``add_arm`` and ``remove_arm``. See ``docs/adding-an-algorithm.md``.

    Parameters
    ----------
    n_arms
        Number of arms, which are then called 0, 1, 2, ...
    n_features
        Size of a context.
    arms
        Instead of ``n_arms``: the names of the arms, any hashable values.
    initial_pulls
        How often every arm is played, in turn, before the agent decides.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    seed
        The same seed and the same inputs give the same decisions, bit for bit. None: a fresh one from the system.
    n_item_features
        Instead of ``n_arms`` or ``arms``: what is chosen from are items, which come with every call and have so many
        features. One belief about [context, item] is shared by all of them, see :class:`lim2.ItemAgent`.
    """

    n_arms: int | None = None
    n_features: Size = None
    _: KW_ONLY
    arms: Iterable[Hashable] | None = None
    initial_pulls: int | None = 2
    min_propensity: float = 0.0
    seed: int | None = None
    n_item_features: int | None = None

    state_type: ClassVar[type[Any]]
    draws: ClassVar[bool] = True  # whether `learn` uses its random stream
    batches: ClassVar[bool] = False  # whether there is a `learn_many`
    why_no_batches: ClassVar[str] = "it is defined one reward at a time"

    # What an algorithm adds

    @property
    @abstractmethod
    def policy(self) -> Exploration:
        """How an arm is chosen from the scores."""

    @abstractmethod
    def init(self, n_arms: int, rng: np.random.Generator) -> Any:
        """Return the state before the first reward."""

    @abstractmethod
    def score(self, state: Any, contexts: NDArray[Any]) -> StudentT:
        """Return what is believed about the score of every arm, for one context or rows of contexts."""

    @abstractmethod
    def learn(
        self, state: Any, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[Any, Diagnostics]:
        """Return the state after one more observed reward, and what the update did.

        The new state shares arrays with the old one and never writes to them. A rank-one update may return
        ``state.Writes`` instead: a state, and the rows of its arrays that change.
        """

    def learn_many(
        self, state: Any, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator
    ) -> tuple[Any, Diagnostics]:
        """Return the state after a batch of rewards, as one update; where ``batches`` is True.

        Parameters
        ----------
        state
            As for :meth:`learn`, and so is what is returned.
        contexts
            (k, ...), at least one.
        arms
            (k,), their indices.
        rewards
            (k,)
        rng
            What is drawn from.
        """
        raise NotImplementedError(self.no_batches)

    def joint_covariance(self, state: Any, rows: NDArray[Any]) -> Array:
        """Return the covariances of the scores of rows of context and item, (k, k): for joint draws among items."""
        raise NotImplementedError(f"{self.name} has no joint draws: leave out joint=True")

    def add_arm(self, state: Any, like: int | None, rng: np.random.Generator) -> Any:
        """Return a state with one more arm: from the prior, or like another."""
        raise NotImplementedError(f"the arms of a {self.name} cannot change")

    def remove_arm(self, state: Any, arm: int) -> Any:
        """Return a state without an arm; those after it move up."""
        raise NotImplementedError(f"the arms of a {self.name} cannot change")

    # What it may change

    def validate(self) -> None:
        """Raise a ValueError if a setting makes no sense."""
        _ = self.turns
        check_floor(self.min_propensity, len(self.names))
        if not self.shape:
            raise ValueError("n_features is missing: give the size of a context")
        if math.prod(self.shape) > LARGEST_CONTEXT:
            raise ValueError(f"a context has at most {LARGEST_CONTEXT} numbers, got n_features={self.n_features!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is learned from: a context or, with items, a context and an item behind it."""
        if self.n_features is None:
            raise ValueError("n_features is missing: give the size of a context")
        size = positive_int("n_features", self.n_features)  # type: ignore[arg-type]  # refuses what is no number
        return (size if self.crossing is None else size + self.crossing.item,)

    @functools.cached_property
    def crossing(self) -> Crossing | None:
        """What multiplies the columns of contexts and items; None without items."""
        if self.n_item_features is None:
            return None
        sizes = ("n_features", self.n_features), ("n_item_features", self.n_item_features)
        return Crossing(*(positive_int(name, size) for name, size in sizes))  # type: ignore[arg-type]

    @property
    def turns(self) -> int:
        """How often every arm is played, in turn, at the start."""
        return positive_int("initial_pulls", self.initial_pulls, least=0)  # type: ignore[arg-type]  # refuses None

    @property
    def takes_floats(self) -> bool:
        """Whether contexts are arrays of float64, which need not be read."""
        return True

    def read(self, state: Any, values: ArrayLike, what: str) -> NDArray[Any]:  # noqa: ARG002
        """Return contexts as an array of the type that the algorithm computes with."""
        return as_floats(values, what)

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of parts of the state that are annotated ``Any``, by their path: for loading."""
        return {}

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that are known from the settings: for loading."""
        return {"arm": n_arms, "context": self.shape}

    def check(self, state: Any) -> None:  # noqa: B027  # most have nothing to add
        """Raise a ValueError if a loaded state is impossible in a way that annotations do not tell."""

    # What follows

    @property
    def name(self) -> str:
        """The name of the algorithm, in Python, on the command line and in files."""
        return type(self).__name__

    @property
    def no_batches(self) -> str:
        """What is said of a batch where there are none."""
        return (
            f"{self.name} does not learn in batches: {self.why_no_batches}. Leave out batch=, to learn the rewards one "
            f"by one, or use AdaptiveTS or LinearTS, which do"
        )

    @property
    def names(self) -> Sequence[Hashable]:
        """The names of the arms that the settings ask for; with items, of the one belief that they share."""
        if self.n_item_features is not None:
            if self.n_arms is not None or self.arms is not None:
                raise ValueError(
                    "with n_item_features the items of a call are what is chosen from: leave out n_arms and arms"
                )
            return range(1)
        if (self.n_arms is None) == (self.arms is None):
            raise ValueError(
                f"give either n_arms or arms, their names: got n_arms={self.n_arms!r} and arms={self.arms!r}"
            )
        if self.arms is not None:
            return arm_names(self.arms)
        return range(positive_int("n_arms", self.n_arms or 0, most=2**24))

    def __getstate__(self) -> dict[str, Any]:  # pickled are the settings, not what was computed from them
        return {field.name: getattr(self, field.name) for field in fields(self)}


def check_floor(floor: float, n_arms: int) -> None:
    """Raise a ValueError unless there is a policy with this least propensity of every arm."""
    value = as_float(floor, "min_propensity")
    if not 0.0 <= value * n_arms <= 1.0 + 1e-12:
        raise ValueError(f"min_propensity must be from 0 to 1 / n_arms = {1.0 / n_arms:.4g}, got {floor!r}")


def rms(part: Array, whole: Array) -> float:
    """Return the norm of a part relative to that of the whole; NaN where that is 0.

    Examples
    --------
    >>> rms(np.array([0.0, 0.5]), np.array([3.0, 4.0]))
    0.1
    """
    size = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / size if size else math.nan
