"""`python -m benchmarks.past_the_paper FOLDER...`: LiM2-Transport against every other method, paired by shuffle.

Reads the runs in folders of `lim2 bench` (the paper's table, and the plan `benchmarks/plans/past-the-paper.toml`) and
writes `docs/results/past-the-paper/`: `runs.csv`, the rewards; `against.csv`, every paired comparison; `table.md`.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lim2.experiments.stats import paired_p

OURS = "LiM2-Transport"
TUNED_ON = ("statlog", "epileptic", "covertype", "jester", "adult", "linear")  # linear: calibration on it helped choose
PAPER = (
    "LinearTS",
    "NeuralLinear",
    "LiM2",
    "NeuralLinear-MM",
    "NeuralLinear-Naive",
    "NeuralUCB",
    "NeuralTS",
    "NeuralLinear-NTK",
)
PEERS = ("vw:squarecb", "vw:epsilon")
COLUMNS = ("problem", "agent", "seed", "rounds", "reward", "us_per_round")
OUT = Path(__file__).parents[1] / "docs" / "results" / "past-the-paper"


def read_runs(folders: list[Path]) -> pl.DataFrame:
    """Return a row a run of an agent with its default settings; what is in several folders counts once."""
    files = sorted(file for folder in folders for file in (folder / "runs").glob("*.parquet"))
    if not files:
        raise SystemExit(f"no runs in {', '.join(map(str, folders))}: give folders that `lim2 bench` has written")
    tables = [pl.read_parquet(file, columns=[*COLUMNS, "agent_settings"]) for file in files]
    runs = pl.concat(tables).filter(pl.col("agent_settings") == "{}").drop("agent_settings")
    return runs.unique(["problem", "agent", "seed", "rounds"], keep="last").sort("problem", "agent", "seed")


def against(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each (problem, other agent): mean rewards over the shuffles that both have played, and p."""
    rows: list[dict[str, Any]] = []
    for (problem,), group in runs.group_by("problem", maintain_order=True):
        ours = group.filter(pl.col("agent") == OURS)
        uniform = group.filter(pl.col("agent") == "Uniform")["reward"].mean()
        for agent in (*PAPER, *PEERS):
            pairs = ours.join(group.filter(pl.col("agent") == agent), on=["seed", "rounds"])
            if pairs.is_empty():
                continue
            mine, others = pairs["reward"].to_numpy(), pairs["reward_right"].to_numpy()
            rows.append(
                {
                    "problem": problem,
                    "tuned_on": problem in TUNED_ON,
                    "agent": agent,
                    "pairs": len(pairs),
                    "ours": round(float(mine.mean()), 1),
                    "other": round(float(others.mean()), 1),
                    "difference": round(float((mine - others).mean()), 1),
                    "wins": int(np.sum(mine > others)),
                    "p": paired_p(mine, others),
                    "uniform": uniform,
                }
            )
    return pl.DataFrame(rows)


def table(comparisons: pl.DataFrame) -> str:
    """Return the summary as Markdown: for each problem the best of the paper's methods and of Vowpal Wabbit."""
    lines = []
    for title, tuned in (("Problems that the defaults were chosen on", True), ("Untouched", False)):
        part = comparisons.filter(pl.col("tuned_on") == tuned)
        lines += [
            f"### {title}",
            "",
            "| problem | pairs | LiM2-Transport | the paper's best | difference | of the span | p |",
        ]
        lines[-1] += " Vowpal Wabbit's best | difference | p |"
        lines.append("|---|---|---|---|---|---|---|---|---|---|")
        for (problem,), rows in part.group_by("problem", maintain_order=True):
            best, peer = (_best(rows.filter(pl.col("agent").is_in(names))) for names in (PAPER, PEERS))
            ours = (best or peer or {}).get("ours", 0.0)
            cells = [str(problem), str((best or peer or {}).get("pairs", 0)), f"{ours:,.0f}"]
            if best is None:
                cells += ["-"] * 4
            else:
                span = max(best["ours"], best["other"]) - (best["uniform"] or 0.0)
                share = f"{best['difference'] / span:+.1%}" if best["uniform"] is not None else "-"
                cells += [f"{best['other']:,.0f} {best['agent']}", f"{best['difference']:+,.0f}", share, _p(best["p"])]
            cells += (
                ["-"] * 3
                if peer is None
                else [f"{peer['other']:,.0f} {peer['agent']}", f"{peer['difference']:+,.0f}", _p(peer["p"])]
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _best(rows: pl.DataFrame) -> dict[str, Any] | None:
    return None if rows.is_empty() else rows.sort("other", descending=True).row(0, named=True)


def _p(p: float | None) -> str:
    return "-" if p is None else f"{p:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    runs = read_runs(parser.parse_args().folders)
    played = runs.filter(pl.col("agent") == OURS)["problem"].unique()
    runs = runs.filter(pl.col("problem").is_in(played.to_list()))
    comparisons = against(runs)
    OUT.mkdir(parents=True, exist_ok=True)
    runs.drop("us_per_round").write_csv(OUT / "runs.csv")
    comparisons.write_csv(OUT / "against.csv")
    (OUT / "table.md").write_text(table(comparisons))
    print(table(comparisons))


if __name__ == "__main__":
    main()
