"""Table 1 and the raw table of supplement B: eleven datasets, eight methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal

import numpy as np
import polars as pl

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import number, plus_minus
from lim2.experiments.stats import LEVEL, welch_p_of
from lim2.experiments.summary import Row
from lim2.experiments.tables import Tables
from lim2.paper import reasons, table_claims
from lim2.paper.experiment import Experiment, Scale, is_here, provenance_of
from lim2.paper.figures import scores
from lim2.paper.lines import Line, alike, averages_of, lines_of, medians_of
from lim2.paper.published import AVERAGE, DATASETS, MEDIAN, METHODS, RUNS
from lim2.paper.sections import Cell, Section, Sheet, judged
from lim2.paper.table_claims import SLOW

TEXT = tuple(method for method in METHODS if method in DATASETS[-1].raw)
QUICK_ROUNDS, QUICK_TEXT_ROUNDS = 1000, 200
ROUNDS = {"financial": 3713}  # where a dataset has fewer than the paper's 5,000

SCANIA = (
    "Scania Trucks: in the paper, the random policy earns 4,663 of 5,000. With two arms and rewards of 1 and 0 it can "
    "only earn about 2,500, as it does here. So raw rewards can be compared, but normalised scores cannot.",
)

Verdict = Literal["same", "better", "worse"]


def problems() -> list[str]:
    """Return the tabular datasets on this machine, in the paper's order; a part of one where the whole is missing."""
    names = []
    for row in DATASETS[:-1]:
        variants = (row.problem, "smartphones-66") if row.problem == "smartphones" else (row.problem,)
        names += [name for name in variants if is_here(name)][:1]
    return names


def plans(scale: Scale) -> list[Plan]:
    """Return what is run: the quick methods, the slow ones, and the text network where PyTorch is."""
    rounds = QUICK_ROUNDS if scale.quick else None
    tabular = problems()
    wanted = []
    if tabular:
        quick = [method for method in METHODS if method not in SLOW]
        wanted = [
            planned(tabular, quick, rounds=rounds, runs=scale.runs),
            planned(tabular, SLOW, rounds=rounds, runs=scale.slow_runs),
        ]
    return [*wanted, *text_plans(scale)]


def text_plans(scale: Scale) -> list[Plan]:
    """Return what is run of the text experiment; nothing where its reviews or PyTorch are missing."""
    if find_spec("torch") is None or not is_here("amazon"):
        return []
    rounds = QUICK_TEXT_ROUNDS if scale.quick else None
    return [planned(["amazon"], TEXT, rounds=rounds, runs=scale.slow_runs)]


def verdict(row: Row, mean: float, std: float) -> Verdict:
    """Compare a cell with the published one.

    "Same" is a difference of at most one published standard deviation, or one that is not
    significant in Welch's t-test.

    Examples
    --------
    >>> row = {"reward_mean": 4790.0, "reward_std": 40.0, "runs": 10}
    >>> verdict(row, 4820, 68), verdict(row, 4700, 20), verdict(row, 4900, 6)
    ('same', 'better', 'worse')
    """
    difference = row["reward_mean"] - mean
    ours = row["reward_mean"], row["reward_std"] or 0.0, row["runs"]
    if abs(difference) <= std or welch_p_of(ours, (mean, std, RUNS)) >= LEVEL:
        return "same"
    return "better" if difference > 0 else "worse"


def section(tables: Tables) -> Section | None:
    """Return the section on the whole table."""
    lines = lines_of(tables)
    if not lines or all(line.problem == "amazon" for line in lines):  # the text experiment alone
        return None
    played = {line.title for line in lines}
    absent = [row.title for row in DATASETS if row.title not in played]
    whole = _is_whole(lines)
    return Section(
        "table",
        "Real-world data: table 1 and its raw numbers",
        "Each method is run on each dataset for 5,000 rounds (Financial: 3,713). Each run has a different shuffle of "
        "the rows, which is the same for all methods. The hidden layer has 50 units; per arm, the buffer holds 100 "
        "tuples and a batch 16. The normalised score is (reward − random policy) / (best method − random policy)."
        if whole
        else "A quick version: too few rounds to compare with the paper's 5,000, so the paper's numbers are left out.",
        claims=judged(table_claims.claims(lines), whole=whole),
        criteria=judged(table_claims.criteria(lines), whole=whole),
        sheets=(_normalised(lines, published=whole), _raw(lines, published=whole)),
        figures=(scores(averages_of(lines), {line.title: line.scores for line in lines}, AVERAGE if whole else {}),),
        findings=_differences(lines) if whole else (),
        notes=[
            *(SCANIA if whole else ()),
            *([f"Not played here: {', '.join(absent)}."] if absent else []),
        ],
        provenance=provenance_of(tables),
    )


def text_section(tables: Tables) -> Section | None:
    """Return the section on the text experiment alone."""
    lines = [line for line in lines_of(tables) if line.problem == "amazon"]
    if not lines:
        return None
    whole = _is_whole(lines)
    return Section(
        "text",
        "Sentiment analysis from text with a convolutional network",
        "The contexts are reviews of mobile phones, trimmed or padded to 60 words. The arms are the numbers of stars. "
        "The network has random embeddings of 128 dimensions, 128 filters for each of the widths 3, 4 and 5, and a "
        "linear layer of 50 units.",
        claims=judged(table_claims.text_claims(lines[0]), whole=whole),
        sheets=(_raw(lines, published=whole, name="text"),),
        notes=list(tables.group("amazon", lines[0].methods[0])["notes"][0]),
        provenance=provenance_of(tables),
    )


