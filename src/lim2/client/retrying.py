"""Retries of a call: attempts, waits and the deadline, without any input or output."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from lim2.client.errors import UnreachableError
from lim2.client.exchange import Answer, Call

AGAIN = (429, 502, 503, 504)  # statuses of what may pass
FIRST, LONGEST = 0.05, 5.0  # seconds before the second try, and between later ones, at most


class Patience(NamedTuple):
    """Time limits of a client.

    Parameters
    ----------
    timeout
        Seconds that one attempt may take.
    deadline
        Seconds that all attempts of a call, and the waits between them, may take.
    """

    timeout: float
    deadline: float

    def checked(self) -> Patience:
        """Return the limits; raise a ValueError if they are invalid."""
        if not all(0 < value < 1e9 for value in self):
            raise ValueError(f"timeout and deadline must be positive seconds, got {self.timeout!r}, {self.deadline!r}")
        return self


class Tries:
    """The attempts of one call.

    Parameters
    ----------
    call
        The call.
    patience
        Time limits of the call.
    now
        Start time, in seconds of a monotonic clock.

    Examples
    --------
    >>> from lim2.client.exchange import Request
    >>> tries = Tries(Call(Request("GET", "/"), bytes), Patience(timeout=2.0, deadline=3.0), now=0.0)
    >>> tries.timeout(now=0.0), tries.timeout(now=2.5)
    (2.0, 0.5)
    >>> tries.wait(Answer(200, {}, b""), now=0.0) is None
    True
    >>> 0 <= tries.wait(Answer(503, {}, b""), now=0.0) <= 2 * FIRST
    True
    >>> tries.wait(Answer(429, {"retry-after": "1"}, b""), now=0.0)
    1.0
    """

    def __init__(self, call: Call[Any], patience: Patience, now: float) -> None:
        self._call, self._timeout, self._end = call, patience.timeout, now + patience.deadline
        self.failures = 0

    def timeout(self, now: float) -> float:
        """Return how many seconds the next attempt may take.

        Parameters
        ----------
        now
            Current time.
        """
        return max(min(self._timeout, self._end - now), 0.001)

    def wait(self, outcome: Answer | Exception, now: float) -> float | None:
        """Return how many seconds to wait before the next attempt; None if the answer is final.

        Parameters
        ----------
        outcome
            The answer, or the connection error.
        now
            Current time.

        Raises
        ------
        UnreachableError
            The error is final.
        """
        self.failures += 1
        pause = random.uniform(0.0, min(FIRST * 2.0 ** (self.failures - 1), LONGEST))
        if isinstance(outcome, Answer):
            if outcome.status not in AGAIN + self._call.again:
                return None
            pause = max(pause, _asked(outcome))
            return pause if now + pause < self._end else None
        if is_final(outcome) or now + pause >= self._end:
            raise self._unreachable(outcome) from outcome
        return pause

    def _unreachable(self, error: Exception) -> UnreachableError:
        request = self._call.request
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        tries = "1 try" if self.failures == 1 else f"{self.failures} tries"
        return UnreachableError(f"{request.method} {request.path} got no answer in {tries}: {what}")


def is_final(error: Exception) -> bool:
    """Return whether the next attempt would fail in the same way, as with an untrusted certificate.

    Parameters
    ----------
    error
        The connection error.
    """
    return type(error).__name__ == "SSLCertVerificationError"


def _asked(answer: Answer) -> float:
    """Return the seconds in the answer's Retry-After header; 0 if there is none, or if it is a date."""
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0
