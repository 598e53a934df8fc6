"""Retries of a call: attempts, waits and the deadline, without any input or output."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from lim2.client.errors import UnreachableError
from lim2.client.exchange import Answer, Call

RETRIED_STATUSES = (429, 502, 503, 504)
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 5.0


class TimeLimits(NamedTuple):
    """Time limits of a client."""

    timeout: float
    deadline: float

    def checked(self) -> TimeLimits:
        """Return the limits; raise a ValueError if they are invalid."""
        if not all(0 < value < 1e9 for value in self):
            raise ValueError(f"timeout and deadline must be positive seconds, got {self.timeout!r}, {self.deadline!r}")
        return self


class Tries:
    """The attempts of one call.

    Examples
    --------
    >>> from lim2.client.exchange import Request
    >>> tries = Tries(Call(Request("GET", "/"), bytes), TimeLimits(timeout=2.0, deadline=3.0), now=0.0)
    >>> tries.timeout(now=0.0), tries.timeout(now=2.5)
    (2.0, 0.5)
    >>> tries.wait(Answer(200, {}, b""), now=0.0) is None
    True
    >>> 0 <= tries.wait(Answer(503, {}, b""), now=0.0) <= 2 * FIRST_PAUSE_SECONDS
    True
    >>> tries.wait(Answer(429, {"retry-after": "1"}, b""), now=0.0)
    1.0
    """

    def __init__(self, call: Call[Any], limits: TimeLimits, now: float) -> None:
        self._call, self._timeout, self._end = call, limits.timeout, now + limits.deadline
        self.failures = 0

    def timeout(self, now: float) -> float:
        """Return how many seconds the next attempt may take."""
        return max(min(self._timeout, self._end - now), 0.001)

    def wait(self, outcome: Answer | Exception, now: float) -> float | None:
        """Return how many seconds to wait before the next attempt; None if the answer is final."""
        self.failures += 1
        pause = random.uniform(0.0, min(FIRST_PAUSE_SECONDS * 2.0 ** (self.failures - 1), MAX_PAUSE_SECONDS))
        if isinstance(outcome, Answer):
            if outcome.status not in RETRIED_STATUSES + self._call.retried_statuses:
                return None
            pause = max(pause, _retry_after(outcome))
            return pause if now + pause < self._end else None
        if is_final(outcome) or now + pause >= self._end:
            raise self._unreachable(outcome) from outcome
        return pause

    def _unreachable(self, error: Exception) -> UnreachableError:
        request = self._call.request
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        tries = "1 try" if self.failures == 1 else f"{self.failures} tries"
        return UnreachableError(f"{request.method} {request.path} got no answer in {tries}: {reason}")


def is_final(error: Exception) -> bool:
    """Return whether the next attempt would fail in the same way, as with an untrusted certificate."""
    return type(error).__name__ == "SSLCertVerificationError"


def _retry_after(answer: Answer) -> float:
    """Return the seconds in the answer's Retry-After header; 0 if there is none, or if it is a date."""
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0
