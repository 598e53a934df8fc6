"""A bandit problem: contexts, and the reward of each arm in each round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Raw = Mapping[str, Any]
Form = Literal["vectors", "dictionaries"]


class Rounds:
    """Base of problems: read-only arrays, and a context per round."""

    arrays: ClassVar[tuple[str, ...]]  # names of the fields that are frozen

    name: str
    contexts: NDArray[Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling forgets that arrays are read-only.
        self.__dict__.update(state)
        self._freeze()

    def _freeze(self) -> None:
        for name in self.arrays:
            array = getattr(self, name)
            if array is not None:
                view = array.view()  # because the caller's own array must stay writable
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.contexts)

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.contexts.shape[1])

    def __len__(self) -> int:
        return self.rounds

    def _check_head(self, rounds: int) -> None:
        if not 1 <= rounds <= self.rounds:
            raise ValueError(f"problem {self.name!r} has {self.rounds} rounds: give 1 to this many, got {rounds}")


@dataclass(frozen=True, eq=False)
class Problem(Rounds):
    """Contextual bandit problem with one row per round.

    The arrays are read-only, so that no agent can change them.

    Parameters
    ----------
    contexts
        Contexts, (rounds, n_features): floats, or token ids for text.
    rewards
        Reward of each arm in each round, (rounds, n_arms).
    expected_rewards
        Expected reward of each arm given the context, (rounds, n_arms). Default: the rewards, which is right for a
        problem without noise.
    seed
        Seed of the draw. Loading with this seed gives the same arrays.
    feature_names
        Names of the columns of the contexts, if known.
    n_tokens
        For text only: token ids are in 0 .. n_tokens - 1, and 0 is the padding.
    raw_contexts
        Contexts as dictionaries, one per round. Empty if there are none.
    form
        Form in which agents get the contexts: `"vectors"`, or `"dictionaries"`, which `lim2.Bandit` encodes.
    delays
        Delay of each arm's reward in each round, (rounds, n_arms): the number of further decisions after which it is
        known. None: every reward is known before the next decision.
    changes
        Rounds, counted from 0, from which on the expected rewards follow another rule.
    usual_rewards
        Range of usual rewards, for methods that need one. None: unknown.
    notes
        Remarks for readers of results, such as dropped rows, imputed values or an incomplete source.

    Examples
    --------
    >>> import numpy as np
    >>> from lim2.problems import Problem
    >>> problem = Problem("coins", contexts=np.zeros((2, 1)), rewards=np.array([[0.0, 3.0], [2.0, 1.0]]))
    >>> problem.n_arms, problem.n_features, problem.rounds
    (2, 1, 2)
    >>> problem.best_arms, problem.best_rewards
    (array([1, 0]), array([3., 2.]))
    >>> problem.uniform_reward  # what a policy that ignores the contexts earns in a round, on average
    1.5
    """

    arrays = ("contexts", "rewards", "expected_rewards", "delays", "best_arms", "best_rewards")

    name: str
    contexts: NDArray[Any]
    rewards: Array
    expected_rewards: Array = None  # type: ignore[assignment]  # filled in by __post_init__
    seed: int | None = None
    arm_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    n_tokens: int | None = None
    raw_contexts: tuple[Raw, ...] = ()
    form: Form = "vectors"
    delays: NDArray[np.int64] | None = None
    changes: tuple[int, ...] = ()
    usual_rewards: tuple[float, float] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    best_arms: NDArray[np.int64] = field(init=False)
    best_rewards: Array = field(init=False)

    def __post_init__(self) -> None:
        if self.expected_rewards is None:
            object.__setattr__(self, "expected_rewards", self.rewards)
        self._check()
        best_arms = self.expected_rewards.argmax(axis=1)
        best_rewards = np.take_along_axis(self.expected_rewards, best_arms[:, None], axis=1)[:, 0]
        object.__setattr__(self, "best_arms", best_arms)
        object.__setattr__(self, "best_rewards", best_rewards)
        if not self.arm_names:
            object.__setattr__(self, "arm_names", tuple(f"arm {arm}" for arm in range(self.n_arms)))
        self._freeze()

    def _check(self) -> None:
        if self.contexts.ndim != 2 or self.rewards.ndim != 2:
            raise ValueError(
                f"problem {self.name!r}: contexts and rewards must have two dimensions, (rounds, "
                f"n_features) and (rounds, n_arms), got shapes {self.contexts.shape} and {self.rewards.shape}"
            )
        if len(self.contexts) != len(self.rewards):
            raise ValueError(
                f"problem {self.name!r}: {len(self.contexts)} contexts but {len(self.rewards)} rows of "
                "rewards; give one row of each for every round"
            )
        if self.expected_rewards.shape != self.rewards.shape:
            raise ValueError(
                f"problem {self.name!r}: expected_rewards has shape {self.expected_rewards.shape} but "
                f"rewards has shape {self.rewards.shape}; they must be the same"
            )
        if self.rewards.shape[0] < 1 or self.rewards.shape[1] < 1 or self.contexts.shape[1] < 1:
            raise ValueError(f"problem {self.name!r} is empty: it needs at least one round, one feature and one arm")
        if len(self.raw_contexts) not in (0, self.rounds):
            raise ValueError(
                f"problem {self.name!r}: {len(self.raw_contexts)} raw_contexts, but {self.rounds} are needed, or none"
            )
        check_form(self.name, self.form, has_raw=bool(self.raw_contexts))
        check_delays(self.name, self.delays, self.rewards.shape)

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.rewards.shape[1])

    @property
    def uniform_reward(self) -> float:
        """Mean reward per round of the uniformly random policy."""
        return float(self.expected_rewards.mean())

    def __repr__(self) -> str:
        return (
            f"Problem({self.name!r}, rounds={self.rounds}, n_features={self.n_features}, "
            f"n_arms={self.n_arms}, seed={self.seed})"
        )

    def earned(self, chosen: NDArray[np.int64], start: int = 0) -> Array:
        """Return the rewards of the arms played in successive rounds."""
        rewards: Array = self.rewards[np.arange(start, start + len(chosen)), chosen]
        return rewards

    def expected(self, chosen: NDArray[np.int64]) -> Array:
        """Return the expected rewards of the arms played in the first rounds."""
        rewards: Array = self.expected_rewards[np.arange(len(chosen)), chosen]
        return rewards

    def head(self, rounds: int) -> Problem:
        """Return the problem with only its first rounds, at least 1."""
        self._check_head(rounds)
        return replace(
            self,
            contexts=self.contexts[:rounds],
            rewards=self.rewards[:rounds],
            expected_rewards=self.expected_rewards[:rounds],
            raw_contexts=self.raw_contexts[:rounds],
            delays=None if self.delays is None else self.delays[:rounds],
            changes=tuple(change for change in self.changes if change < rounds),
        )


def check_form(name: str, form: str, *, has_raw: bool) -> None:
    """Raise a ValueError for a form of contexts that a problem does not have."""
    if form not in ("vectors", "dictionaries"):
        raise ValueError(f"problem {name!r}: form must be 'vectors' or 'dictionaries', got {form!r}")
    if form == "dictionaries" and not has_raw:
        raise ValueError(f"problem {name!r}: the form 'dictionaries' needs raw_contexts, and raw_items if it has items")


def check_delays(name: str, delays: NDArray[Any] | None, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless delays are whole numbers from 0 in the shape of the rewards."""
    if delays is None:
        return
    if delays.shape != shape or delays.dtype.kind not in "iu" or delays.min() < 0:
        raise ValueError(
            f"problem {name!r}: delays must be whole numbers from 0 in the shape of the rewards, {shape}, got "
            f"{delays.dtype} in the shape {delays.shape}"
        )
