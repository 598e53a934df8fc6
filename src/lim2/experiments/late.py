"""Rounds with delay or in batches: decisions first, rewards later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lim2.experiments.arms import Array, check_arm
from lim2.experiments.feedback import Feedback
from lim2.problems import ItemProblem, Problem

Arguments = tuple[Any, ...]


class Late:
    """Plays a problem block by block, and remembers what was played until its rewards arrive.

    Parameters
    ----------
    agent
        Agent with methods ``act`` and ``update``.
    problem
        Problem that the agent plays.
    feedback
        Delay and batch of the rewards.
    """

    def __init__(self, agent: Any, problem: Problem | ItemProblem, feedback: Feedback) -> None:
        self.agent, self.feedback = agent, feedback
        self.asked, self.outcome = _of_items(problem) if isinstance(problem, ItemProblem) else _of_arms(problem)
        self.arms: list[Any] = []  # of all rounds so far
        self.limits = limits_of(problem)

    def __call__(self, start: int, stop: int) -> tuple[list[int], list[int], list[int]]:
        """Play whole blocks; return the arms, and the nanoseconds of every call of ``act`` and of ``update``."""
        act, update, clock = self.agent.act, self.agent.update, time.perf_counter_ns
        arms, delay = self.arms, self.feedback.delay
        act_ns: list[int] = []
        update_ns: list[int] = []
        while start < stop:
            end = min(start + self.feedback.batch, stop)
            for t in range(start, end):
                given = self.asked(t)
                began = clock()
                arm = act(*given)
                act_ns.append(clock() - began)
                arms.append(arm)
            for t in range(max(start - delay, 0), max(end - delay, 0)):
                check_arm(arms[t], t + 1, int(self.limits[t]))
                given = self.outcome(t, arms[t])
                began = clock()
                update(*given)
                update_ns.append(clock() - began)
            start = end
        return arms[-len(act_ns) :], act_ns, update_ns


def limits_of(problem: Problem | ItemProblem) -> Array:
    """Return the number of arms or items of each round.

    Parameters
    ----------
    problem
        Problem that is played.
    """
    return problem.n_candidates if isinstance(problem, ItemProblem) else np.full(problem.rounds, problem.n_arms)


def _of_arms(problem: Any) -> tuple[Callable[[int], Arguments], Callable[[int, int], Arguments]]:
    """Return the arguments of ``act`` and ``update`` in a round, counted from 0."""
    contexts, rewards = problem.contexts, problem.rewards

    def asked(t: int) -> Arguments:
        return (contexts[t],)

    def outcome(t: int, arm: int) -> Arguments:
        return contexts[t], arm, float(rewards[t, arm])

    return asked, outcome


def _of_items(problem: Any) -> tuple[Callable[[int], Arguments], Callable[[int, int], Arguments]]:
    """Return these arguments for a problem with items."""
    contexts, candidates, rewards, offsets = problem.contexts, problem.candidates, problem.rewards, problem.offsets

    def asked(t: int) -> Arguments:
        return contexts[t], candidates[offsets[t] : offsets[t + 1]]

    def outcome(t: int, row: int) -> Arguments:
        own = slice(offsets[t], offsets[t + 1])
        return contexts[t], candidates[own][row], float(rewards[own][row])

    return asked, outcome
