"""Recompute only some of the memory's features in a round, for networks that are slow over the whole memory."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.state import Array, Count, Ints


class Cache(NamedTuple):
    """Cached features of every slot of a memory, as last computed."""

    stamps: Annotated[Ints, "cached"]  # of the tuple that each was computed of
    features: Annotated[Array, "cached g"]
    rounds: Count
    turn: Count  # the slot that is due next


@dataclass(frozen=True)
class Recompute:
    """Slots to recompute in a round: new tuples, those that are needed, and those that are due.

    Due is, every ``every`` rounds, a share of the memory, slot after slot in turn.

    Parameters
    ----------
    every
        Rounds between the parts that are due.
    share
        Share of the memory that is due then, above 0 and at most 1.

    Examples
    --------
    >>> recompute, cache = Recompute(every=2, share=0.5), None
    >>> stamps = np.zeros(0, dtype=np.intp)
    >>> for t in range(4):
    ...     stamps = np.append(stamps, t)
    ...     compute = lambda contexts: np.full((len(contexts), 1), float(t))
    ...     cache = recompute(cache, stamps, np.zeros((len(stamps), 1)), compute)
    ...     print(cache.features[:, 0].tolist())
    [0.0]
    [1.0, 1.0]
    [1.0, 1.0, 2.0]
    [1.0, 3.0, 3.0, 3.0]
    """

    every: int
    share: float

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"recompute_share must be above 0 and at most 1, got {self.share!r}")

    def __call__(
        self,
        cache: Cache | None,
        stamps: Ints,
        contexts: NDArray[Any],
        compute: Callable[[NDArray[Any]], Array],
        needed: Ints | None = None,
    ) -> Cache:
        """Return the features of everything in memory, in slot order, and what the next round needs.

        Parameters
        ----------
        cache
            Result of the previous round; None in the first.
        stamps, contexts
            Stamps and contexts of all slots.
        compute
            Gives the features of rows of contexts.
        needed
            Slots that must be up to date.
        """
        rounds, turn, held = (cache.rounds if cache else 0) + 1, cache.turn if cache else 0, len(stamps)
        anew, features = _known(cache, stamps)
        if needed is not None:
            anew[needed] = True
        if rounds % self.every == 0:
            due = math.ceil(self.share * held)
            anew[(turn + np.arange(due)) % held] = True
            turn = (turn + due) % held
        if anew.all():
            features = compute(contexts)
        else:
            features[anew] = compute(contexts[anew])
        return Cache(stamps.copy(), features, rounds, turn)


def _known(cache: Cache | None, stamps: Ints) -> tuple[NDArray[np.bool_], Array]:
    """Return the slots with new tuples, and a copy of the cached features in the order of the memory."""
    if cache is None or not len(cache.stamps):
        return np.ones(len(stamps), dtype=bool), np.empty((len(stamps), 0))
    order = cache.stamps.argsort()
    found = order[np.minimum(cache.stamps.searchsorted(stamps, sorter=order), len(order) - 1)]
    return cache.stamps[found] != stamps, cache.features[found]
