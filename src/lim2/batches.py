"""Sizes of batches: fixed, or growing with the number of rewards learned.

Some algorithms learn a batch in one update (``Algorithm.learn_many``). That is much faster than one update per reward,
and costs a little reward, because learning is delayed. Early rewards matter most, so growing batches are at most an
eighth of the rewards learned before.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from lim2.checks import positive_int

Size = int | Literal["auto"]
Progress = Callable[[int, int], object]  # gets how many rewards are learned, and how many there are

SHARE, LARGEST = 8, 256  # a growing batch is at most an eighth of the rounds before it, and at most so many


def growing(rounds: int) -> int:
    """Return the size of the next batch: an eighth of the rounds so far, from 1 to 256.

    Examples
    --------
    >>> [growing(rounds) for rounds in (0, 15, 16, 100, 2048, 10**6)]
    [1, 1, 2, 12, 256, 256]
    """
    return min(max(rounds // SHARE, 1), LARGEST)


def slices(n: int, batch: Size, rounds: int) -> Iterator[slice]:
    """Yield the batches of n rewards for an agent that has learned ``rounds`` rewards.

    Examples
    --------
    >>> [(piece.start, piece.stop) for piece in slices(40, "auto", rounds=64)]
    [(0, 8), (8, 17), (17, 27), (27, 38), (38, 40)]
    >>> [(piece.start, piece.stop) for piece in slices(40, 16, rounds=64)]
    [(0, 16), (16, 32), (32, 40)]
    """
    start = 0
    while start < n:
        stop = min(start + (growing(rounds + start) if batch == "auto" else batch), n)
        yield slice(start, stop)
        start = stop


def checked(batch: Size, bears: bool, refusal: str) -> Size:
    """Return the size of the batches; raise a ValueError if it is invalid or not supported."""
    if isinstance(batch, str):
        if batch != "auto":
            raise ValueError(f'batch must be "auto" or a whole number, at least 1, got {batch!r}')
        return "auto" if bears else 1
    size = positive_int("batch", batch)
    if size > 1 and not bears:
        raise ValueError(f"{refusal}, got batch={size}")
    return size
