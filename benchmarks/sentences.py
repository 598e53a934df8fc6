"""Sentences of the pages on results that have numbers or verdicts, with the values that belong into their `{}`.

The sentences are written by hand, in the pages and here; the values are computed from the kept runs.
`python -m benchmarks.statements` compares the two.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from benchmarks import adaptive, past_the_paper
from benchmarks import worlds as products
from benchmarks.items import CLOSE
from benchmarks.kept import Kept
from lim2.experiments.report.texts import listed, number, p_value
from lim2.experiments.stats import LEVEL, paired_p
from lim2.paper import complexity, forgetting
from lim2.paper.lines import alike, averages_of
from lim2.paper.published import AVERAGE, METHODS

SLOW = ("NeuralUCB", "NeuralTS")
EATS_NOTHING = 1000  # on Mushroom, of about 11,000: a reward below it is that of an agent that hardly eats

Sentences = Mapping[str, Sequence[object]]


def rivals(kept: Kept) -> Sentences:
    """docs/research/benchmarks.md: where AdaptiveTS stands on the paper's datasets."""
    sides = past_the_paper.judged(kept.comparisons)

    def count(side: str) -> list[object]:
        words = [row["verdict"] for problem, row in sides[side].items() if problem in past_the_paper.DATASETS]
        return [words.count("ahead"), len(words), words.count("behind"), words.count("undecided")]

    datasets = [problem for problem in past_the_paper.DATASETS if problem in sides["own"]]
    fresh = [problem for problem in datasets if problem not in past_the_paper.CHOSEN_ON]
    return {
        "chosen on {} of these {} datasets, with other shuffles; {} played no part in the choice.": [
            len(datasets) - len(fresh), len(datasets), listed(fresh),
        ],
        "Against the strongest of the paper's methods and `LiM2(intercept=True)` it is ahead on {} of {} datasets, "
        "behind on {} and undecided on {}.": count("own"),
        "Against the strongest configuration of Vowpal Wabbit it is ahead on {} of {}, behind on {} and undecided on "
        "{}.": count("peers"),
        "significant at {} after Holm's correction over the {} tests of the table": [
            f"{LEVEL:.0%}", sum(map(len, sides.values())),
        ],
    }  # fmt: skip


def standing(kept: Kept) -> Sentences:
    """README.md: where AdaptiveTS stands on the paper's datasets, in short."""
    return {text.removeprefix("A"): values for text, values in rivals(kept).items() if text.startswith("Against")}


def worlds(kept: Kept) -> Sentences:
    """README.md and docs/research/benchmarks.md: AdaptiveTS in the worlds of products."""
    mean, count, missed = products.figures(kept.measured("worlds"))
    return {
        "regret is {} times that of the best rival in the geometric mean over {} worlds, and more than 1.15 times in "
        "these: {}.": [
            f"{mean:.2f}", count, listed(missed) if missed else "none",
        ]
    }  # fmt: skip


def banner(kept: Kept) -> Sentences:
    """docs/guides/faq.md: how much of the possible lift AdaptiveTS gets with rare clicks and late zeros."""
    rows = [row for row in kept.measured("worlds") if row["world"] == "banner" and row["agent"] == "AdaptiveTS"]
    lift = 1.0 - next(row["regret"] for row in rows if not row["hand"])
    return {"it gets {} of the possible lift over 20,000 visits": [f"{lift:.0%}"]}


def verdict(kept: Kept) -> Sentences:
    """docs/research/results.md and docs/research/reproduction.md: how many of the paper's claims are reproduced."""
    held = [claim.holds for claim in kept.claims]
    return {
        "These runs reproduce {} of the {} claims of the paper, do not reproduce {}, and cannot judge {} (“open”).": [
            held.count(True), len(held), held.count(False), held.count(None),
        ]
    }  # fmt: skip


