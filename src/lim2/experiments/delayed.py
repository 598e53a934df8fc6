"""Rounds with contexts of any form, batches of decisions and delayed rewards; and checks of what agents return."""

from __future__ import annotations

import heapq
import operator
import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lim2.experiments.feedback import Feedback
from lim2.problems import ItemProblem, Problem

Arguments = tuple[Any, ...]
Array = NDArray[np.int64]


class NoArmError(ValueError):
    """The result of ``act`` is not an arm."""


def check_arm(arm: Any, number: int, count: int) -> None:
    """Raise a `NoArmError` unless it is an arm.

    Examples
    --------
    >>> check_arm("left", 7, 3)
    Traceback (most recent call last):
        ...
    lim2.experiments.delayed.NoArmError: act returned 'left', a str, in round 7; expected a whole number from 0 to 2
    """
    try:
        index = None if isinstance(arm, bool | np.bool_) else operator.index(arm)
    except TypeError:
        index = None
    if index is None or not 0 <= index < count:
        kind = "" if index is not None else f", a {type(arm).__name__},"
        raise NoArmError(f"act returned {arm!r}{kind} in round {number}; expected a whole number from 0 to {count - 1}")


def checked(chosen: list[Any], start: int, limits: Array) -> Array:
    """Return the arms of some rounds as an array; raise a `NoArmError` for the first that is none."""
    try:
        arms = np.asarray(chosen)
    except ValueError:  # of different shapes
        arms = np.empty(0)
    if arms.dtype.kind in "iu" and arms.ndim == 1 and ((arms >= 0) & (arms < limits)).all():
        return arms
    for i, arm in enumerate(chosen):
        check_arm(arm, start + i + 1, int(limits[i]))
    return np.array([operator.index(arm) for arm in chosen])


class Exchange(Protocol):
    """Arguments of an agent's decisions and updates, round by round, counted from 0.

    ``method`` is the name of the agent's method that decides.
    """

    method: str

    def asked(self, t: int) -> Arguments:
        """Return the arguments of the decision."""
        ...

    def arm(self, t: int, answer: Any) -> int:
        """Return the index of the arm that an answer chooses."""
        ...

    def outcome(self, t: int, answer: Any, arm: int) -> Arguments:
        """Return the arguments of ``update``."""
        ...


class Vectors:
    """Exchange for arms: ``act(context)``, ``update(context, arm, reward)``."""

    method = "act"

    def __init__(self, problem: Problem) -> None:
        self.contexts, self.rewards, self.n_arms = problem.contexts, problem.rewards, problem.n_arms

    def asked(self, t: int) -> Arguments:
        """Return the arguments of ``act``."""
        return (self.contexts[t],)

    def arm(self, t: int, answer: Any) -> int:
        """Return the answer, which is the index."""
        check_arm(answer, t + 1, self.n_arms)
        return int(answer)

    def outcome(self, t: int, answer: Any, arm: int) -> Arguments:
        """Return the arguments of ``update``."""
        return self.contexts[t], answer, float(self.rewards[t, arm])


class ItemVectors:
    """Exchange for items: ``act(context, items)``, ``update(context, item, reward)``."""

    method = "act"

    def __init__(self, problem: ItemProblem) -> None:
        self.problem = problem

    def asked(self, t: int) -> Arguments:
        """Return the arguments of ``act``."""
        return self.problem.contexts[t], self.problem.items(t)

    def arm(self, t: int, answer: Any) -> int:
        """Return the answer, which is the row of the item."""
        rows = self.problem.rows(t)
        check_arm(answer, t + 1, rows.stop - rows.start)
        return int(answer)

    def outcome(self, t: int, answer: Any, arm: int) -> Arguments:  # noqa: ARG002
        """Return the arguments of ``update``."""
        row = self.problem.rows(t).start + arm
        return self.problem.contexts[t], self.problem.candidates[row], float(self.problem.rewards[row])


