"""Feedback: delays of rewards, and batches of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any

from lim2.experiments.names import PlanError


@dataclass(frozen=True)
class Feedback:
    """Delay and batch of the rewards.

    Rounds are counted from 1 and played in blocks of `batch`; the last block may be shorter. All decisions of a block
    are made by the agent as it was at the start of the block. After the block that ends with round c, the rewards of
    all rounds t with t + `delay` <= c that were not learned before are learned, one by one, in the order of the rounds.
    What has not arrived after the last round is not learned.

    Parameters
    ----------
    delay
        Number of rounds before a reward arrives; 0: it arrives when its block ends.
    batch
        Number of decisions before rewards are learned; 1: rewards are learned after every decision.

    Examples
    --------
    >>> Feedback(delay=2, batch=4).block_end(5, rounds=10)
    8
    """

    delay: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        for name, value, least in (("delay", self.delay, 0), ("batch", self.batch, 1)):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise PlanError(f"{name} must be a whole number of rounds, at least {least}, not {value!r}")
            object.__setattr__(self, name, int(value))  # of NumPy's numbers, too

    @property
    def text(self) -> str:
        """Short description of delay and batch; empty if every reward is learned at once.

        Examples
        --------
        >>> Feedback(delay=100, batch=64).text, Feedback(batch=64).text, Feedback().text
        ('delay 100, batch 64', 'batch 64', '')
        """
        parts = [f"delay {self.delay}"] * (self.delay != 0) + [f"batch {self.batch}"] * (self.batch != 1)
        return ", ".join(parts)

    @property
    def name(self) -> str:
        """Short description that is never empty, for comparisons."""
        return self.text or "no delay"

    @property
    def meaning(self) -> str:
        """Description in sentences; empty if every reward is learned at once."""
        sentences = []
        if self.delay:
            sentences.append(f"The reward of a round arrives {self.delay:,} rounds later.")
        if self.batch > 1:
            sentences.append(f"Decisions are made in batches of {self.batch:,}; rewards are learned between batches.")
        return " ".join(sentences)

    @property
    def changes(self) -> dict[str, int]:
        """Entries for a run's identity and file; empty if every reward is learned at once."""
        return {"delay": self.delay, "batch": self.batch} if self.text else {}

    def labelled(self, problem: str) -> str:
        """Return the label of a problem that is played so.

        Examples
        --------
        >>> Feedback(delay=100).labelled("wheel"), Feedback().labelled("wheel")
        ('wheel (delay 100)', 'wheel')
        """
        return f"{problem} ({self.text})" if self.text else problem

    def unlabelled(self, label: str) -> str:
        """Return the problem's own label, of which `labelled` made another."""
        return label.removesuffix(f" ({self.text})")

    def block_end(self, count: int, rounds: int) -> int:
        """Return the last round of the block that has the round of that number, of so many in all."""
        return min(rounds, -(-count // self.batch) * self.batch)

    def check(self, rounds: int, problem: str) -> None:
        """Raise a `PlanError` when no reward would be learned before the last decision."""
        last_block = (rounds - 1) // self.batch * self.batch  # so many rounds are played before it
        if self.text and self.delay >= last_block:
            raise PlanError(
                f"{self.text}: no reward would be learned before the last decision of {rounds} rounds of {problem!r}; "
                "play more rounds, or use a shorter delay or a smaller batch"
            )


IMMEDIATE = Feedback()


def grid(delay: int | Sequence[int], batch: int | Sequence[int]) -> tuple[Feedback, ...]:
    """Return every delay with every batch.

    Examples
    --------
    >>> [feedback.name for feedback in grid([0, 100], [1, 64])]
    ['no delay', 'delay 100', 'batch 64', 'delay 100, batch 64']
    """
    delays, batches = _several("delay", delay), _several("batch", batch)
    return tuple(Feedback(late, size) for size, late in product(batches, delays))


def _several(name: str, values: Any) -> list[Any]:
    several = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    if not several:
        raise PlanError(f"{name} has no number; give one, or several to compare")
    for value in several:
        if several.count(value) > 1:
            raise PlanError(f"{name} has {value!r} twice; name every number once")
    return several
