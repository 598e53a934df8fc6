"""Dates and times: hour and weekday as points on circles, and the age, which is how long before 1970 a time is.

Hour and weekday are local: 10 in the morning is 10 in the morning, whatever the offset. The age is absolute. A time
without an offset is UTC; a date is its midnight in UTC, and has no hour.
"""

import math
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple

DAY = 86400.0
KINDS = ("hour sin", "hour cos", "weekday sin", "weekday cos", "age")  # of the columns that a time has
SIZE = len(KINDS)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _circle(n: int) -> tuple[tuple[float, float], ...]:
    angles = [2.0 * math.pi * place / n for place in range(n)]
    return tuple((math.sin(angle), math.cos(angle)) for angle in angles)


_MINUTES, _WEEK = _circle(24 * 60), _circle(7)
_LONGEST = 40  # characters of a time


class Instant(NamedTuple):
    """A time: its age, and its points on the circles of the day and the week."""

    age: float  # days before 1970: a later time has a smaller age
    circles: tuple[float, float, float, float]


def instant(value: date | datetime) -> Instant:
    """Return a date or time as an instant.

    Examples
    --------
    >>> at = instant(datetime(2026, 11, 16, 6))  # a Monday
    >>> at.age, [round(x, 3) for x in at.circles]
    (-20773.25, [1.0, 0.0, 0.0, 1.0])
    >>> instant(date(2026, 11, 16)).circles
    (0.0, 0.0, 0.0, 1.0)
    """
    week = _WEEK[value.weekday()]
    if not isinstance(value, datetime):
        return Instant(719163.0 - value.toordinal(), (0.0, 0.0, *week))
    zone = value.tzinfo
    aware = value if zone is UTC or (zone and value.utcoffset() is not None) else value.replace(tzinfo=UTC)
    return Instant((_EPOCH - aware).total_seconds() / DAY, _MINUTES[value.hour * 60 + value.minute] + week)


def read(text: str) -> Instant | None:
    """Return the instant given by a string in ISO format; None for any other string.

    Examples
    --------
    >>> read("2026-11-16T10:00:00+02:00") == read("2026-11-16T10:00:00Z")._replace(age=-20773 - 8 / 24)
    True
    >>> read("2026-11-16").circles, read("new"), read("2026-99-99")
    ((0.0, 0.0, 0.0, 1.0), None, None)
    """
    if not 10 <= len(text) <= _LONGEST or text[4] != "-" or text[7] != "-":
        return None
    return _parsed(text)


@lru_cache(maxsize=4096)  # items have the same dates in every decision
def _parsed(text: str) -> Instant | None:
    try:
        return instant(date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text))
    except ValueError:  # no time after all, but a category that looks like one
        return None