class Dictionaries:
    """Exchange for raw contexts: ``decide(context)`` or ``decide(context, items)``, ``update(decision, reward)``."""

    method = "decide"

    def __init__(self, problem: Problem | ItemProblem) -> None:
        self.problem = problem

    def asked(self, t: int) -> Arguments:
        """Return the arguments of ``decide``."""
        if isinstance(self.problem, ItemProblem):
            return self.problem.raw(t)
        return (dict(self.problem.raw_contexts[t]),)

    def arm(self, t: int, answer: Any) -> int:
        """Return the index of the arm or item that the decision names."""
        problem = self.problem
        names = problem.names(t) if isinstance(problem, ItemProblem) else problem.arm_names
        name = getattr(answer, "arm", None)
        if name not in names:
            raise NoArmError(
                f"decide returned {answer!r} in round {t + 1}; expected a decision whose attribute arm is one of "
                f"{', '.join(map(repr, names[:5]))}"
            )
        return names.index(name)

    def outcome(self, t: int, answer: Any, arm: int) -> Arguments:
        """Return the arguments of ``update``."""
        if isinstance(self.problem, ItemProblem):
            return answer, float(self.problem.rewards[self.problem.rows(t).start + arm])
        return answer, float(self.problem.rewards[t, arm])


def exchange_of(problem: Problem | ItemProblem) -> Exchange:
    """Return the exchange between a problem and its agents."""
    if problem.form == "dictionaries":
        return Dictionaries(problem)
    return ItemVectors(problem) if isinstance(problem, ItemProblem) else Vectors(problem)


class Delayed:
    """Plays a problem block by block, and remembers what was decided until its reward arrives.

    The delay of a reward is the sum of the feedback's and the problem's.
    """

    def __init__(self, agent: Any, problem: Problem | ItemProblem, feedback: Feedback) -> None:
        self.problem, self.feedback, self.exchange = problem, feedback, exchange_of(problem)
        self.decide, self.update = getattr(agent, self.exchange.method), agent.update
        self.waiting: list[tuple[int, int, Any, int]] = []  # a heap: when a reward is due, round, answer, arm

    def __call__(self, start: int, stop: int) -> tuple[list[int], list[int], list[int], list[int]]:
        """Play whole blocks.

        Return the arms, the nanoseconds of every decision and of every update, and the number of rounds after which
        each reward was learned.
        """
        clock, exchange = time.perf_counter_ns, self.exchange
        arms: list[int] = []
        act_ns: list[int] = []
        update_ns: list[int] = []
        learned_after: list[int] = []
        while start < stop:
            end = min(start + self.feedback.batch, stop)
            for t in range(start, end):
                question = exchange.asked(t)
                began = clock()
                answer = self.decide(*question)
                act_ns.append(clock() - began)
                arm = exchange.arm(t, answer)
                arms.append(arm)
                heapq.heappush(self.waiting, (t + self._delay(t, arm), t, answer, arm))
            while self.waiting and self.waiting[0][0] < end:
                _, t, answer, arm = heapq.heappop(self.waiting)
                lesson = exchange.outcome(t, answer, arm)
                began = clock()
                self.update(*lesson)
                update_ns.append(clock() - began)
                learned_after.append(end)
            start = end
        return arms, act_ns, update_ns, learned_after

    def _delay(self, t: int, arm: int) -> int:
        """Return the number of further decisions after which the reward of a round is known."""
        problem = self.problem
        if problem.delays is None:
            return self.feedback.delay
        place = problem.rows(t).start + arm if isinstance(problem, ItemProblem) else (t, arm)
        return self.feedback.delay + int(problem.delays[place])


def limits_of(problem: Problem | ItemProblem) -> Array:
    """Return the number of arms or items of each round."""
    return problem.n_candidates if isinstance(problem, ItemProblem) else np.full(problem.rounds, problem.n_arms)
