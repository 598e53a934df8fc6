"""`python -m benchmarks.past_the_paper FOLDER...`: AdaptiveTS against every other method, paired by shuffle.

Reads the runs in folders of `lim2 bench` (the suite `benchmarks/suites/past-the-paper.toml`, seeds 1000 to 1009; Amazon
with the seeds of the paper's table) and of `python -m benchmarks.tuned`, adds them to
`docs/results/past-the-paper/runs.csv`, and writes beside it every paired comparison (`against.csv`) and the figure
`rivals`. `python -m benchmarks.statements --write` puts table and numbers into the pages. Without folders: from what is
kept.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from lim2.experiments.report.colours import shade
from lim2.experiments.report.figures import FAINT, INK, STYLE, margins, write_figure
from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import p_value
from lim2.experiments.stats import LEVEL, holm, paired_p, pooled_interval

OURS = "AdaptiveTS"
PAPER = (
    "LinearTS",
    "NeuralLinear",
    "LiM2",
    "NeuralLinearMM",
    "NeuralLinearNaive",
    "NeuralUCB",
    "NeuralTS",
    "NeuralLinearNTK",
)
INTERCEPT, TUNED = "LiM2 intercept", "vw:tuned"  # rivals with settings of their own
OWN = (*PAPER, INTERCEPT)
PEERS = ("vw:squarecb", "vw:epsilon", "vw:adf-squarecb", TUNED)
SIDES = {"own": OWN, "peers": PEERS}
DATASETS = (
    "statlog", "covertype", "jester", "financial", "adult", "mushroom", "smartphones-66", "scania", "epileptic",
    "census", "amazon",
)  # fmt: skip
# Of those, where settings of AdaptiveTS were chosen: on other seeds, but on these rows.
CHOSEN_ON = ("statlog", "covertype", "jester", "financial", "adult", "mushroom", "smartphones-66", "epileptic")
GROUPS = {"The paper's datasets": DATASETS, "Synthetic": ("wheel", "drifting", "risky")}
# By name of a problem, what `lim2 bench` calls it; all but Amazon, whose contexts are texts.
PROBLEMS = {
    **{name: name for name in DATASETS if name != "amazon"},
    "wheel": "wheel",
    "drifting": "drifting",
    "risky": "benchmarks.risky:risky",
}
ROUNDS = 5000
RUNS = 10  # that are asked for of everybody
FAR_BEHIND = -0.25  # the figure's left end; what is further behind is given in figures
COLUMNS = ("problem", "agent", "seed", "rounds", "reward")
OUT = Path(__file__).parents[1] / "docs" / "results" / "past-the-paper"


def read_runs(folders: list[Path]) -> pl.DataFrame:
    """Return one row per run of a rival, or of AdaptiveTS as it is; what is in several folders counts once."""
    kept = [pl.read_csv(file) for folder in folders for file in folder.glob("runs.csv")]
    files = sorted(file for folder in folders for file in (folder / "runs").glob("*.parquet"))
    tables = [pl.read_parquet(file, columns=[*COLUMNS, "agent_settings", "status"]) for file in files]
    known = (pl.col("agent_settings") == "{}") | pl.col("agent").is_in([INTERCEPT, TUNED])
    ended = known & (pl.col("status") == "ok")
    tables = [table.filter(ended).select(COLUMNS) for table in tables]
    if not kept + tables:
        raise SystemExit(f"no runs in {', '.join(map(str, folders))}: give folders that `lim2 bench` has written")
    runs = pl.concat(kept + tables)
    runs = runs.with_columns(pl.col("problem").str.split(":").list.last())  # benchmarks.risky:risky
    return runs.unique(["problem", "agent", "seed", "rounds"], keep="last").sort("problem", "agent", "seed")


def against(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each (problem, other agent), over the shuffles that both have played."""
    rows: list[dict[str, Any]] = []
    for group, problem in ((group, problem) for group, problems in GROUPS.items() for problem in problems):
        here = runs.filter(pl.col("problem") == problem)
        ours = here.filter(pl.col("agent") == OURS)
        uniform = here.filter(pl.col("agent") == "Uniform").select("seed", "rounds", uniform=pl.col("reward"))
        for agent in (*OWN, *PEERS):
            pairs = ours.join(here.filter(pl.col("agent") == agent), on=["seed", "rounds"])
            pairs = pairs.join(uniform, on=["seed", "rounds"])
            if pairs.is_empty():
                continue
            mine, others = pairs["reward"].to_numpy(), pairs["reward_right"].to_numpy()
            difference, half = pooled_interval([mine - others])
            span = max(mine.mean(), others.mean()) - float(pairs["uniform"].to_numpy().mean())
            rows.append(
                {
                    "group": group,
                    "problem": problem,
                    "agent": agent,
                    "pairs": len(pairs),
                    "ours": round(float(mine.mean()), 4),
                    "other": round(float(others.mean()), 4),
                    "difference": round(difference, 4),
                    "half_width": round(half, 4),
                    "of_span": round(difference / span, 4),
                    "half_of_span": round(half / span, 4),
                    "wins": int(np.sum(mine > others)),
                    "p": paired_p(mine, others),
                }
            )
    return pl.DataFrame(rows)


