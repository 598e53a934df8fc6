"""Times and durations as Personalizer writes them."""

import re
from datetime import UTC, datetime

DURATION = re.compile(r"P(?!$)(?:(\d{1,6})D)?(?:T(?!$)(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?")


def seconds_of(text: str) -> float | None:
    """Return the seconds of an ISO 8601 duration; None if it is none.

    Parameters
    ----------
    text
        The duration.

    Examples
    --------
    >>> seconds_of("PT10M"), seconds_of("P1DT2H0.5S"), seconds_of("10 minutes")
    (600.0, 93600.5, None)
    """
    found = DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def duration_of(seconds: float) -> str:
    """Return seconds as an ISO 8601 duration.

    Parameters
    ----------
    seconds
        Not negative.

    Examples
    --------
    >>> duration_of(600), duration_of(93600.5), duration_of(0)
    ('PT10M', 'P1DT2H0.5S', 'PT0S')
    """
    whole, rest = divmod(float(seconds), 1)
    days, left = divmod(int(whole), 86400)
    hours, left = divmod(left, 3600)
    minutes, left = divmod(left, 60)
    last = f"{left + rest:g}S" if left or rest else ""
    within = f"{f'{hours}H' if hours else ''}{f'{minutes}M' if minutes else ''}{last}"
    text = f"{f'{days}D' if days else ''}{f'T{within}' if within else ''}"
    return f"P{text}" if text else "PT0S"


def moment_of(text: str) -> float | None:
    """Return the seconds of an ISO 8601 time; None if it is none. Without an offset it is UTC.

    Parameters
    ----------
    text
        The time.

    Examples
    --------
    >>> moment_of("1970-01-01T00:01:00Z"), moment_of("yesterday")
    (60.0, None)
    """
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def time_of(seconds: float) -> str:
    """Return seconds as an ISO 8601 time.

    Parameters
    ----------
    seconds
        Since 1970.

    Examples
    --------
    >>> time_of(60.5)
    '1970-01-01T00:01:00.500000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="auto").replace("+00:00", "Z")
