"""Two sets of results side by side: what became better, worse, faster, smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import polars as pl

from lim2.experiments.names import PlanError
from lim2.experiments.stats import LEVEL, holm, paired_p, welch_p
from lim2.experiments.store import Store
from lim2.experiments.summary import Row, feedback_of, row_of, summarize
from lim2.experiments.tables import paired

Verdict = Literal["better", "worse", "same", "unclear"]


@dataclass(frozen=True)
class Difference:
    """A (problem, agent) in two sets of results."""

    problem: str
    agent: str
    first: Row
    second: Row
    paired: bool  # shuffle by shuffle; else the sets have no shuffle in common
    pairs: int
    difference: float  # mean reward of the second minus that of the first
    p: float | None  # paired or Welch's t-test with Holm's correction; None without a test
    identical: bool  # bit for bit

    @property
    def verdict(self) -> Verdict:
        """Verdict on the second."""
        if self.identical:
            return "same"
        if self.p is None or self.p >= LEVEL:
            return "unclear"
        return "better" if self.difference > 0 else "worse"

    @property
    def time_ratio(self) -> float:
        """Time of a round of the second over that of the first."""
        return self.second["us_per_round"] / self.first["us_per_round"]

    @property
    def memory_ratio(self) -> float | None:
        """Memory of the second over that of the first."""
        before, after = self.first["peak_mb"], self.second["peak_mb"]
        return after / before if before and after is not None else None

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        ratios = {"verdict": self.verdict, "time_ratio": self.time_ratio, "memory_ratio": self.memory_ratio}
        return asdict(self) | ratios


def compared(first: Store, second: Store) -> list[Difference]:
    """Compare what two sets of results have in common."""
    before, after = first.frames()[0], second.frames()[0]
    differences = list(_differences(before, after))
    if not differences:
        rows = summarize(before), summarize(after)
        has = [sorted({f"{row['problem']} / {row['agent']}" for row in part}) for part in rows]
        raise PlanError(
            f"{first.folder} and {second.folder} have no (problem, agent) in common: "
            f"{', '.join(has[0]) or 'nothing'} there, {', '.join(has[1]) or 'nothing'} here{_hint(*rows)}"
        )
    corrected = holm([difference.p for difference in differences])
    return [Difference(**{**vars(d), "p": p}) for d, p in zip(differences, corrected, strict=True)]


def _hint(before: Sequence[Row], after: Sequence[Row]) -> str:
    """Return a hint for comparing results that differ only in delay or batch."""
    a, b = ({feedback_of(row).unlabelled(row["problem"]) for row in rows} for rows in (before, after))
    return ". The report of one folder compares delays and batches: lim2 bench --delay 0,100" if a & b else ""


def _differences(before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Difference]:
    summaries = {(row["problem"], row["agent"]): row for row in summarize(after)}
    for row in summarize(before):
        where = (row["problem"], row["agent"])
        if where in summaries:
            yield _difference(row, summaries[where], _runs(before, where), _runs(after, where))


def _difference(first: Row, second: Row, a: pl.DataFrame, b: pl.DataFrame) -> Difference:
    x, y = paired(a, b)
    if len(x) and _same_draws(a, b):
        same = bool((x == y).all())
        p = None if same else paired_p(y, x)  # what is equal needs no test, and must not weaken those of the others
        before, after = (
            row_of(a.filter(pl.col("seed").is_in(b["seed"]))),
            row_of(b.filter(pl.col("seed").is_in(a["seed"]))),
        )
        return Difference(*_where(first), before, after, True, len(x), float((y - x).mean()), p, same)
    gain = second["reward_mean"] - first["reward_mean"]
    p = welch_p(b["reward"].to_numpy(), a["reward"].to_numpy()) if first["rounds"] == second["rounds"] else None
    return Difference(*_where(first), first, second, False, min(len(a), len(b)), gain, p, False)


def _where(row: Row) -> tuple[str, str]:
    return row["problem"], row["agent"]


def _runs(runs: pl.DataFrame, where: tuple[str, str]) -> pl.DataFrame:
    return runs.filter(pl.col("problem") == where[0], pl.col("agent") == where[1])


def _same_draws(a: pl.DataFrame, b: pl.DataFrame) -> bool:
    """Return whether equal seeds give equal problems: the same source, settings and rounds."""
    what = ("problem_source", "problem_settings", "rounds")
    return a.select(what).unique().equals(b.select(what).unique())


def only_in_one(first: Store, second: Store) -> tuple[list[str], list[str]]:
    """Return the results that only the first, and that only the second has."""
    a, b = ([f"{row['problem']} / {row['agent']}" for row in summarize(store.frames()[0])] for store in (first, second))
    return [name for name in a if name not in b], [name for name in b if name not in a]


def worse(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences in which the second is significantly worse."""
    return [difference for difference in differences if difference.verdict == "worse"]