def _is_whole(lines: Sequence[Line]) -> bool:
    """Say whether every run is as long as the paper's: claims are judged by no others."""
    return all(cell["rounds"] >= ROUNDS.get(line.problem, 5000) for line in lines for cell in line.cells.values())


def _normalised(lines: Sequence[Line], *, published: bool) -> Sheet:
    body: list[list[Cell]] = []
    tidy: list[tuple[object, ...]] = []

    def add(title: Cell, ours: Mapping[str, float], paper: Mapping[str, float], seeds: int | None) -> None:
        best = max(ours.values(), default=None)
        row = [title]
        for method in METHODS:
            below = f"paper {number(paper[method], 3)}" if published and method in paper else ""
            bold = method in ours and ours[method] == best
            row.append(Cell(number(ours.get(method), 3), below, bold=bold))
            tidy.append((title.text, method, seeds, ours.get(method), paper.get(method)))
        body.append(row)

    for line in lines:
        seeds = len(line.seeds)
        short = f", {seeds} of {RUNS} runs" if seeds < RUNS else ""
        add(Cell(line.title, f"{_shape(line)}{short}"), line.scores, line.published.normalized, seeds)
    add(Cell("Average"), averages_of(lines), AVERAGE, None)
    common = alike(lines, METHODS)
    if 0 < len(common) < len(lines):  # averages over different datasets do not compare
        without = [line.title for line in lines if line not in common]
        normalized = [line.published.normalized for line in common]
        paper = {
            m: float(np.mean([scores[m] for scores in normalized]))
            for m in METHODS
            if all(m in scores for scores in normalized)
        }
        add(Cell(f"Average without {', '.join(without)}"), averages_of(common), paper, None)
    add(Cell("Median"), medians_of(lines), MEDIAN, None)
    return Sheet(
        "normalised",
        "Normalised cumulative reward: 0 is the random policy, 1 the best method"
        + ("; the paper's score is below. " if published else ". ")
        + "A row uses only the shuffles that all its methods were run on, so that no method has easier ones. If there "
        f"are fewer than {RUNS}, the row gives their number.",
        ["", *METHODS],
        body,
        pl.DataFrame(tidy, schema=["dataset", "method", "seeds", "ours", "paper"], orient="row"),
    )


def _shape(line: Line) -> str:
    """Return the size of the problem, and the paper's where it differs."""
    own, paper = str(line.features), line.published.features
    return f"d = {own}{'' if own == paper else f' (paper {paper})'}, {line.published.arms} arms"


def _raw(lines: Sequence[Line], *, published: bool, name: str = "raw") -> Sheet:
    body: list[list[Cell]] = []
    tidy: list[tuple[object, ...]] = []
    shown = [m for m in METHODS if any(m in line.cells for line in lines)]
    for line in lines:
        best = max(line.cells[method]["reward_mean"] for method in line.methods)
        row = [Cell(line.title, line.problem)]
        for method in shown:
            ours, published_value = line.cells.get(method), line.published.raw.get(method)
            below = f"paper {plus_minus(*published_value, 0)}" if published_value and published else ""
            if ours is None:
                row.append(Cell("–", below))
                continue
            tested = published and ours["runs"] > 1 and line.title not in reasons.INCOMPARABLE
            mark = verdict(ours, *published_value) if published_value and tested else ""
            text = f"{plus_minus(ours['reward_mean'], ours['reward_std'], 0)} ({ours['runs']})"
            row.append(Cell(text, below, mark, bold=ours["reward_mean"] == best))
            mean, std = published_value or (None, None)
            tidy.append((line.title, method, ours["runs"], ours["reward_mean"], ours["reward_std"], mean, std, mark))
        body.append(row)
    return Sheet(
        name,
        "Cumulative reward, mean ± standard deviation (runs)"
        + (
            "; below it, the paper's over 10 runs. Marked cells are better or worse than published: by more "
            "than one published standard deviation, and significantly (Welch's test, 5%). Single runs are not tested."
            if published
            else "."
        ),
        ["", *shown],
        body,
        pl.DataFrame(
            tidy,
            schema=["dataset", "method", "runs", "mean", "std", "paper_mean", "paper_std", "verdict"],
            orient="row",
        ),
    )


def _differences(lines: Sequence[Line]) -> Sequence[str]:
    """Return a sentence for each method or dataset that differs from the paper, with the reason where it is known."""
    differing: dict[str, list[str]] = {}
    for line in lines:
        for method in line.methods:
            cell, published = line.cells[method], line.published.raw.get(method)
            if line.title in reasons.INCOMPARABLE or published is None or cell["runs"] < 2:
                continue
            what = verdict(cell, *published)
            if what != "same":
                differing.setdefault(f"{what} {reasons.why(line.title, method)}", []).append(f"{line.title} / {method}")
    sentences = [f"{', '.join(cells)}: {why}" for why, cells in sorted(differing.items())]
    return [*sentences, *(f"{title}: {why}" for title, why in reasons.INCOMPARABLE.items())]


TABLE = Experiment("table", "Real-world data", "table", plans, section)
TEXT_EXPERIMENT = Experiment("text", "Text", "table", text_plans, text_section)
