"""`python -m benchmarks.worlds FOLDER...`: an agent in the worlds of products, against the best rival in each.

Reads what `lim2 bench --suite benchmarks/suites/worlds.toml --out FOLDER` has written, and nothing else: an agent that
the code no longer has counts as well. Of several folders the runs are put together. `--out FILE` writes the figures as
JSON; those in benchmarks/results/worlds.json are in the pages (`python -m benchmarks.statements --write`).

- Regret is against the known truth, as a share of that of random play.
- A ratio is the regret of an agent over that of the best rival, over the seeds that both have played, with a standard
  error. The best rival has the smallest mean regret of all that got the same data; AdaptiveTS without a hidden layer is
  no rival of itself.
- *By hand*: the best rival on columns made by hand, where a world has dictionaries.
- False changes are counted per 10,000 rounds, CPU time per run.
"""

import argparse
import json
import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from lim2.experiments.report.markdown import table
from lim2.experiments.store import opened

RANDOM = "Uniform"
OURS = ("AdaptiveTS", "linear")  # labels of the suite: with and without a hidden layer
GOAL = 1.15  # of the best rival's regret, at most, in every world
COLUMNS = (
    "problem", "problem_source", "problem_settings", "agent", "agent_source", "seed", "rounds", "regret",
    "random_regret", "false_changes", "cpu_seconds", "started",
)  # fmt: skip
HEAD = ("world", "agent", "seeds", "regret", "of the best rival", "by hand", "false changes", "CPU")


class Ratio(NamedTuple):
    """Ratio of two sums over common seeds."""

    value: float
    error: float  # standard error; NaN with one seed

    def __str__(self) -> str:
        return f"{self.value:.2f}" if math.isnan(self.error) else f"{self.value:.2f} ± {self.error:.2f}"


def ratio_of(a: ArrayLike, b: ArrayLike) -> Ratio:
    """Return the ratio of the sums of paired values, with the standard error of the delta method.

    Examples
    --------
    >>> str(ratio_of([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])), str(ratio_of([3.0, 3.0], [1.0, 2.0]))
    ('2.00 ± 0.00', '2.00 ± 0.67')
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    value = float(x.sum() / y.sum())
    rest = x - value * y
    error = float(rest.std(ddof=1) / math.sqrt(len(x)) / y.mean()) if len(x) > 1 else math.nan
    return Ratio(value, error)


def read_runs(folders: Iterable[Path]) -> pl.DataFrame:
    """Return the runs of some folders that have a regret against the truth; of a run made again, the latest."""
    frames = [opened(folder).frames()[0].select(COLUMNS) for folder in folders]
    runs = pl.concat(frames).filter(pl.col("random_regret") > 0.0)
    if runs.is_empty():
        raise SystemExit("no runs with a regret against the truth: give folders that `lim2 bench` has written")
    settings = [json.loads(text) for text in runs["problem_settings"]]
    hand = [bool(setting.pop("by_hand", False)) for setting in settings]
    worlds = [
        f"{source} {json.dumps(setting, sort_keys=True)}"
        for source, setting in zip(runs["problem_source"], settings, strict=True)
    ]
    runs = runs.with_columns(world=pl.Series(worlds, dtype=pl.String), hand=pl.Series(hand, dtype=pl.Boolean))
    return runs.sort("started").unique(["world", "hand", "agent", "seed", "rounds"], keep="last", maintain_order=True)


def by_seed(runs: pl.DataFrame) -> dict[tuple[int, int], float]:
    """Return the regret of each run of an agent in a world, by seed and rounds."""
    return {(seed, rounds): regret for seed, rounds, regret in runs.select("seed", "rounds", "regret").iter_rows()}


def compared(a: pl.DataFrame, b: pl.DataFrame) -> Ratio | None:
    """Return the ratio of the regrets of two agents over common seeds; None if there are none."""
    first, second = by_seed(a), by_seed(b)
    common = sorted(first.keys() & second.keys())
    if not common:
        return None
    return ratio_of([first[key] for key in common], [second[key] for key in common])


def share(runs: pl.DataFrame) -> float:
    """Return the mean regret as a share of random play's."""
    return float((runs["regret"] / runs["random_regret"]).to_numpy().mean())


def best_of(runs: pl.DataFrame, ours: Collection[str], hand: bool) -> pl.DataFrame | None:
    """Return the runs of the rival with the smallest regret, on dictionaries and vectors or on columns by hand."""
    rivals = runs.filter(
        (pl.col("hand") == hand) & ~pl.col("agent").is_in(list(ours)) & (pl.col("agent_source") != RANDOM)
    )
    return min((group for _, group in rivals.group_by("agent", maintain_order=True)), key=share, default=None)


