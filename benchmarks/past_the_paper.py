"""`python -m benchmarks.past_the_paper FOLDER...`: AdaptiveTS against every other method, paired by shuffle.

Reads the runs in folders of `lim2 bench` (the plan `benchmarks/plans/past-the-paper.toml`, seeds 1000 to 1009), or the
`runs.csv` that it wrote itself, and writes to `docs/results/past-the-paper/` all rewards (`runs.csv`), every paired
comparison (`against.csv`), a summary (`table.md`) and the figure `rivals`.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from lim2.experiments.renamed import today
from lim2.experiments.report.colours import shade
from lim2.experiments.report.figures import FAINT, INK, STYLE, margins
from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import p_value
from lim2.experiments.report.write import write_figure
from lim2.experiments.stats import paired_p, pooled_interval

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
PEERS = ("vw:squarecb", "vw:epsilon", "vw:adf-squarecb")
DATASETS = (
    "statlog", "covertype", "jester", "financial", "adult", "mushroom", "smartphones-66", "scania", "epileptic",
    "census", "amazon",
)  # fmt: skip
GROUPS = {"The paper's datasets": DATASETS, "Synthetic": ("wheel", "drifting", "risky")}
FAR_BEHIND = -0.25  # the figure's left end; what is further behind is given in figures
COLUMNS = ("problem", "agent", "seed", "rounds", "reward")
OUT = Path(__file__).parents[1] / "docs" / "results" / "past-the-paper"


def read_runs(folders: list[Path]) -> pl.DataFrame:
    """Return one row per run of an agent with its default settings; what is in several folders counts once."""
    kept = [pl.read_csv(file) for folder in folders for file in folder.glob("runs.csv")]
    files = sorted(file for folder in folders for file in (folder / "runs").glob("*.parquet"))
    tables = [pl.read_parquet(file, columns=[*COLUMNS, "agent_settings", "status"]) for file in files]
    ended = (pl.col("agent_settings") == "{}") & (pl.col("status") == "ok")
    tables = [table.filter(ended).select(COLUMNS) for table in tables]
    if not kept + tables:
        raise SystemExit(f"no runs in {', '.join(map(str, folders))}: give folders that `lim2 bench` has written")
    runs = pl.concat(kept + tables).with_columns(pl.col("agent").map_elements(today, pl.String))
    runs = runs.with_columns(pl.col("problem").str.split(":").list.last())  # benchmarks.digits:digits
    return runs.unique(["problem", "agent", "seed", "rounds"], keep="last").sort("problem", "agent", "seed")


def against(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each (problem, other agent), over the shuffles that both have played."""
    rows: list[dict[str, Any]] = []
    for group, problem in ((group, problem) for group, problems in GROUPS.items() for problem in problems):
        here = runs.filter(pl.col("problem") == problem)
        ours = here.filter(pl.col("agent") == OURS)
        uniform = here.filter(pl.col("agent") == "Uniform").select("seed", "rounds", uniform=pl.col("reward"))
        for agent in (*PAPER, *PEERS):
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
                    "ours": round(float(mine.mean()), 1),
                    "other": round(float(others.mean()), 1),
                    "difference": round(difference, 1),
                    "half_width": round(half, 1),
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


def verdict(comparisons: pl.DataFrame) -> str:
    """Return in a sentence or two where AdaptiveTS stands on the paper's datasets."""
    papers, peers = strongest(comparisons, PAPER), strongest(comparisons, PEERS)
    shares = {problem: papers[problem]["of_span"] for problem in DATASETS if problem in papers}
    ahead = sum(share >= 0 for share in shares.values())
    below = {problem: share for problem, share in shares.items() if share < 0}
    text = f"Of the paper's datasets, {len(shares)} were played; AdaptiveTS is at or above the best of the paper's"
    text += f" methods that played on {ahead} of them"
    text += "".join(f", {share:+.1%} of the span on {problem}" for problem, share in below.items()) + "."
    beaten = sum(row["difference"] > 0 for row in peers.values())
    behind = [problem for problem, row in peers.items() if row["difference"] <= 0]
    text += f" It is ahead of the best of three configurations of Vowpal Wabbit on {beaten} of {len(peers)} problems"
    return text + (f", not on {', '.join(behind)}." if behind else ".")


def tables(comparisons: pl.DataFrame) -> str:
    """Return the summary as Markdown: for each problem the strongest of the paper's methods and of Vowpal Wabbit."""
    papers, peers = strongest(comparisons, PAPER), strongest(comparisons, PEERS)
    head = ["problem", "AdaptiveTS", "the paper's best", "runs", "difference", "of the span", "p"]
    head += ["Vowpal Wabbit's best", "runs", "difference", "p"]
    rows = []
    for problem in (problem for problems in GROUPS.values() for problem in problems):
        best, peer = papers.get(problem), peers.get(problem)
        if best is None and peer is None:
            continue
        cells = [problem, f"{(best or peer or {})['ours']:,.0f}"]
        cells += [*_rival(best), "-" if best is None else f"{best['of_span']:+.1%}", _p(best)]
        rows.append([*cells, *_rival(peer), _p(peer)])
    return "\n".join([verdict(comparisons), "", *table(head, rows)])


def _rival(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return ["-"] * 3
    difference = f"{row['difference']:+,.0f} ± {row['half_width']:,.0f}"
    return [f"{row['other']:,.0f} {row['agent'].removeprefix('vw:')}", str(row["pairs"]), difference]


def _p(row: dict[str, Any] | None) -> str:
    return "-" if row is None else p_value(row["p"])


def draw(comparisons: pl.DataFrame) -> Figure:
    """Draw, problem by problem, how far AdaptiveTS is ahead of its strongest rivals."""
    kinds = [("best of the paper's methods", PAPER, 0, "o"), ("best of Vowpal Wabbit", PEERS, 1, "D")]
    problems = list(comparisons["problem"].unique(maintain_order=True))
    groups = dict(comparisons.select("problem", "group").unique().iter_rows())
    place = {problem: y + list(GROUPS).index(groups[problem]) for y, problem in enumerate(problems)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.28 * len(problems) + 2.0))
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
        axes.set_ylim(max(place.values()) + 0.8, -1.3)  # from top to bottom
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("ahead by, as a share of the span between random and best; bars: 95% intervals over runs")
        axes.set_title("AdaptiveTS minus its strongest rival")
        axes.legend(loc="lower right")
        margins(figure, left=1.25)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    runs = read_runs(parser.parse_args().folders)
    played = runs.filter(pl.col("agent") == OURS)["problem"].unique()
    if played.is_empty():
        raise SystemExit(f"no runs of {OURS}: what is kept stays as it is")
    paired = runs.join(runs.filter(pl.col("agent") == OURS), on=["problem", "seed", "rounds"], how="semi")
    comparisons = against(paired)
    OUT.mkdir(parents=True, exist_ok=True)
    before = read_runs([OUT]) if (OUT / "runs.csv").exists() else paired  # of rivals, on shuffles still to be played
    kept = pl.concat([before, paired]).unique(["problem", "agent", "seed", "rounds"], keep="last")
    kept.sort("problem", "agent", "seed").write_csv(OUT / "runs.csv")
    comparisons.write_csv(OUT / "against.csv")
    (OUT / "table.md").write_text(tables(comparisons) + "\n")
    write_figure(draw(comparisons), OUT, "rivals")
    print(tables(comparisons))


if __name__ == "__main__":
    main()
