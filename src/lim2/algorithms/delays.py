"""When decisions were made whose rewards have come, and how long these rewards may still be under way."""

from typing import Any, NamedTuple

import numpy as np

from lim2.state import Count, Ints


class Delays(NamedTuple):
    """The largest stamp of a decision, and the delays of rewards behind it."""

    newest: Count
    longest: Count  # since the last refit
    before: Count  # between the last two refits

    @property
    def closed(self) -> int:
        """The first stamp from which on rewards may still be under way."""
        return self.newest + 1 - max(self.longest, self.before)


def stamped_one(delays: Delays, decided: int | None) -> tuple[int, Delays]:
    """Return what :func:`stamped` returns, for one tuple: in a fifth of the time."""
    newest, longest, before = delays
    if decided is None:
        return newest + 1, Delays(newest + 1, longest, before)
    stamp, head = int(decided), max(newest, int(decided))
    return stamp, Delays(head, max(longest, head - stamp if stamp > 0 else 0), before)


def stamped(delays: Delays, k: int, decided: Any) -> tuple[Ints, Delays]:
    """Return the stamps of new tuples, and the delays with them.

    A tuple without a known time of decision comes after all others; 0 stands for an unknown place in their order.

    Examples
    --------
    >>> stamps, delays = stamped(Delays(7, 0, 0), 2, None)
    >>> stamps.tolist(), delays
    ([8, 9], Delays(newest=9, longest=0, before=0))
    >>> stamped(delays, 1, [6])[1], stamped_one(delays, 6)[1].closed
    (Delays(newest=9, longest=3, before=0), 7)
    """
    newest, longest, before = delays
    stamps = np.arange(newest + 1, newest + 1 + k) if decided is None else np.atleast_1d(decided).astype(np.intp)
    heads = np.maximum(np.maximum.accumulate(stamps), newest)
    late = int((heads - stamps)[stamps > 0].max(initial=0))
    return stamps, Delays(int(heads[-1]), max(longest, late), before)
