"""Settings on which all who use a log must agree: they are in the log itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from lim2.log.errors import LogError
from lim2.log.store import Tables

Aggregate = Literal["first", "last", "sum", "mean", "max"]


class Settings(NamedTuple):
    """When decisions expire, what they earn then, and what several rewards make; see `DecisionLog`."""

    expire_after: float | None = None
    default_reward: float | None = None
    aggregate: Aggregate | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())

    @property
    def collects(self) -> bool:
        """Whether rewards are collected until a decision expires; if not, its first reward settles it."""
        return self.aggregate not in (None, "first")

    def combined(self, rewards: Sequence[float]) -> float:
        """Return what several rewards of one decision make.

        Parameters
        ----------
        rewards
            In the order in which they came; at least one.

        Examples
        --------
        >>> [Settings(60.0, None, how).combined([1.0, 5.0, 3.0]) for how in ("first", "last", "sum", "mean", "max")]
        [1.0, 3.0, 9.0, 3.0, 5.0]
        """
        if self.aggregate in ("sum", "mean"):
            total = sum(rewards)
            return total / len(rewards) if self.aggregate == "mean" else total
        if self.aggregate == "max":
            return max(rewards)
        return rewards[-1 if self.aggregate == "last" else 0]


def checked_settings(expire_after: float | None, default_reward: float | None, aggregate: Aggregate | None) -> Settings:
    """Return settings, or say why they do not go together.

    Parameters
    ----------
    expire_after
        Seconds; None: never.
    default_reward, aggregate
        See `DecisionLog`.
    """
    if default_reward is not None and expire_after is None:
        raise ValueError("default_reward is given when a decision expires: say when, by expire_after=")
    known = get_args(Aggregate)
    if aggregate is not None and aggregate not in known:
        raise ValueError(f"aggregate must be one of {', '.join(map(repr, known))}, or None, got {aggregate!r}")
    settings = Settings(expire_after, default_reward, aggregate)
    if settings.collects and expire_after is None:
        raise ValueError(
            f"aggregate={aggregate!r} collects rewards until the decision expires: say when, by expire_after="
        )
    return settings


def read_settings(tables: Tables) -> Settings:
    """Return the settings of a log; if nobody has set any, decisions do not expire.

    Parameters
    ----------
    tables
        The log's.
    """
    text = tables.get("settings")
    return Settings() if text is None else Settings(*json.loads(text))


def write_settings(tables: Tables, settings: Settings) -> None:
    """Set them for everybody.

    Parameters
    ----------
    tables
        The log's.
    settings
        The new ones.
    """
    tables.put("settings", json.dumps(settings))


def agree(tables: Tables, given: Settings) -> None:
    """Set settings that nobody has set; raise LogError if somebody has set others.

    Parameters
    ----------
    tables
        The log's.
    given
        Of one who opens it; if none are given, those of the log hold.
    """
    known = read_settings(tables)
    if given in (Settings(), known):
        return
    if known != Settings():
        raise LogError(
            f"the log is opened with {given}, but others use it with {known}: leave these out to use it as it is, or "
            f"change them for everybody by log.configure(...)"
        )
    write_settings(tables, given)
