"""Settings stored in the log, the same for everyone who uses it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from lim2.log.errors import LogError
from lim2.log.store import Tables

Aggregate = Literal["first", "last", "sum", "mean", "max"]


class Settings(NamedTuple):
    """Stored settings of a log; see `DecisionLog`."""

    expire_after: float | None = None
    default_reward: float | None = None
    aggregate: Aggregate | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())

    @property
    def collects(self) -> bool:
        """Whether rewards are collected until a decision expires; otherwise the first reward settles it."""
        return self.aggregate not in (None, "first")

    def combined(self, rewards: Sequence[float]) -> float:
        """Return the combined reward of a decision.

        Examples
        --------
        >>> [Settings(60.0, None, name).combined([1.0, 5.0, 3.0]) for name in ("first", "last", "sum", "mean", "max")]
        [1.0, 3.0, 9.0, 3.0, 5.0]
        """
        if self.aggregate in ("sum", "mean"):
            total = sum(rewards)
            return total / len(rewards) if self.aggregate == "mean" else total
        if self.aggregate == "max":
            return max(rewards)
        return rewards[-1 if self.aggregate == "last" else 0]


def checked_settings(expire_after: float | None, default_reward: float | None, aggregate: Aggregate | None) -> Settings:
    """Return settings; raise a ValueError if they are inconsistent."""
    if default_reward is not None and expire_after is None:
        raise ValueError("default_reward applies when a decision expires: give expire_after= as well")
    aggregates = get_args(Aggregate)
    if aggregate is not None and aggregate not in aggregates:
        raise ValueError(f"aggregate must be one of {', '.join(map(repr, aggregates))}, or None, got {aggregate!r}")
    settings = Settings(expire_after, default_reward, aggregate)
    if settings.collects and expire_after is None:
        raise ValueError(
            f"aggregate={aggregate!r} collects rewards until the decision expires: give expire_after= as well"
        )
    return settings


def read_settings(tables: Tables) -> Settings:
    """Return the stored settings of a log; by default, decisions do not expire."""
    text = tables.get("settings")
    return Settings() if text is None else Settings(*json.loads(text))


def write_settings(tables: Tables, settings: Settings) -> None:
    """Store settings for everyone who uses the log."""
    tables.put("settings", json.dumps(settings))


def agree(tables: Tables, settings: Settings) -> None:
    """Store settings if there are none; raise a LogError if different ones are stored."""
    stored = read_settings(tables)
    if settings in (Settings(), stored):
        return
    if stored != Settings():
        raise LogError(
            f"the log was opened with {settings}, but its stored settings are {stored}: leave the settings out to use "
            f"the stored ones, or change them for everyone with log.configure(...)"
        )
    write_settings(tables, settings)
