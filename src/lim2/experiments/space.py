"""Search spaces: derived from an agent's settings and their defaults, or given in a suite."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lim2.experiments.names import GIVEN, PlanError, Spec, check_settings, maker_of, nearest


@dataclass(frozen=True)
class Range:
    """Numbers from one to another.

    Parameters
    ----------
    low, high
        Both included; whole numbers if both are.
    log
        Whether to look at their logarithms: as much between 0.01 and 0.1 as between 0.1 and 1.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
                raise ValueError(f"low and high must be numbers, not {end!r}")
        if not self.low < self.high:
            raise ValueError(f"low must be below high, not {self.low!r} and {self.high!r}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 with log = true, not {self.low!r}")

    @property
    def whole(self) -> bool:
        """Whether it is one of whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def examples(self) -> tuple[Any, ...]:
        """Some of its values, to be tried."""
        return self.low, self.high


@dataclass(frozen=True)
class Choice:
    """Some values.

    Parameters
    ----------
    values
        JSON values.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ValueError(f"choices must be at least two values, not {list(self.values)!r}")

    @property
    def examples(self) -> tuple[Any, ...]:
        """Its values, to be tried."""
        return self.values


Dimension = Range | Choice
Space = Mapping[str, Dimension]

BOTH = Choice((False, True))

# Settings whose range does not follow from their default.
RANGES: Mapping[str, Dimension] = {
    "a0": Range(1.0, 50.0, log=True),
    "b0": Range(1.0, 50.0, log=True),
    "change_threshold": Range(1.0, 10.0, log=True),
    "exploration": Choice(("thompson", "ucb")),
    "initial_pulls": Range(1, 8, log=True),
    "matching": Choice(("batch", "solve", None)),
    "noise": Choice(("history", "buffer")),
    "prior_precision": Range(0.01, 10.0, log=True),
    "refresh": Choice(("played", "all")),
    # Vowpal Wabbit's
    "gamma_scale": Range(1.0, 1000.0, log=True),
    "gamma_exponent": Range(0.1, 0.9),
}

# Settings that are not searched: what they cost, or which data they are for, is the user's to say.
FIXED: Mapping[str, str] = {
    "arms": "the arms' names",
    "batch": "time: it grows with the number of arms by itself",
    "buffer": "memory: it grows with the number of arms by itself",
    "covariance": "memory and time",
    "epsilon": "for logs that are evaluated",
    "forget": "for problems that change",
    "history": "memory and time",
    "iterations": "time",
    "options": "free text",
    "representation": "another network",
    "reward_range": "known of a problem, not chosen",
    "scaled": "for raw data; name a variant with it",
    "standardize": "for raw data",
    "training": "time",
}


def space_of(agent: Spec, own: Mapping[str, Any] | None = None) -> Space:
    """Return the space in which to search an agent's settings.

    Settings that the agent was given already are not searched.

    Parameters
    ----------
    agent
        The agent.
    own
        What a suite's file says, by setting: ``{"low": 0.01, "high": 1.0, "log": True}`` or ``{"choices": [1, 2]}``;
        None to derive it.

    Examples
    --------
    >>> from lim2.experiments.names import agent_named
    >>> space_of(agent_named("AdaptiveTS"))["learning_rate"]
    Range(low=0.002, high=0.2, log=True)
    """
    if own is not None:
        space: Space = {name: _given(agent.label, name, value) for name, value in own.items()}
        check_settings(agent.with_settings(dict.fromkeys(space)), "agent")
        for name in space:
            if name in agent.settings:
                raise PlanError(
                    f"{agent.label} has the setting {name} already; take it out of the space, or the variant"
                )
    else:
        derived = {name: _derived(name, default) for name, default in defaults_of(agent).items()}
        space = {name: dimension for name, dimension in derived.items() if dimension and _taken(agent, name, dimension)}
    if not space:
        raise PlanError(f"{agent.label} has no settings to tune; give some in [tune.space.{agent.label}]")
    return space


def defaults_of(agent: Spec) -> dict[str, Any]:
    """Return the settings of an agent that it was not given, with their defaults.

    Parameters
    ----------
    agent
        The agent.
    """
    if agent.source.startswith("vw:"):
        from lim2.experiments.peers import defaults

        known: dict[str, Any] = defaults(agent.source)
    else:
        parameters = inspect.signature(maker_of(agent)).parameters.values()
        known = {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD and p.default is not p.empty}
    return {name: value for name, value in known.items() if name not in (*agent.settings, *GIVEN["agent"])}


def _derived(name: str, default: Any) -> Dimension | None:
    """Return the range of a setting: known, or from its default; None where there is none.

    >>> _derived("learning_rate", 0.1), _derived("steps", 1), _derived("whatever", "text")
    (Range(low=0.01, high=1.0, log=True), Range(low=1, high=4, log=True), None)
    """
    if name == "epsilon" and default:  # that of Vowpal Wabbit, which explores by it
        return Range(0.005, 0.5, log=True)
    if name in FIXED:
        return None
    if name in RANGES:
        return RANGES[name]
    if name == "hidden":  # the widths of layers, or the width of the one layer
        return Choice(([25], [50], [100])) if isinstance(default, Sequence) else Choice((50, 100, 200))
    if name == "train_every" and default is None:
        return Range(1, 16, log=True)
    if isinstance(default, bool):
        return BOTH
    if isinstance(default, int) and default > 0:
        return Range(max(1, default // 4), 4 * default, log=True)
    if isinstance(default, float) and default > 0 and math.isfinite(default):
        return Range(_round(default / 10), _round(default * 10), log=True)
    return None


def _round(number: float) -> float:
    return float(f"{number:.6g}")


def _taken(agent: Spec, name: str, dimension: Dimension) -> bool:
    """Return whether an agent accepts all values of a setting together with its other settings."""
    maker = maker_of(agent)
    try:
        for value in dimension.examples:
            maker(2, 2, **agent.settings, **{name: value})
    except (ValueError, TypeError):
        return False
    return True


def _given(agent: str, name: str, value: Any) -> Dimension:
    """Return the range that a suite's file gives."""
    where = f"[tune.space.{agent}] {name}"
    if not isinstance(value, Mapping) or not ({"choices"} == set(value) or {"low", "high"} <= set(value)):
        raise PlanError(
            f"{where} must be {{ low = 0.01, high = 1.0, log = true }} or {{ choices = [1, 2] }}, not {value!r}"
        )
    for key in value:
        if key not in ("low", "high", "log", "choices"):
            raise PlanError(f"{where} has an unknown entry {key!r}; {nearest(key, ('low', 'high', 'log'))}")
    try:
        return Choice(tuple(value["choices"])) if "choices" in value else Range(**value)
    except (ValueError, TypeError) as error:
        raise PlanError(f"{where}: {error}") from error
