"""The table of docs/guides/choosing.md, made of results that are kept; `python -m benchmarks.readme` writes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.adaptive import LINEAR
from benchmarks.past_the_paper import judged

HERE = Path(__file__).parent
PAST = HERE.parent / "docs" / "results" / "past-the-paper"
OURS = "AdaptiveTS"


def _load(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def _means(name: str, problem: str) -> dict[str, float]:
    """Return the mean reward of each agent on a problem, of the runs that are kept."""
    runs = pl.read_csv(PAST / f"{name}.csv").filter(pl.col("problem") == problem)
    return dict(runs.group_by("agent").agg(pl.col("reward").mean()).iter_rows())


def _lead(rivals: Mapping[str, dict[str, Any]], problem: str) -> str:
    row = rivals[problem]
    lead = f"{row['of_span']:+.0%} ± {row['half_of_span']:.0%} compared with {row['agent']} on `{problem}`"
    return f"no significant difference: {OURS} {lead}" if row["verdict"] == "undecided" else lead


def _regrets(world: str) -> str:
    """Return the regrets in a world of products: of AdaptiveTS, without contexts, and of the best other rival."""
    rows = {row["agent"]: row for row in _load("worlds") if row["world"] == world and not row["hand"]}
    ours, rival = rows[OURS], rows[rows[OURS]["rival"]]
    free = rows.get("ThompsonSampling")
    parts = [f"{ours['regret']:.0%} for {OURS}"]
    parts += [f"{free['regret']:.0%} without contexts"] if free else []
    parts += [f"{rival['regret']:.0%} for {rival['agent']}"] if rival is not free else []
    return f"regret on `{world}`, as a share of random choice: {', '.join(parts)}"


def report() -> str:
    """Return a row per situation: what to choose, what was measured, and by which command."""
    rivals = judged(pl.read_csv(PAST / "against.csv"))["own"]  # significant: after Holm's correction, as in README
    datasets = [row for row in rivals.values() if row["group"] == "The paper's datasets"]
    behind = sum(row["verdict"] == "behind" for row in datasets)
    wheel, vowel, jester = _means("cases", "wheel"), _means("suite", "vowel"), _means("ablation", "jester")
    shares = {name: sum(runs) / len(runs) for name, runs in _load("catalogue")["shares"].items()}
    linear_items = next(agent for agent in LINEAR if f"{agent}, vectors" in shares)
    speed = {row["agent"]: row for row in _load("throughput")["speed"]}
    held = {row["agent"]: row["mean"] for row in _load("calibration")}
    linear = (jester["no hidden layer"] - jester["Uniform"]) / (jester[OURS] - jester["Uniform"])
    names = ("past_the_paper", "adaptive", "throughput", "worlds")
    past, adaptive, throughput, products = (f"`benchmarks.{name}`" for name in names)
    rows = [
        ["nothing special is known", "`lim2.Bandit`, or `AdaptiveTS` for vectors",
         f"significantly behind the best of the paper's methods on {behind or 'none'} of {len(datasets)} datasets",
         past],
        ["rewards are clicks of some percent", "`lim2.Bandit`", _regrets("clicks"), products],
        ["that there was no click is known late", "`lim2.Bandit(log=...)`", _regrets("late-zeros"), products],
        ["rewards are revenue, mostly 0", "`lim2.Bandit`", _regrets("revenue"), products],
        ["contexts say nothing, as in an A/B test", "`ThompsonSampling`", _regrets("ab-test"), products],
        ["contexts are JSON with ids and times", "`lim2.Bandit`", _regrets("shop"), products],
        ["the world changes over time", "`AdaptiveTS`", _lead(rivals, "drifting"), past],
        ["rewards are linear or very noisy", "`AdaptiveTS(hidden=())`",
         f"{linear:.0%} of the lead of AdaptiveTS on `jester`", adaptive],
        ["a rare, large reward may be hidden", "`AdaptiveTS(reward_range=(low, high))`",
         f"reward on `wheel`: {wheel['AdaptiveTS with a range']:,.0f} with the range, {wheel[OURS]:,.0f} without, "
         f"random {wheel['Uniform']:,.0f}", adaptive],
        ["few rounds, many classes, much computing time", "`NeuralUCB`",
         f"reward in 990 rounds of `vowel`: {vowel['NeuralUCB']:,.0f}, AdaptiveTS {vowel[OURS]:,.0f}", adaptive],
        ["a catalogue of items with features", "`lim2.Bandit()`",
         f"score {shares['Bandit, raw']:.2f}, Vowpal Wabbit {shares['vw:adf-squarecb, vectors']:.2f}",
         "`benchmarks.catalogue`"],
        ["a catalogue with linear rewards", "`lim2.Bandit(hidden=())`",
         f"score on vectors {shares[f'{linear_items}, vectors']:.2f} ({linear_items}), with the hidden layer "
         f"{shares['AdaptiveTS, vectors']:.2f}",
         "`benchmarks.catalogue`"],
        ["texts or images", "`LiM2` or `AdaptiveTS` with `representation=Torch(...)`", _lead(rivals, "amazon"), past],
        ["an update must be fast", "`LinearTS`",
         f"{speed['LinearTS']['loop us']:.0f} us per reward, AdaptiveTS {speed[OURS]['loop us']:.0f} us", throughput],
        ["millions of logged rewards", "`AdaptiveTS` or `LinearTS`, with `batch=\"auto\"`",
         f"rewards per second, compared with one by one: AdaptiveTS x {speed[OURS]['auto']:.0f}, LinearTS x "
         f"{speed['LinearTS']['auto']:.0f}", throughput],
        ["intervals must not be too narrow", "`AdaptiveTS`",
         f"{held[OURS]:.0%} of its 90% intervals contain the true value on `linear`, LiM2 {held['LiM2']:.0%}",
         "`benchmarks.calibration`"],
        ["you reproduce or extend the paper", "`LiM2` and the other agents of the paper",
         "[the paper's table](../research/results.md)", "`lim2 paper table`"],
    ]  # fmt: skip
    lines = [["situation", "choose", "measured", "measured by"], ["---"] * 4, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
