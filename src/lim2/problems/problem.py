"""What every problem is: contexts, and what each arm pays in each round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """A contextual bandit problem, drawn: one row per round.

    The arrays are read-only, so that nothing that plays a problem can change it.

    Parameters
    ----------
    name
        The name under which the problem is registered, or the one its maker gave it.
    contexts
        What the agent sees, (rounds, n_features). Floats, except for text, whose contexts are token ids.
    rewards
        What each arm pays if it is played, (rounds, n_arms).
    expected_rewards
        The mean of each of those rewards given the context, (rounds, n_arms). The rewards themselves when
        left out, which is right for a problem without noise.
    seed
        The seed that drew it. Loading with this seed gives the same arrays again.
    arm_names
        What each arm stands for.
    feature_names
        What each column of the contexts stands for, when that is known.
    n_tokens
        For text only: token ids are in 0 .. n_tokens - 1, and 0 is the padding.
    settings
        The settings with which it was loaded.
    notes
        What a reader of a result should know: rows dropped, values filled in, a source that is only a part.

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

    name: str
    contexts: NDArray[Any]
    rewards: Array
    expected_rewards: Array = None  # type: ignore[assignment]  # filled in by __post_init__
    seed: int | None = None
    arm_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    n_tokens: int | None = None
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling forgets that arrays are read-only.
        self.__dict__.update(state)
        self._freeze()

    def _freeze(self) -> None:
        for array in ("contexts", "rewards", "expected_rewards", "best_arms", "best_rewards"):
            # A view, because the caller's own array must stay writable.
            view = getattr(self, array).view()
            view.flags.writeable = False
            object.__setattr__(self, array, view)

    def _check(self) -> None:
        if self.contexts.ndim != 2 or self.rewards.ndim != 2:
            raise ValueError(
                f"problem {self.name!r}: contexts and rewards must have two dimensions, (rounds, "
                f"n_features) and (rounds, n_arms), not shapes {self.contexts.shape} and {self.rewards.shape}"
            )
        if len(self.contexts) != len(self.rewards):
            raise ValueError(
                f"problem {self.name!r}: {len(self.contexts)} contexts but {len(self.rewards)} rows of "
                "rewards; give one row of each for every round"
            )
        if self.expected_rewards.shape != self.rewards.shape:
            raise ValueError(
                f"problem {self.name!r}: expected_rewards has shape {self.expected_rewards.shape} but "
                f"rewards {self.rewards.shape}; they must be the same"
            )
        if self.rewards.shape[0] < 1 or self.rewards.shape[1] < 1 or self.contexts.shape[1] < 1:
            raise ValueError(f"problem {self.name!r} is empty: it needs at least one round, one feature and one arm")

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.rewards)

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self.rewards.shape[1])

    @property
    def n_features(self) -> int:
        """The size of a context."""
        return int(self.contexts.shape[1])

    @property
    def uniform_reward(self) -> float:
        """The mean reward a round of a policy that plays every arm equally often."""
        return float(self.expected_rewards.mean())

    def __len__(self) -> int:
        return self.rounds

    def __repr__(self) -> str:
        return (
            f"Problem({self.name!r}, rounds={self.rounds}, n_features={self.n_features}, "
            f"n_arms={self.n_arms}, seed={self.seed})"
        )

    def earned(self, chosen: NDArray[np.int64], start: int = 0) -> Array:
        """Return the rewards of the arms that were played in successive rounds.

        Parameters
        ----------
        chosen
            The arms.
        start
            The first of those rounds.
        """
        rewards: Array = self.rewards[np.arange(start, start + len(chosen)), chosen]
        return rewards

    def expected(self, chosen: NDArray[np.int64]) -> Array:
        """Return the expected rewards of the arms that were played in the first rounds.

        Parameters
        ----------
        chosen
            The arms.
        """
        rewards: Array = self.expected_rewards[np.arange(len(chosen)), chosen]
        return rewards

    def head(self, rounds: int) -> Problem:
        """Return the same problem cut after its first `rounds` rounds.

        Parameters
        ----------
        rounds
            How many rounds to keep, from 1 to `self.rounds`.
        """
        if not 1 <= rounds <= self.rounds:
            raise ValueError(f"problem {self.name!r} has {self.rounds} rounds; asked for the first {rounds}")
        return replace(
            self,
            contexts=self.contexts[:rounds],
            rewards=self.rewards[:rounds],
            expected_rewards=self.expected_rewards[:rounds],
        )