def rows_of(runs: pl.DataFrame, ours: Collection[str]) -> list[dict[str, Any]]:
    """Return a row for each world and agent: worlds in the order of the runs, agents by regret."""
    rows: list[dict[str, Any]] = []
    for _, world in runs.sort("problem", "agent", "seed").group_by("world", maintain_order=True):
        name = world.filter(~pl.col("hand"))["problem"] if not world["hand"].all() else world["problem"]
        rival, by_hand = best_of(world, ours, hand=False), best_of(world, ours, hand=True)
        found = []
        for (agent, hand), own in world.group_by("agent", "hand", maintain_order=True):
            false = own["false_changes"]
            found.append(
                {
                    "world": name[0],
                    "agent": agent,
                    "hand": hand,
                    "seeds": own["seed"].n_unique(),
                    "regret": share(own),
                    "rival": None if rival is None else rival["agent"][0],
                    "ratio": None if rival is None else compared(own, rival),
                    "hand_rival": None if by_hand is None else by_hand["agent"][0],
                    "hand_ratio": None if by_hand is None else compared(own, by_hand),
                    "false_changes": None
                    if false.null_count()
                    else 1e4 * float(false.to_numpy().sum() / own["rounds"].to_numpy().sum()),
                    "cpu_seconds": None
                    if own["cpu_seconds"].null_count()
                    else float(own["cpu_seconds"].to_numpy().mean()),
                }
            )
        rows += sorted(found, key=lambda row: row["regret"])
    return rows


def cells(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    return [
        row["world"],
        row["agent"] + ", by hand" * row["hand"],
        str(row["seeds"]),
        f"{100 * row['regret']:.1f}%",
        "best rival" if row["agent"] == row["rival"] and not row["hand"] else str(row["ratio"] or "–"),
        str(row["hand_ratio"] or "–"),
        "–" if row["false_changes"] is None else f"{row['false_changes']:.2f}",
        "–" if row["cpu_seconds"] is None else f"{row['cpu_seconds']:.1f} s",
    ]


def compact(rows: Sequence[dict[str, Any]]) -> str:
    """Return a line for each world as Markdown: AdaptiveTS and its best rivals."""
    by = {(row["world"], row["agent"], row["hand"]): row for row in rows}
    lines = []
    for row in (row for row in rows if row["agent"] == OURS[0] and not row["hand"] and row["ratio"]):
        world, rival, hand = row["world"], by[row["world"], row["rival"], False], row["hand_ratio"]
        linear = by.get((world, OURS[1], False))
        lines.append(
            [
                world, str(row["seeds"]), f"{row['regret']:.1%}", f"{linear['regret']:.1%}" if linear else "–",
                f"{rival['regret']:.1%} {row['rival']}", str(Ratio(*row["ratio"])),
                f"{Ratio(*hand)} {row['hand_rival']}" if hand else "–", f"{row['false_changes']:.2f}",
            ]
        )  # fmt: skip
    head = ["world", "seeds", "AdaptiveTS", "without hidden layer", "best rival", "ratio", "ratio to columns by hand"]
    return "\n".join(table([*head, "false changes"], lines))


def figures(rows: Sequence[dict[str, Any]]) -> tuple[float, int, list[str]]:
    """Return the geometric mean of the ratios of AdaptiveTS, the number of worlds, and those where it misses the goal.

    Examples
    --------
    >>> row = {"agent": "AdaptiveTS", "hand": False}
    >>> figures([{**row, "world": "a", "ratio": [0.5, 0.1]}, {**row, "world": "b", "ratio": [2.0, 0.1]}])
    (1.0, 2, ['b'])
    """
    ratios = {
        row["world"]: row["ratio"][0] for row in rows if row["agent"] == OURS[0] and not row["hand"] and row["ratio"]
    }
    mean = math.exp(np.mean([math.log(ratio) for ratio in ratios.values()]))
    return float(mean), len(ratios), [world for world, ratio in ratios.items() if ratio > GOAL]


def summary(rows: Sequence[dict[str, Any]], agent: str) -> list[str]:
    """Return sentences about an agent over all worlds."""
    own = [row for row in rows if row["agent"] == agent and not row["hand"]]
    ratios = [(row["ratio"].value, row["world"]) for row in own if row["ratio"] is not None]
    if not ratios:
        return [f"No world was played by {agent} and a rival with common seeds."]
    mean, (worst, where) = math.exp(np.mean([math.log(value) for value, _ in ratios])), max(ratios)
    lines = [
        f"{agent}: regret {mean:.2f} times that of the best rival in the geometric mean over {len(ratios)} worlds; at "
        f"most {worst:.2f} times, in {where}."
    ]
    hands = [(row["hand_ratio"].value, row["world"]) for row in own if row["hand_ratio"] is not None]
    if hands:
        lines.append(
            f"On dictionaries at most {max(hands)[0]:.2f} times that of the best rival by hand, in {max(hands)[1]}."
        )
    false = [(row["false_changes"], row["world"]) for row in own if row["false_changes"] is not None]
    if false:
        lines.append(f"At most {max(false)[0]:.2f} false changes in 10,000 rounds, in {max(false)[1]}.")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders that lim2 bench has written")
    parser.add_argument("--agent", default="AdaptiveTS", help="label of the agent that is judged")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    given = parser.parse_args(arguments)
    rows = rows_of(read_runs(given.folders), {given.agent, *OURS})
    print("\n".join([*table(HEAD, [cells(row) for row in rows], left=2), "", *summary(rows, given.agent)]))
    if given.out is not None:
        plain = [{k: list(v) if isinstance(v, Ratio) else v for k, v in row.items()} for row in rows]
        given.out.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
