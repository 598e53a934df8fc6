"""Interface of algorithms: settings, and pure functions of a state."""

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
from lim2.state import Array, Ints, rebuilt

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
    """Base class of contextual bandit algorithms. Its fields are its settings; it is immutable.

    An algorithm defines a named tuple ``State`` and the methods ``init``, ``score`` and ``learn``. It supports changing
    arms if it also defines ``add_arm`` and ``remove_arm``. See ``docs/research/adding-an-algorithm.md``.

    Parameters
    ----------
    n_arms
        Number of arms, which are named 0, 1, 2, ...
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    initial_pulls
        Number of initial pulls of every arm, in turn.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, from 0 to 1.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions, bit for bit. None: a random seed
        from the operating system.
    n_item_features
        Number of features of an item, instead of ``n_arms`` or ``arms``. Items are passed with every call and share one
        posterior over [context, item], see :class:`lim2.ItemAgent`.
    """

    n_arms: int | None = None
    n_features: Size = None
    _: KW_ONLY
    arms: Iterable[Hashable] | None = None
    initial_pulls: int | None = 2
    epsilon: float = 0.0
    seed: int | None = None
    n_item_features: int | None = None

    state_type: ClassVar[type[Any]]
    draws: ClassVar[bool] = True  # whether `learn` uses its random stream
    batches: ClassVar[bool] = False  # whether there is a `learn_many`
    dated: ClassVar[bool] = False  # whether `learn` takes the time of a decision, as ``decided``
    why_no_batches: ClassVar[str] = "it is defined one reward at a time"

    # What an algorithm adds

    @property
    @abstractmethod
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""

    @abstractmethod
    def init(self, n_arms: int, rng: np.random.Generator) -> Any:
        """Return the initial state."""

    @abstractmethod
    def score(self, state: Any, contexts: NDArray[Any]) -> StudentT:
        """Return the posterior of the score of every arm, for one context or rows of contexts."""

    @abstractmethod
    def learn(
        self, state: Any, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[Any, Diagnostics]:
        """Return the state after one more reward, and the diagnostics of the update.

        The new state may share arrays with the old one but never modifies them. A rank-one update may return
        ``state.Writes`` instead: a state, and the rows of its arrays that change.
        """

    def learn_many(
        self, state: Any, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator
    ) -> tuple[Any, Diagnostics]:
        """Return the state after one update with a batch of rewards; only if ``batches`` is True."""
        raise NotImplementedError(self.no_batches)

    def score_items(self, state: Any, rows: NDArray[Any], decisions: int) -> StudentT:  # noqa: ARG002
        """Return the scores of the candidates of one or several decisions, each a row of context and item, (k, 1).

        They equal those of :meth:`score`. The candidates of one decision share a context, so its part may be computed
        once. The state may be the result of :meth:`for_items`.
        """
        return self.score(state, rows)

    def newest(self, state: Any) -> int:  # noqa: ARG002
        """Return the time of the newest decision whose reward was learned; only if ``dated`` is True."""
        return 0

    def for_items(self, state: Any) -> Any:
        """Return the part of the state that :meth:`score_items` needs, to be used for many decisions."""
        return state

    def for_deciding(self, state: Any) -> Any:
        """Return the state without what only learning needs, for a snapshot that is sent to another process."""
        return state

    def joint_covariance(self, state: Any, rows: NDArray[Any]) -> Array:
        """Return the covariance matrix of the scores of rows of context and item, (k, k), for joint draws."""
        raise NotImplementedError(f"{self.name} does not support joint draws: leave out joint=True")

    def add_arm(self, state: Any, like: int | None, rng: np.random.Generator) -> Any:
        """Return a state with one more arm: from the prior, or a copy of another."""
        raise NotImplementedError(f"{self.name} does not support adding or removing arms")

    def remove_arm(self, state: Any, arm: int) -> Any:
        """Return a state without an arm; later arms move up."""
        raise NotImplementedError(f"{self.name} does not support adding or removing arms")

    # What it may change

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        _ = self.turns
        check_epsilon(self.epsilon)
        _ = self.names
        if not self.shape:
            raise ValueError("n_features is missing: give the size of a context")
        if math.prod(self.shape) > LARGEST_CONTEXT:
            raise ValueError(f"n_features must be at most {LARGEST_CONTEXT}, got {self.n_features!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an input: a context or, with items, a context followed by an item."""
        if self.n_features is None:
            raise ValueError("n_features is missing: give the size of a context")
        size = positive_int("n_features", self.n_features)  # type: ignore[arg-type]  # refuses what is no number
        return (size if self.crossing is None else size + self.crossing.item,)

    @functools.cached_property
    def crossing(self) -> Crossing | None:
        """Products of the columns of contexts and items; None without items."""
        if self.n_item_features is None:
            return None
        sizes = ("n_features", self.n_features), ("n_item_features", self.n_item_features)
        return Crossing(*(positive_int(name, size) for name, size in sizes))  # type: ignore[arg-type]

    @property
    def turns(self) -> int:
        """Number of initial pulls of every arm, in turn."""
        return positive_int("initial_pulls", self.initial_pulls, least=0)  # type: ignore[arg-type]  # refuses None

    @property
    def takes_floats(self) -> bool:
        """Whether contexts are arrays of float64, which need no conversion."""
        return True

    def read(self, state: Any, values: ArrayLike, what: str) -> NDArray[Any]:  # noqa: ARG002
        """Return contexts as an array of the type that the algorithm uses."""
        return as_floats(values, what)

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of the parts of the state that are annotated ``Any``, by path; used by loading."""
        return {}

    @classmethod
    def upgraded(cls, settings: dict[str, Any], leaves: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """Return the settings of a file, changed where an earlier version meant something else by them."""
        return settings

    def rebuilt(self, leaves: Mapping[str, Any]) -> Any:
        """Return the state with these leaves by path, also if an earlier version wrote them."""
        return rebuilt(self.state_type, leaves, self.kinds())

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that follow from the settings; used by loading."""
        return {"arm": n_arms, "context": self.shape}

    def check(self, state: Any) -> None:  # noqa: B027  # most have nothing to add
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""

    # What follows

    @property
    def name(self) -> str:
        """The name of the algorithm, in Python, on the command line and in files."""
        return type(self).__name__

    @property
    def no_batches(self) -> str:
        """Error message for a batch, if the algorithm does not support batches."""
        return (
            f"{self.name} does not learn in batches: {self.why_no_batches}. Leave out batch= to learn the rewards one "
            f"by one, or use AdaptiveTS or LinearTS"
        )

    @property
    def names(self) -> Sequence[Hashable]:
        """Names of the arms in the settings; with items, of the one posterior that they share."""
        if self.n_item_features is not None:
            if self.n_arms is not None or self.arms is not None:
                raise ValueError(
                    "with n_item_features the choices are the items of each call: leave out n_arms and arms"
                )
            return range(1)
        if (self.n_arms is None) == (self.arms is None):
            raise ValueError(
                f"give either n_arms or arms (their names), got n_arms={self.n_arms!r} and arms={self.arms!r}"
            )
        if self.arms is not None:
            return arm_names(self.arms)
        return range(positive_int("n_arms", self.n_arms or 0, most=2**24))

    def __getstate__(self) -> dict[str, Any]:  # pickled are the settings, not what was computed from them
        return {field.name: getattr(self, field.name) for field in fields(self)}


def check_epsilon(epsilon: float) -> None:
    """Raise a ValueError unless epsilon is a share."""
    if not 0.0 <= as_float(epsilon, "epsilon") <= 1.0:
        raise ValueError(f"epsilon is a share of decisions and must be from 0 to 1, got {epsilon!r}")


def rms(part: Array, whole: Array) -> float:
    """Return the norm of a part relative to that of the whole; NaN if that is 0.

    Examples
    --------
    >>> rms(np.array([0.0, 0.5]), np.array([3.0, 4.0]))
    0.1
    """
    size = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / size if size else math.nan
