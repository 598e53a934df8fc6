"""`python -m benchmarks.adaptive results/suite results/ablation results/fresh`: tables about AdaptiveTS.

Reads the runs of `lim2 bench` with the suites `suite.toml`, `ablation.toml` and `past-the-paper.toml` of
benchmarks/suites, keeps their rewards in docs/results/past-the-paper (`suite.csv`, `ablation.csv`, `cases.csv`), and
prints tables. A run takes the place of a kept one of the same problem, agent and seed; the others stay, so that a new
version of AdaptiveTS need not play its rivals again. Without folders the tables are made from what is kept.
`python -m benchmarks.statements --write` puts them into docs/research/benchmarks.md.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from lim2.experiments.report.markdown import table

OUT = Path(__file__).parents[1] / "docs" / "results" / "past-the-paper"
OURS, UNIFORM = "AdaptiveTS", "Uniform"
UNTRAINED = "AdaptiveTS untrained"
LINEAR = ("AdaptiveTS linear", "LinearTS scaled")  # of kept runs the latter, which lim2 0.2 had
WITHOUT = (UNTRAINED, *LINEAR)  # no rivals: parts of our own agent
SPECIAL = ("jester", "covertype", "drifting", "mushroom", "risky")


def kept(folder: Path | None, name: str) -> pl.DataFrame:
    """Return the rewards by problem, agent and seed, from a folder of runs, which are then kept, or as kept before."""
    file = OUT / f"{name}.csv"
    if folder is not None:
        columns = ["status", "problem", "agent", "seed", "rounds", "reward"]
        runs = pl.concat([pl.read_parquet(run, columns=columns) for run in sorted((folder / "runs").glob("*.parquet"))])
        runs = runs.filter(pl.col("status") == "ok").drop("status")
        runs = runs.with_columns(pl.col("problem").str.split(":").list.last())
        if name == "cases":
            ours = (pl.col("agent") == OURS) & pl.col("problem").is_in(["mushroom", "wheel", "drifting", "risky"])
            runs = runs.filter(ours | pl.col("agent").str.starts_with("AdaptiveTS ") | (pl.col("agent") == UNIFORM))
            runs = runs.filter(pl.col("problem").is_in(["mushroom", "wheel", "drifting", "risky"]))
        runs = runs.with_columns(pl.col("rounds").cast(pl.Int64), pl.col("seed").cast(pl.Int64))
        if file.exists():
            before = pl.read_csv(file).select(runs.columns)
            runs = pl.concat([before.join(runs, on=["problem", "agent", "seed"], how="anti"), runs])
        runs.sort("problem", "agent", "seed").write_csv(file)
    return pl.read_csv(file)


def means(runs: pl.DataFrame, problem: str) -> dict[str, float]:
    """Return the mean reward of every agent on a problem."""
    here = runs.filter(pl.col("problem") == problem)
    return {agent: float(rewards["reward"].to_numpy().mean()) for (agent,), rewards in here.group_by("agent")}


def best_rival(runs: pl.DataFrame, problem: str) -> tuple[str, dict[str, float]]:
    """Return the rival with the highest mean reward on a problem, and the means of all rivals."""
    mean = means(runs, problem)
    rivals = {agent: reward for agent, reward in mean.items() if agent not in (OURS, UNIFORM, *WITHOUT)}
    return max(rivals, key=lambda agent: rivals[agent]), rivals


def suite_table(runs: pl.DataFrame) -> list[str]:
    """Return how AdaptiveTS does on the suite: 0 is the random policy, 1 the best rival on that dataset."""
    rows, scores = [], []
    linear = next(agent for agent in LINEAR if agent in set(runs["agent"]))
    for problem in sorted(set(runs["problem"])):
        mean = means(runs, problem)
        best, rivals = best_rival(runs, problem)
        peer = max((agent for agent in rivals if agent.startswith("vw:")), key=lambda agent: rivals[agent])
        span = rivals[best] - mean[UNIFORM]
        shown = [(mean[agent] - mean[UNIFORM]) / span for agent in (OURS, UNTRAINED, linear, peer)]
        scores.append(shown)
        rows.append(
            [problem, f"{mean[OURS]:,.0f}", f"{rivals[best]:,.0f} {best}", *(f"{score:.3f}" for score in shown)]
        )
    columns = np.array(scores)
    rows.append(["**mean**", "", "", *(f"{score:.3f}" for score in columns.mean(axis=0))])
    rows.append(["**worst**", "", "", *(f"{score:.3f}" for score in columns.min(axis=0))])
    head = ["dataset", "AdaptiveTS, reward", "best rival, reward", "AdaptiveTS, score", "AdaptiveTS untrained, score"]
    return table([*head, f"{linear}, score", "best of Vowpal Wabbit, score"], rows)


def named(variant: str) -> str:
    """Return a variant as the tables name it; the kept runs have its older name."""
    return variant.replace("one belief", "no linear posterior")


def left_without(runs: pl.DataFrame, variant: str, problem: str) -> float:
    """Return what a variant keeps of AdaptiveTS's lead over the random policy on a problem, in per cent."""
    mean = means(runs, problem)
    return 100.0 * (mean[variant] - mean[UNIFORM]) / (mean[OURS] - mean[UNIFORM])


def ablation_table(runs: pl.DataFrame) -> list[str]:
    """Return what is left of the lead over the random policy without a mechanism, in per cent."""
    suite = [problem for problem in sorted(set(runs["problem"])) if problem not in SPECIAL]
    variants = [agent for agent in runs["agent"].unique(maintain_order=True) if agent not in (OURS, UNIFORM)]
    rows = []
    for variant in sorted(variants):
        left = {problem: left_without(runs, variant, problem) for problem in (*suite, *SPECIAL)}
        average = float(np.mean([left[problem] for problem in suite]))
        least = min(suite, key=lambda problem: left[problem])
        rows.append(
            [named(variant), f"{average:.1f}", f"{left[least]:.1f} {least}", *(f"{left[p]:.1f}" for p in SPECIAL)]
        )
    return table(["variant", "suite, mean", "suite, lowest", *SPECIAL], rows)


def cases_table(runs: pl.DataFrame) -> list[str]:
    """Return mean and least reward of AdaptiveTS on the problems that a weaker agent breaks on."""
    rows = []
    for (problem, agent), here in runs.group_by("problem", "agent", maintain_order=True):
        if agent not in (UNIFORM, *WITHOUT):
            rewards, chance = here["reward"].to_numpy(), means(runs, str(problem))[UNIFORM]
            cells = [f"{rewards.mean():,.0f}", f"{rewards.min():,.0f}", str(len(rewards)), f"{chance:,.0f}"]
            rows.append([str(problem), str(agent), *cells])
    return table(["problem", "agent", "mean reward", "lowest reward", "runs", "random policy"], rows, left=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="suite, ablation, fresh runs: in this order")
    folders = parser.parse_args().folders
    makers = {"suite": suite_table, "ablation": ablation_table, "cases": cases_table}
    for (name, make), folder in zip(makers.items(), folders or [None] * len(makers), strict=True):
        lines = make(kept(folder, name))
        print(*lines, "", sep="\n")


if __name__ == "__main__":
    main()
