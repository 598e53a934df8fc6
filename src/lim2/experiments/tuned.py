"""Result of a search: the settings, their score, and their test on held-out problems."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lim2.experiments.stats import LEAST, LEVEL


@dataclass(frozen=True)
class Judged:
    """The best settings against the defaults, on problems and seeds that the search has not seen.

    Parameters
    ----------
    problems, runs
        Numbers of problems and runs.
    default, tuned
        Mean scores, as of `Tuned`.
    difference, half
        Mean over problems of the paired difference, and the half width of its 95% interval, which is about these
        problems.
    better, worse
        Numbers of problems on which the mean reward is higher, lower.
    p
        p-value of Wilcoxon's signed-rank test over problems, for problems like these.
    """

    problems: int
    runs: int
    default: float
    tuned: float
    difference: float
    half: float
    better: int
    worse: int
    p: float

    @property
    def verdict(self) -> str:
        """Verdict in a sentence: by Wilcoxon's test, or by the interval if there are few problems."""
        few = self.problems < LEAST
        if abs(self.difference) <= self.half if few else self.p >= LEVEL:
            return "No difference is shown on the evaluation part: the defaults may stay."
        how = "better" if self.difference > 0 else "worse"
        where = f"these {self.problems} problems; too few to speak of others" if few else "the evaluation part"
        return f"The tuned settings are significantly {how} than the defaults on {where}."


@dataclass(frozen=True)
class Tuned:
    """Result of a search.

    Parameters
    ----------
    agent
        Label of the agent.
    settings
        The best settings found; empty when no trial was better than the defaults.
    trials
        Number of trials.
    default, best
        Scores on the tuning part: the share, from the random policy to the best arm of every round, that was earned;
        the mean over problems. That of the best is optimistic: it is the highest of many.
    judged
        The evaluation; None when the defaults are the best.
    """

    agent: str
    settings: Mapping[str, Any]
    trials: int
    default: float
    best: float
    judged: Judged | None

    @property
    def line(self) -> str:
        """The settings, to be pasted behind ``lim2 bench``."""
        return set_line(self.agent, self.settings)


def set_line(agent: str, settings: Mapping[str, Any]) -> str:
    """Return settings as options of ``lim2 bench``.

    Parameters
    ----------
    agent
        Label of the agent.
    settings
        Settings by name.

    Examples
    --------
    >>> set_line("LiM2", {"hidden": [100, 50], "matching": "solve", "intercept": True})
    "--set 'LiM2.hidden=[100, 50]' --set LiM2.matching=solve --set LiM2.intercept=True"
    """
    pairs = [f"{agent}.{key}={value if isinstance(value, str) else repr(value)}" for key, value in settings.items()]
    return " ".join(f"--set {shlex.quote(pair)}" for pair in pairs)


def summary(found: Tuned, out: Path) -> str:
    """Return the result of a search as text.

    Parameters
    ----------
    found
        Result of the search.
    out
        The folder of the results.
    """
    gain = found.best - found.default
    lines = [
        "Score: the share, from the random policy to the best arm of every round, that was earned; mean over problems.",
        f"Tuning part: defaults {found.default:.4f}, best of {found.trials} trials {found.best:.4f}.",
    ]
    judged = found.judged
    if judged is None:
        return "\n".join([*lines, "No trial was better than the defaults: there is nothing to set."])
    lines += [
        f"Evaluation part, which the search has not seen ({judged.problems} problems, {judged.runs} runs each): "
        f"defaults {judged.default:.4f}, tuned {judged.tuned:.4f}.",
        f"The gain is {gain:+.4f} on the tuning part, which is optimistic as the best of many, and "
        f"{judged.difference:+.4f} ± {judged.half:.4f} (95%, over runs) on the evaluation part: better on "
        f"{judged.better}, worse on {judged.worse} of {judged.problems} problems, Wilcoxon's p {judged.p:.3f}.",
        judged.verdict,
        f"Results: {out / 'evaluation'}",
        "Best settings, for lim2 bench:",
        f"  {found.line}",
    ]
    return "\n".join(lines)
