"""Catastrophic forgetting on Statlog: instantaneous regret with a memory of 100 tuples."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import number, p_value
from lim2.experiments.stats import LEVEL, band, paired_p
from lim2.experiments.tables import Tables
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, is_whole, provenance_of, runs_of
from lim2.paper.sections import Cell, Claim, Section, Sheet, judged

Array = NDArray[np.float64]

ROUNDS, MEMORY, PHASE, BATCHES = 4000, 100, 400, 800
SMOOTH = 3  # points of a run's curve, 20 rounds each, that are averaged for the figure
FULL, ONLINE, PHASES, NTK, LINEAR, LIM2 = (
    "full memory", "limited, online", "limited, phases", "NTK", "LinearTS", "LiM2",
)  # fmt: skip
# In the paper's figure: blue, red, purple, green, brown and orange.
AGENTS = {
    FULL: ("NeuralLinear", {}),
    LIM2: ("LiM2", {"buffer": MEMORY}),
    NTK: ("NeuralLinearNTK", {"buffer": MEMORY}),
    LINEAR: ("LinearTS", {}),
    ONLINE: ("NeuralLinearNaive", {"buffer": MEMORY}),
    PHASES: ("NeuralLinearNaive", {"buffer": MEMORY, "train_every": PHASE, "steps": BATCHES}),
}
SOURCE, SHOWN = "section 4.1, figure 2", ("figure-forgetting", "table-forgetting")
SHADES = {FULL: 2, LIM2: 0, NTK: 3, LINEAR: 1, ONLINE: 5, PHASES: 4}


def plans(scale: Scale) -> list[Plan]:
    """Return what is run."""
    return [planned(["statlog"], AGENTS, rounds=ROUNDS, runs=min(scale.runs, 2) if scale.quick else scale.runs)]


def regrets(tables: Tables, agent: str) -> tuple[Array, Array]:
    """Return the ends of the intervals of a run's curve, and the mean regret of a round in each, (runs, intervals)."""
    group = tables.group("statlog", agent)
    at = np.concatenate([[0], np.array(group["curve_round"][0].to_list())])
    reached = np.array(group["curve_regret"].to_list())
    total = np.concatenate([np.zeros((len(reached), 1)), reached], axis=1)
    return at[1:], np.diff(total, axis=1) / np.diff(at)


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    agents = [agent for agent in AGENTS if agent in tables.agents]
    if not agents:
        return None
    curves, rows, tidy = [], [], []
    for agent in agents:
        at, instant = regrets(tables, agent)
        smooth = np.apply_along_axis(np.convolve, 1, instant, np.ones(SMOOTH) / SMOOTH, "valid")
        middle = at[SMOOTH // 2 : len(at) - (SMOOTH - 1) // 2].astype(float)
        curves.append((agent, SHADES[agent], middle, *band(smooth)))
        early, late = instant[:, at <= ROUNDS // 5].mean(), instant[:, at > ROUNDS // 2].mean()
        before, after = around(tables, agent)
        total = tables.group("statlog", agent)["regret"]
        rows.append(
            [
                Cell(agent),
                Cell(number(float(early), 4)),
                Cell(number(float(late), 4)),
                Cell(number(float(before.mean()), 4)),
                Cell(number(float(after.mean()), 4)),
                Cell(number(float(np.mean(total.to_numpy())), 0)),
            ]
        )
        tidy += [(agent, int(x), float(y), float(h)) for x, y, h in zip(*curves[-1][2:], strict=True)]
    return Section(
        "forgetting",
        "Catastrophic forgetting",
        f"Statlog, {ROUNDS:,} rounds, {runs_of(tables)} of each method. The limited versions have a memory of {MEMORY} "
        f"tuples in total. “Phases” trains like full memory: {BATCHES} batches every {PHASE} rounds. All other limited "
        "versions train on one batch in every round.",
        claims=judged(_claims(tables), whole=is_whole(tables, ROUNDS)) if set(AGENTS) <= set(agents) else (),
        sheets=[
            Sheet(
                "forgetting",
                f"Mean regret per round: in the first {ROUNDS // 5} rounds, in the second half, and in the 100 rounds "
                f"before and after each multiple of {PHASE} (from the second on). The last column is the total regret.",
                ["", f"first {ROUNDS // 5}", "second half", "before", "after", "total"],
                rows,
                pl.DataFrame(tidy, schema=["method", "round", "regret", "half_width"], orient="row"),
            )
        ],
        figures=[figures.forgetting(curves, PHASE, ROUNDS)],
        provenance=provenance_of(tables),
    )


def around(tables: Tables, agent: str) -> tuple[Array, Array]:
    """Return each run's mean regret in the 100 rounds before, and after, the phases end (from the second on)."""
    at, instant = regrets(tables, agent)
    since = at % PHASE
    usable = (at > PHASE + 100) & (at <= ROUNDS - 100)
    before = instant[:, usable & ((since > PHASE - 100) | (since == 0))].mean(axis=1)
    after = instant[:, usable & (since > 0) & (since <= 100)].mean(axis=1)
    return before, after


def _claims(tables: Tables) -> list[Claim]:
    def late(agent: str) -> Array:
        at, instant = regrets(tables, agent)
        mean: Array = instant[:, at > ROUNDS // 2].mean(axis=1)
        return mean

    def whole(agent: str) -> Array:
        mean: Array = tables.group("statlog", agent)["regret"].to_numpy() / ROUNDS
        return mean

    def early(agent: str) -> Array:
        at, instant = regrets(tables, agent)
        mean: Array = instant[:, at <= ROUNDS // 5].mean(axis=1)
        return mean

    def lower(text: str, a: Array, b: Array, names: tuple[str, str], when: str) -> Claim:
        p = paired_p(a, b)
        holds = None if p is None else bool(a.mean() < b.mean() and p < LEVEL)
        values = f"{names[0]} {number(float(a.mean()), 4)}, {names[1]} {number(float(b.mean()), 4)}"
        return Claim(text, holds, f"regret per round {when}: {values}; p {p_value(p)}", SOURCE, SHOWN)

    before, after = around(tables, PHASES)
    lim2_before, lim2_after = around(tables, LIM2)
    p = paired_p(lim2_before, lim2_after)
    bump = float(lim2_after.mean() - lim2_before.mean()), float(after.mean() - before.mean())
    slow = lower("", early(LIM2), early(NTK), (LIM2, NTK), f"in the first {ROUNDS // 5} rounds")
    well = lower("", late(NTK), late(ONLINE), (NTK, ONLINE), "in the second half")
    return [
        lower(
            "Full memory outperforms the linear method: the dataset needs a nonlinear function.",
            late(FULL), late(LINEAR), (FULL, LINEAR), "in the second half",
        ),
        Claim(
            "LiM2 performs as well as full memory.",
            bool(whole(LIM2).mean() <= 1.1 * whole(FULL).mean()),
            f"regret per round over all {ROUNDS:,} rounds: LiM2 {number(float(whole(LIM2).mean()), 4)}, full memory "
            f"{number(float(whole(FULL).mean()), 4)}; p {p_value(paired_p(whole(LIM2), whole(FULL)))} (up to a tenth "
            f"more counts as equally good); in the second half: LiM2 {number(float(late(LIM2).mean()), 4)}, full "
            f"memory {number(float(late(FULL).mean()), 4)}; p {p_value(paired_p(late(LIM2), late(FULL)))}",
            SOURCE, SHOWN,
        ),
        lower(
            "Trained online, limited memory without matching performs consistently worse than the others.",
            late(LIM2), late(ONLINE), (LIM2, ONLINE), "in the second half",
        ),
        lower(
            "Trained in phases, limited memory without matching forgets: its regret peaks after every training phase.",
            before, after, ("before", "after"), f"in the 100 rounds before and after training, every {PHASE} rounds",
        ),
        Claim(
            "With likelihood matching, the peaks are significantly reduced: LiM2 is resilient to forgetting.",
            bool(bump[0] < 0.25 * bump[1]),
            f"at the multiples of {PHASE} rounds, regret rises by {number(bump[0], 4)} (p {p_value(p)}) with LiM2 and "
            f"by {number(bump[1], 4)} with phases; less than a quarter of the latter counts as reduced",
            f"abstract; {SOURCE}", SHOWN,
        ),
        Claim(
            "The NTK version performs well but starts slowly.",
            None if slow.holds is None else bool(slow.holds and well.holds),
            f"{slow.evidence}; {well.evidence}",
            SOURCE, SHOWN,
        ),
    ]  # fmt: skip


FORGETTING = Experiment("forgetting", "Catastrophic forgetting", "forgetting", plans, section)