def strongest(comparisons: pl.DataFrame, agents: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return by problem the comparison with the one of these agents that comes out best against ours."""
    rows = comparisons.filter(pl.col("agent").is_in(agents))
    return {
        str(problem): group.sort("difference").row(0, named=True)
        for (problem,), group in rows.group_by("problem", maintain_order=True)
    }


def judged(comparisons: pl.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Return by side and problem the comparison with the strongest rival, with p corrected and a verdict.

    Holm's correction is over all of them, of both sides. "ahead" and "behind" are significant after it.
    """
    found = {side: strongest(comparisons, agents) for side, agents in SIDES.items()}
    rows = [row for side in found.values() for row in side.values()]
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["corrected"] = p
        clear = p is not None and p < LEVEL
        row["verdict"] = ("ahead" if row["difference"] > 0 else "behind") if clear else "undecided"
    return found


def table_of(comparisons: pl.DataFrame) -> str:
    """Return the summary as Markdown: for each problem the strongest of the paper's methods and of Vowpal Wabbit."""
    sides = judged(comparisons)
    head = ["problem", "settings chosen on it", "AdaptiveTS", "best of the paper's methods and LiM2 with intercept"]
    head += ["shared runs", "difference", "difference, share of span", "p", "verdict"]
    head += ["best of Vowpal Wabbit", "shared runs", "difference", "p", "verdict"]
    rows = []
    for problem in (problem for problems in GROUPS.values() for problem in problems):
        best, peer = sides["own"].get(problem), sides["peers"].get(problem)
        if best is None:
            continue
        chosen = "no" if problem in DATASETS and problem not in CHOSEN_ON else "yes"
        cells = [problem, chosen, f"{best['ours']:,.0f}"]
        cells += [*_rival(best), f"{best['of_span']:+.1%}", p_value(best["corrected"]), best["verdict"]]
        cells += [*_rival(peer), *(["–", "–"] if peer is None else [p_value(peer["corrected"]), peer["verdict"]])]
        rows.append(cells)
    return "\n".join(table(head, rows))


def _rival(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return ["–"] * 3
    difference = f"{row['difference']:+,.0f} ± {row['half_width']:,.0f}"
    pairs = f"{row['pairs']} of {RUNS}" if row["pairs"] < RUNS else str(row["pairs"])
    return [f"{row['other']:,.0f} {row['agent'].removeprefix('vw:')}", pairs, difference]


def played_table(comparisons: pl.DataFrame) -> str:
    """Return as Markdown on how many of AdaptiveTS's shuffles each rival was run."""
    pairs = {(row["problem"], row["agent"]): row["pairs"] for row in comparisons.iter_rows(named=True)}
    problems = [problem for problems in GROUPS.values() for problem in problems]
    rows = [[problem, *(str(pairs.get((problem, agent), "–")) for agent in (*OWN, *PEERS))] for problem in problems]
    return "\n".join(table(["problem", *OWN, *PEERS], rows))


def draw(comparisons: pl.DataFrame) -> Figure:
    """Draw, problem by problem, how far AdaptiveTS is ahead of its strongest rivals."""
    kinds = [
        ("best of the paper's methods and LiM2 with intercept", OWN, 0, "o"),
        ("best of Vowpal Wabbit", PEERS, 1, "D"),
    ]
    problems = list(comparisons["problem"].unique(maintain_order=True))
    groups = dict(comparisons.select("problem", "group").unique().iter_rows())
    place = {problem: y + list(GROUPS).index(groups[problem]) for y, problem in enumerate(problems)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.28 * len(problems) + 2.4))
        axes = figure.add_subplot()
        axes.axvline(0.0, color=INK, linewidth=1.0)
        for label, agents, colour, marker in kinds:
            rows = strongest(comparisons, agents)
            shown = [problem for problem in problems if problem in rows]
            axes.errorbar(
                [rows[problem]["of_span"] for problem in shown],
                [place[problem] + 0.12 * (2 * colour - 1) for problem in shown],
                xerr=[rows[problem]["half_of_span"] for problem in shown],
                fmt=marker,
                color=shade(colour),
                markersize=4.5,
                linewidth=1.2,
                label=label,
            )
            for problem in shown:
                if rows[problem]["of_span"] < FAR_BEHIND:
                    where = (FAR_BEHIND, place[problem] + 0.22 * (2 * colour - 1))
                    text = f"◀ {rows[problem]['of_span']:+.0%}"
                    axes.annotate(text, where, color=shade(colour), fontsize=7, va="center")
        for group in dict.fromkeys(groups[problem] for problem in problems):
            top = min(place[problem] for problem in problems if groups[problem] == group)
            axes.annotate(group, (FAR_BEHIND, top - 0.75), color=FAINT, fontsize=8, va="center")
        axes.set_xlim(left=FAR_BEHIND)
        axes.set_yticks(list(place.values()), list(place))
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        axes.grid(axis="y", visible=False)
        axes.set_ylim(max(place.values()) + 0.8, -2.6)  # from top to bottom, with room for the legend
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("lead as a share of the span from random to best; bars: 95% intervals over runs")
        axes.set_title("AdaptiveTS minus its strongest rival")
        axes.legend(loc="upper right")
        margins(figure, left=1.25)
    return figure


def comparisons_of(runs: pl.DataFrame) -> pl.DataFrame:
    """Return every comparison on shuffles that AdaptiveTS has played."""
    return against(runs.join(runs.filter(pl.col("agent") == OURS), on=["problem", "seed", "rounds"], how="semi"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    runs = read_runs([OUT, *parser.parse_args().folders])
    runs.write_csv(OUT / "runs.csv")
    comparisons = comparisons_of(runs)
    comparisons.write_csv(OUT / "against.csv")
    write_figure(draw(comparisons), OUT, "rivals")
    print(table_of(comparisons), "", played_table(comparisons), sep="\n")


if __name__ == "__main__":
    main()
