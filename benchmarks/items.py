"""`python -m benchmarks.items FOLDER`: AdaptiveTS on items with features, against the other agents, paired by run.

Reads what `lim2 bench --suite benchmarks/suites/items.toml --out FOLDER` has written. For each problem it prints
the mean reward per round of every agent; the difference of AdaptiveTS to Vowpal Wabbit with a paired t-test; and its
reward as a share of that of the best lim2 agent. `--out FILE` writes the same as JSON.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import p_value
from lim2.experiments.stats import paired_p, pooled_interval

OURS, PEER, RANDOM = "AdaptiveTS", "vw:adf-squarecb", "Uniform"
CLOSE = 0.98  # of the reward of the best lim2 agent: within 2%
PROBLEMS = ("electricity", "car", "mode-canada", "swissmetro", "movielens", "catalogue")
COLUMNS = ("problem", "agent", "seed", "rounds", "reward", "started")


def read_runs(folder: Path) -> pl.DataFrame:
    """Return one row per run that ended well; of a run that was made again, the latest."""
    files = sorted((folder / "runs").glob("*.parquet"))
    tables = [pl.read_parquet(file, columns=[*COLUMNS, "status"]).filter(pl.col("status") == "ok") for file in files]
    if not tables:
        raise SystemExit(f"no runs in {folder}: give a folder that `lim2 bench` has written")
    runs = pl.concat(tables).sort("started").unique(["problem", "agent", "seed", "rounds"], keep="last")
    return runs.with_columns(reward=pl.col("reward") / pl.col("rounds")).sort("problem", "agent", "seed")


def compared(runs: pl.DataFrame, problem: str) -> dict[str, Any] | None:
    """Return how AdaptiveTS did on a problem, over the draws that every agent has played; None if there is none."""
    wide = runs.filter(pl.col("problem") == problem).pivot("agent", index=["seed", "rounds"], values="reward")
    if not {OURS, PEER, RANDOM} <= set(wide.columns) or (wide := wide.drop_nulls()).is_empty():
        return None
    rewards = {name: wide[name].to_numpy() for name in wide.columns[2:]}
    means = {name: float(values.mean()) for name, values in rewards.items()}
    own = {name: mean for name, mean in means.items() if name not in (PEER, RANDOM)}
    best = max(own, key=own.__getitem__)
    difference, half = pooled_interval([rewards[OURS] - rewards[PEER]])
    return {
        "problem": problem,
        "rounds": int(wide["rounds"].max()),  # type: ignore[arg-type]  # of a column of numbers
        "seeds": wide["seed"].to_list(),
        "rewards": {name: round(mean, 5) for name, mean in means.items()},
        "minus_peer": round(difference, 5),
        "half_width": round(half, 5),
        "wins": int(np.sum(rewards[OURS] > rewards[PEER])),
        "p": paired_p(rewards[OURS], rewards[PEER]),
        "best": best,
        "of_best": round(means[OURS] / means[best], 4),
        "of_best_span": round((means[OURS] - means[RANDOM]) / (means[best] - means[RANDOM]), 4),
    }


def report(rows: list[dict[str, Any]]) -> str:
    """Return two tables in Markdown."""
    agents = sorted({name for row in rows for name in row["rewards"]}, key=lambda name: (name != OURS, name))
    rewards = [[row["problem"], *(f"{row['rewards'].get(name, np.nan):.4f}" for name in agents)] for row in rows]
    claims = [
        [
            row["problem"],
            f"{len(row['seeds'])} of {row['rounds']:,}",
            f"{row['minus_peer']:+.4f} ± {row['half_width']:.4f}",
            f"{row['wins']} of {len(row['seeds'])}",
            p_value(row["p"]),
            row["best"],
            f"{row['of_best']:.3f}",
            f"{row['of_best_span']:.3f}",
            "yes" if row["of_best"] >= CLOSE else "no",
        ]
        for row in rows
    ]
    head = ["problem", "runs (of rounds)", f"{OURS} minus {PEER}", "runs ahead", "p", "best lim2 agent"]
    head += [f"{OURS}, relative to it", "the same, above random"]
    lines = ["Mean reward per round:", "", *table(["problem", *agents], rewards), ""]
    lines += [*table([*head, "within 2%"], claims), ""]
    seeds = sorted({seed for row in rows for seed in row["seeds"]})
    lines += [f"Seeds {seeds[0]} to {seeds[-1]}. ± is half the width of a 95% interval; p is from a paired t-test."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what lim2 bench has written")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    arguments = parser.parse_args()
    runs = read_runs(arguments.folder)
    rows = [row for problem in PROBLEMS if (row := compared(runs, problem)) is not None]
    if not rows:
        raise SystemExit(f"no problem in {arguments.folder} was played by all of {OURS}, {PEER} and {RANDOM}")
    print(report(rows))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