def forever(kept: Kept) -> Sentences:
    """docs/research/results.md: how a round and the state of LiM2 grow."""
    sections = kept.measured("speed")["sections"]
    rows = {row["what"]: row for title, rows in sections.items() if title.startswith("For") for row in rows}
    return {
        "a round of LiM2 takes {} times as long as in the second tenth. Its state takes {} KiB after 5,000 rounds and "
        "{} KiB after 50,000": [
            rows["last tenth of 20,000 rounds / second tenth"]["ratio"],
            *(rows[f"state after {n} rounds"]["KiB"] for n in ("5,000", "50,000")),
        ]
    }


def cells(kept: Kept) -> Sentences:
    """docs/research/reproduction.md: how many cells of the raw table are the published ones."""
    raw = kept.sheet("table", "raw").filter(pl.col("verdict") != "")
    rest = raw.filter(~pl.col("method").is_in(SLOW))
    runs = {line.title: {m: line.cells[m]["runs"] for m in line.methods} for line in kept.lines}
    amazon = runs.pop("Amazon")
    return {
        "Of the raw table, {} cells can be compared with the published ones: {} are the same, {} are better and {} are "
        "worse. Without NeuralUCB and NeuralTS, {} are better and {} are worse. LiM2's average normalised score is {}; "
        "the published one is {}.": [
            raw.height,
            *(raw.filter(verdict=word).height for word in ("same", "better", "worse")),
            *(rest.filter(verdict=word).height for word in ("better", "worse")),
            f"{averages_of(kept.lines)['LiM2']:.3f}",
            AVERAGE["LiM2"],
        ],
        "On Amazon, LiM2 has {} runs and no method has fewer than {}; on the other datasets all methods have at least "
        "{}.": [amazon["LiM2"], min(amazon.values()), min(n for by in runs.values() for n in by.values())],
    }


def slow(kept: Kept) -> Sentences:
    """docs/research/reproduction.md: NeuralUCB and NeuralTS."""
    raw = kept.sheet("table", "raw").filter(pl.col("verdict") != "")
    methods = ("LiM2", "NeuralLinear", *SLOW)
    lines = alike(kept.lines, methods)
    averages = averages_of(lines, methods)
    mushroom = kept.line("Mushroom")
    rewards = list(mushroom.rewards["NeuralUCB"].values())
    return {
        "NeuralUCB is better than published on {} and worse on {} of the datasets that can be compared, NeuralTS "
        "better on {} and worse on {}.": [
            raw.filter(method=m, verdict=w).height for m in SLOW for w in ("better", "worse")
        ],
        "Over the {} datasets with runs of all four, the average scores on common shuffles are LiM2 {}, NeuralLinear "
        "{}, NeuralUCB {} and NeuralTS {}.": [len(lines), *(f"{averages[method]:.3f}" for method in methods)],
        "earns {} in the paper: it learns to eat nothing. Here {} of {} runs earn less than 1,000, and the best earns "
        "{}.": [
            number(mushroom.published.raw["NeuralUCB"][0], 0),
            sum(reward < EATS_NOTHING for reward in rewards),
            len(rewards),
            number(max(rewards), 0),
        ],
    }


def partial_files(kept: Kept) -> Sentences:
    """docs/research/reproduction.md: datasets of which only a part is here, and Scania's random policy."""

    def shares(title: str) -> list[str]:
        line = kept.line(title)
        methods = [m for m in METHODS if m in line.cells and m not in SLOW]
        below = sorted(line.cells[m]["reward_mean"] / line.published.raw[m][0] - 1 for m in methods)
        return [f"{below[0]:+.1%}", f"{below[-1]:+.1%}"]

    return {
        "rewards differ from the published ones by {} to {} on Amazon": shares("Amazon"),
        "and by {} to {} on Census": shares("Census"),
        "the random policy earns 4,663 in the paper and {} here": [
            number(kept.line("Scania Trucks").cells["Uniform"]["reward_mean"], 0)
        ],
    }


