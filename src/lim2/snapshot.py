"""Decisions among arms by vectors: what agents have in common with their read-only snapshots."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import is_range
from lim2.deciding import Question
from lim2.decision import Decision
from lim2.exploration import StudentT
from lim2.shells import Shell
from lim2.state import Array


class ArmDecider(Shell):
    """Base class of agents and snapshots: chooses arms but does not learn.

    Attributes
    ----------
    algorithm
        The algorithm and its settings.
    """

    def act(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Any:
        """Choose an arm for a context, among all arms or the eligible ones.

        At the start the arms are played in turn until each has been chosen or updated ``initial_pulls`` times. A turn
        counts when the decision is made, so rewards may be late.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        arms
            Names of the eligible arms. None: all arms.
        exploit
            Choose the arm with the largest posterior mean: no exploration, no initial turns, no ``epsilon``, no
            random draw.
        """
        core = self.core
        x = core.row(context)
        question = Question(core.state.names, x, None, exploit) if arms is None else core.question(x, arms, exploit)
        arm = question.names[core.act(question)]
        if core.algorithm.dated:
            self._note(x, (arm,))
        return arm

    def act_many(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> NDArray[Any]:
        """Choose an arm for each row of contexts, the same as a loop over :meth:`act`.

        Returns an array of integers if the arms are named by integers, otherwise an array of objects.
        """
        question = self.core.question(self.core.rows(contexts), arms, exploit)
        chosen, names = self.core.act_many(question), question.names
        for x, place in zip(question.rows, chosen.tolist(), strict=True):
            self._note(x, (names[place],))
        return chosen if is_range(names) else _array(names)[chosen]

    def decide(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Decision:
        """Choose an arm as :meth:`act` does, and return it with its propensity as a :class:`lim2.Decision`.

        From the same state, ``decide`` and ``act`` use the same random draws and choose the same arm.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> decision = agent.decide([1.0])
        >>> decision.arm, round(decision.propensity, 3), decision.means.round(3).tolist()
        ('red', 0.839, [0.941, 0.0])
        """
        return self.rank(context, arms, 1, exploit=exploit)[0]

    def rank(
        self, context: ArrayLike, arms: Iterable[Hashable] | None = None, k: int | None = None, *, exploit: bool = False
    ) -> list[Decision]:
        """Rank arms by one draw of each score, best first; return one decision per position.

        All decisions have the same eligible arms. The propensity of each is the probability that its arm comes first.
        An arm played for its initial turn or for ``epsilon`` comes first.

        Parameters
        ----------
        context, arms, exploit
            The same as for :meth:`act`.
        k
            Number of positions. None: one per eligible arm.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> [decision.arm for decision in agent.rank([1.0])]
        ['red', 'blue']
        """
        x = self.core.row(context)
        decisions = self.core.rank(self.core.question(x, arms, exploit), k)
        self._note(x, [decision.arm for decision in decisions])
        return decisions

    def propensities(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> Array:
        """Return the probability that the next decision chooses each arm, without drawing or changing anything.

        Parameters
        ----------
        contexts
            One context, which gives (k,) for k eligible arms, or n rows, which give (n, k), each as if it came next.
        arms
            Names of the eligible arms, in the order of the result. None: all arms.
        exploit
            The same as for :meth:`act`.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> agent.propensities([1.0]).round(3).tolist(), agent.propensities([1.0], arms=["blue"]).tolist()
        ([0.839, 0.161], [1.0])
        """
        return self.core.propensities(self.core.question(self._rows(contexts), arms, exploit))

    def means(self, contexts: ArrayLike) -> Array:
        """Return the posterior mean of every arm's score: (n_arms,) for one context, (n, n_arms) for n rows.

        It is NaN for an algorithm without a posterior.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> agent.means([[1.0], [2.0]]).round(3).tolist()
        [[0.941, 0.0], [1.412, 0.0]]
        """
        return self._score(contexts).mean

    def variances(self, contexts: ArrayLike) -> Array:
        """Return the posterior variance of every arm's score, in the shape of :meth:`means`; infinite if undefined."""
        return self._score(contexts).variance

    def decide_logged(self, source: Any, arms: Any, exploit: bool, k: int | None = None) -> list[Decision]:
        """Decide for a context of a log, or rank k arms."""
        if k is None:
            return [self.decide(source.context, arms, exploit=exploit)]
        if source.items is not None:
            raise ValueError("this agent ranks arms, not items: leave out items=")
        return self.rank(source.context, arms, k, exploit=exploit)

    def lacks(self, arm: Hashable) -> bool:
        """Return whether there is no such arm."""
        return arm not in self.core.state.places

    def _note(self, x: NDArray[Any], arms: Iterable[Hashable]) -> None:
        """Take note of decisions; only an agent does."""

    def _score(self, contexts: ArrayLike) -> StudentT:
        return self.core.posterior(self._rows(contexts))

    def _rows(self, contexts: ArrayLike) -> NDArray[Any]:
        return self.core.row(contexts) if np.ndim(contexts) == self.core.axes else self.core.rows(contexts)

    @property
    def arms(self) -> tuple[Any, ...]:
        """Names of the arms."""
        return self.core.state.names

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self.core.state.names)

    @property
    def context_shape(self) -> tuple[int, ...]:
        """Shape of a context."""
        return self.algorithm.shape

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(np.prod(self.algorithm.shape))


class Snapshot(ArmDecider):
    """Read-only snapshot of an agent, made by :meth:`lim2.Agent.snapshot`. It decides but never learns.

    Any number of threads may use it at once. All snapshots of an agent share one random stream, separate from that of
    ``agent.act``. With a seed and one thread at a time, decisions are the same in every run. With several threads, each
    decision is drawn correctly, but the order of calls decides which draw it gets. All snapshots of an agent share the
    initial turns of its arms. Where a pickled snapshot is loaded, it has turns of its own, and a random stream of its
    own: with a seed it continues as the pickled one would have, without a seed it is new.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=3, n_features=1, seed=0)
    >>> snapshot = agent.snapshot()
    >>> [snapshot.act([1.0]) for _ in range(4)], snapshot.rounds
    ([0, 1, 2, 0], 0)
    """

    def __repr__(self) -> str:
        return f"Snapshot({self.name}, n_arms={self.n_arms}, rounds={self.rounds})"


def _array(names: tuple[Hashable, ...]) -> NDArray[Any]:
    """Return names as an array."""
    whole = all(type(name) is int for name in names)
    out = np.empty(len(names), dtype=np.intp if whole else object)
    for index, name in enumerate(names):  # one by one: a name may be a tuple
        out[index] = name
    return out
