"""Agents: the shell around every algorithm that learns from vectors."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import batches
from lim2.algorithms.base import Algorithm
from lim2.arms import arm_names
from lim2.batches import Progress, Size
from lim2.checks import LARGEST, plain, positive_int
from lim2.decision import History
from lim2.learner import Learner, Lesson, Position, checked_reward, checked_rewards
from lim2.shells import LearningShell
from lim2.snapshot import ArmDecider, Snapshot
from lim2.state import Ints
from lim2.streams import Streams


class Agent(LearningShell, ArmDecider):
    """Contextual bandit agent: call ``act``, observe a reward, call ``update``.

    ``lim2.LiM2(...)`` and the other functions in ``lim2.AGENTS`` make agents. Use an agent in one thread at a time.
    Only :meth:`snapshot` and :meth:`save` may be called while another thread updates it. Other threads decide with
    a snapshot.

    Parameters
    ----------
    algorithm
        The algorithm with all settings.

    Attributes
    ----------
    algorithm
        The algorithm and its settings.
    metadata
        A dict of JSON values for the user, saved with the agent.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=3, n_features=2, seed=0)
    >>> agent
    LinearTS(n_arms=3, n_features=2, seed=0)
    >>> arm = agent.act([0.5, 1.0])
    >>> agent.update([0.5, 1.0], arm, reward=1.0)
    >>> agent.rounds, agent.clone().rounds
    (1, 0)
    """

    def __init__(self, algorithm: Algorithm) -> None:
        arms = algorithm.arms
        if arms is not None and not isinstance(arms, str | list | tuple):
            if not isinstance(arms, Iterable) or isinstance(arms, bytes | set | frozenset):
                arm_names(arms)  # raises the error
            algorithm = replace(algorithm, arms=list(arms))
        algorithm = plain(algorithm)
        algorithm.validate()
        names, random = tuple(algorithm.names), Streams(algorithm.seed)
        self.core = Learner(algorithm, random, names, algorithm.init(len(names), random.init))

    # Learning

    def _note(self, x: NDArray[Any], arms: Iterable[Hashable]) -> None:
        """Take note of decisions, if their order matters to the algorithm."""
        core = self.core
        if core.algorithm.dated:
            for arm in arms:
                core.pending.add(x, arm, core.algorithm.newest(core.state.model))

    def update(
        self, context: ArrayLike, arm: Any, reward: ArrayLike, decided: int | None = None, *, batch: Size = 1
    ) -> None:
        """Learn the reward of an arm in a context, or many rewards: all of them or, if one fails, none.

        Updates may come in any order and long after ``act``.

        Parameters
        ----------
        context
            A 1-D array of n_features; for many rewards, one context per row.
        arm
            Name of the arm that was played; for many rewards, a sequence of names.
        reward
            Its reward; for many rewards, an array.
        decided
            When the decision was made: its number, or a time in whole seconds or smaller units; any whole numbers from
            1 that grow. ``AdaptiveTS`` tests for changes in this order. None: the agent recognises the latest decisions
            that it made itself by context and arm; all others count as made now.
        batch
            Number of rewards learned in one update. 1: one update per reward, the same as a loop.
            ``"auto"``: an eighth of the rounds so far, at most 256, or 1 if :attr:`batches` is False. Large batches are
            much faster, see ``docs/guides/batches.md``.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
        >>> agent.update([[1.0], [2.0], [3.0]], [0, 1, 0], [1.0, 0.0, 3.0], batch=3)
        >>> agent.rounds, agent.means([1.0]).round(3).tolist()
        (3, [1.062, 0.0])
        """
        core = self.core
        if type(reward) is not float and np.ndim(reward) and np.ndim(context) != core.axes:
            if decided is not None:
                raise ValueError("decided is for one reward: leave it out for many")
            self.learn_history(History(arm, reward, context), batch)
            return
        x, index = core.row(context), core.arm(arm)
        value = reward if type(reward) is float and abs(reward) < LARGEST else checked_reward(reward)
        number = positive_int("decided", decided) if decided is not None else None
        if number is None and core.algorithm.dated:
            number = core.pending.pop(x, core.state.names[index])
        core.learn(Lesson(x, index, value, number))

    def lessons(self, history: History, size: Size, progress: Progress | None = None) -> Iterator[Lesson]:
        """Yield the lessons of a history in batches, each once those before are learned."""
        contexts, arms, rewards = history.contexts, history.arms, history.rewards
        if history.raw is not None or contexts is None:
            message = "has only a raw context, and this agent learns from vectors: train a lim2.Bandit"
            contexts = history.column("contexts", message)
        if history.numbered:
            label = history.rows[0] if history.rows else "row 0"
            raise history.error(f"{label} chose among items without names, which cannot be arms: train an item agent")
        alone = isinstance(contexts, list) and isinstance(arms, list) and len(contexts) == len(arms) == 1
        xs = self.core.row(contexts[0])[None] if alone else self.core.rows(contexts)
        if isinstance(arms, str) or not isinstance(arms, Iterable) or (isinstance(arms, np.ndarray) and not arms.ndim):
            raise ValueError(f"arms must be a sequence of {len(xs)} arms, one per context, got {arms!r}")
        played = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
        if len(played) != len(xs):
            raise ValueError(f"arms must have {len(xs)} entries, one per context, got {len(played)}")
        values = checked_rewards(rewards, len(xs))
        if len(played) == 1:  # as `update` learns it
            decided = None if history.decided is None else history.decided[0]
            yield Lesson(xs[0], self.core.arm(played[0]), float(values[0]), decided)
            if progress is not None:
                progress(1, 1)
            return
        indices = np.fromiter(map(self.core.arm, played), dtype=np.intp, count=len(xs))
        whole = Lesson(xs, indices, values, history.decided)
        yield from parts(whole, size, self.rounds, progress)

    # Arms

    def add_arm_logged(
        self, name: Hashable, like: Hashable | None = None, features: Any = None, position: Position | None = None
    ) -> None:
        """Add an arm together with a position in a log."""
        if features is not None:
            raise ValueError("the arms of this agent have no features: leave out features=")
        self.core.add_arm(name, like, position)

    def remove_arm_logged(self, name: Hashable, position: Position | None = None) -> None:
        """Remove an arm together with a position in a log."""
        self.core.remove_arm(name, position)

    def add_arm(self, name: Hashable, like: Hashable | None = None) -> None:
        """Add an arm. It is first played ``initial_pulls`` times, like the other arms at the start.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            Name of an arm to copy: its posterior, its part of the network and, as far as there is room, its tuples in
            memory. None: the new arm starts from the prior. The posteriors of the other arms do not change.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update([1.0], "red", 1.0)
        >>> agent.add_arm("green", like="red")
        >>> agent.arms, agent.means([1.0]).round(3).tolist()
        (('red', 'blue', 'green'), [0.889, 0.0, 0.889])
        """
        self.core.add_arm(name, like)

    def remove_arm(self, name: Hashable) -> None:
        """Remove an arm: its posterior, its part of the network and its tuples in memory.

        Parameters
        ----------
        name
            Name of the arm.
        """
        self.core.remove_arm(name)

    # Copies

    def snapshot(self) -> Snapshot:
        """Return a read-only view of the current agent, which other threads can decide with while this one learns.

        Later changes to the agent do not change a snapshot. Taking one is cheap: only the next update copies the state.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
        >>> snapshot = agent.snapshot()
        >>> agent.update([1.0], 0, 1.0)
        >>> snapshot.means([1.0]).tolist(), agent.means([1.0]).round(3).tolist()
        ([0.0, 0.0], [0.889, 0.0])
        """
        return Snapshot.around(self.core.snapshot())

    def clone(self) -> "Agent":
        """Return a new, untrained agent with the same settings."""
        return Agent(self.algorithm)

    @property
    def pulls(self) -> Ints:
        """Number of updates per arm."""
        return self.core.state.pulls.copy()


def parts(whole: Lesson, size: Size, rounds: int, progress: Progress | None) -> Iterator[Lesson]:
    """Yield a lesson in batches, and tell how many rewards are learned."""
    n = len(whole.rewards)
    for rows in batches.slices(n, size, rounds):
        yield whole.part(rows)
        if progress is not None:
            progress(rows.stop, n)