def time(kept: Kept) -> Sentences:
    """docs/research/reproduction.md: the time of a round over 60,000 rounds."""
    growth = {}
    for method in complexity.METHODS:
        _, micro = complexity.times(kept.tables["complexity"], method)
        middle = np.median(micro, axis=0)
        quarter = len(middle) // 4
        growth[method] = float(np.median(middle[-quarter:]) / np.median(middle[:quarter])), float(np.mean(middle))
    (ours, ours_mean), (full, full_mean) = growth["LiM2"], growth["NeuralLinear"]
    return {
        "in the last quarter of {} rounds is {} times that in the first quarter (LiM2: {} times). On average it is {} "
        "times LiM2's.": [
            f"{complexity.ROUNDS:,}", f"{full:.2f}", f"{ours:.2f}", f"{full_mean / ours_mean:.2f}",
        ]
    }  # fmt: skip


def late(kept: Kept) -> Sentences:
    """docs/research/reproduction.md: regret with limited and full memory, over all rounds and in the second half."""
    tables = kept.tables["forgetting"]
    values: list[str] = []
    for half in (False, True):
        regrets = []
        for agent in (forgetting.LIM2, forgetting.FULL):
            at, instant = forgetting.regrets(tables, agent)
            whole = tables.group("statlog", agent)["regret"].to_numpy() / forgetting.ROUNDS
            regrets.append(instant[:, at > forgetting.ROUNDS // 2].mean(axis=1) if half else whole)
        values += [*(f"{regret.mean():.4f}" for regret in regrets), p_value(paired_p(*regrets))]
    return {
        "Over all {} rounds, regret per round is {} for LiM2 and {} for full memory (p {}). In the second half it is "
        "{} and {} (p {}).": [f"{forgetting.ROUNDS:,}", *values]
    }


def limits(kept: Kept) -> Sentences:
    """docs/research/benchmarks.md: where AdaptiveTS is not the best choice."""
    left, runs, special = kept.rewards("ablation"), kept.rewards("suite"), kept.rewards("cases")
    flat = [p for p in adaptive.SPECIAL if adaptive.left_without(left, "no hidden layer", p) > 100]
    wheel = special.filter(problem="wheel", agent="AdaptiveTS")["reward"].to_numpy()
    chance = special.filter(problem="wheel", agent="Uniform")["reward"].to_numpy().mean()
    datasets = sorted(set(runs["problem"]))
    behind = 0
    for problem in datasets:
        best, means = adaptive.best_rival(runs, problem)
        behind += means[best] > adaptive.means(runs, problem)[adaptive.OURS]
    amazon: dict[str, Any] = kept.comparisons.filter(problem="amazon", agent="LiM2").row(0, named=True)
    alone = next(row for row in kept.measured("calibration") if row["agent"].endswith("the network alone"))
    shapes = kept.measured("round_time")["rounds"]
    return {
        "On {} AdaptiveTS leads by more without its hidden layer": [listed(flat) if flat else "no problem"],
        "without `reward_range` AdaptiveTS earns {} and the random policy {}. {} of {} runs earn less than the random "
        "policy.": [f"{wheel.mean():,.0f}", f"{chance:,.0f}", int((wheel < chance).sum()), len(wheel)],
        "A rival earns more on {} of the {} datasets": [behind, len(datasets)],
        "On Amazon the difference from LiM2 is {} in {} runs.": [
            f"{amazon['difference']:+,.0f} ± {amazon['half_width']:,.0f}", amazon["pairs"],
        ],
        "as with texts, {} of the 90% intervals contain the true value.": [f"{alone['mean']:.1%}"],
        "By mean, a round takes {} times (Statlog's shape), {} times (Covertype's shape) and {} times (dictionaries, "
        "10 arms) as long as": [
            shapes[name]["mean ratio"] for name in ("Statlog's shape", "Covertype's shape", "Dictionaries, 10 arms")
        ],
    }  # fmt: skip


def items(kept: Kept) -> Sentences:
    """docs/guides/catalogues.md: AdaptiveTS on datasets with items."""
    rows = [row for row in kept.measured("items") if row["problem"] != "catalogue"]
    return {
        "AdaptiveTS earns at least as much as Vowpal Wabbit on {} of {} datasets, and is within 2% of the best lim2 "
        "agent on {}.": [
            sum(row["minus_peer"] >= 0.0 for row in rows), len(rows), sum(row["of_best"] >= CLOSE for row in rows),
        ]
    }  # fmt: skip
