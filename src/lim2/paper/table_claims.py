"""The paper's claims about its tables of eleven datasets, checked, and what this project requires beyond them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lim2.experiments.report.texts import number, p_value
from lim2.experiments.stats import LEVEL, paired_p, pooled_interval, pooled_p
from lim2.experiments.summary import REFERENCE
from lim2.paper import reasons
from lim2.paper.lines import Line, alike, averages_of, medians_of
from lim2.paper.published import AVERAGE, DATASETS, METHODS, Dataset
from lim2.paper.sections import Claim

Array = NDArray[np.float64]

LIM2, FULL, NTK, MM, NAIVE, LINEAR = (
    "LiM2", "NeuralLinear", "NeuralLinearNTK", "NeuralLinearMM", "NeuralLinearNaive", "LinearTS",
)  # fmt: skip
SLOW = ("NeuralUCB", "NeuralTS")
WELL, POORLY = 0.95, 0.75  # scores
MARGIN = 0.05  # of the score: what counts as comparable
GOAL = 0.90  # of LiM2's average normalised score
BASELINES, DATA = "the paper's baselines", "the data at hand"  # what a failure is attributed to
RANDOM_POLICY = "the paper's random policy"
SECTION, SHOWN = "section 4.4, table 1", ("figure-scores", "table-normalised", "table-raw")
LINEAR_DATASETS = [row for row in DATASETS if row.normalized.get(LINEAR, 0.0) >= WELL]
HARD_DATASETS = [row for row in DATASETS if LINEAR in row.normalized and row.normalized[LINEAR] < POORLY]


def claims(lines: Sequence[Line]) -> list[Claim]:
    """Return the paper's claims on its table, with what the runs show."""
    return [
        _comparable(lines),
        _one_step(lines),
        _highest(lines),
        _each_prior(lines),
        _ahead_everywhere(
            lines, "LiM2 improves on the limited-memory versions without the prior (MM and Naive).", (MM, NAIVE)
        ),
        _some_beat_full_memory(lines),
        _scania(lines),
        _linear_does_well(lines),
        _linear_does_poorly(lines),
        _lim2_beats_linear(lines),
        _advantage(lines),
        _most(lines),
        _poor_on_linear(lines),
        _ntk_ahead(lines),
        _ahead_everywhere(lines, "LiM2 outperforms its NTK version on all datasets.", (NTK,)),
        _census(lines),
        Claim(
            "LiM2 can outperform full memory, which is explained by the noise of matching: an implicit regulariser.",
            None, "not tested: no run separates this cause from others", SECTION, SHOWN,
        ),
        Claim(
            "The lower performance of NeuralUCB and NeuralTS is explained by their exploration in all parameters.",
            None, "not tested: no run separates this cause from others", SECTION, SHOWN,
        ),
    ]  # fmt: skip


def criteria(lines: Sequence[Line]) -> list[Claim]:
    """Return the requirements of this project: its own thresholds, not the paper's."""
    average = averages_of(lines, [LIM2]).get(LIM2)
    played = [line for line in lines if line.problem != "amazon" and LIM2 in line.cells]
    known = [line for line in played if line.title not in reasons.INCOMPARABLE]
    missed = [line.title for line in known if line.cells[LIM2]["reward_mean"] < _lowest(line.published)]
    left_out = [line.title for line in played if line not in known]
    return [
        Claim(
            f"LiM2's average normalised score is at least {GOAL:.2f} (published: {AVERAGE[LIM2]}).",
            None if average is None else average >= GOAL,
            f"{number(average, 3)} over {sum(LIM2 in line.scores for line in lines)} datasets",
            shown=SHOWN,
        ),
        Claim(
            "On all comparable tabular datasets except one, LiM2's mean reward is at most one published standard "
            "deviation below the published mean.",
            len(missed) <= 1 if len(known) == len(DATASETS) - 1 - len(reasons.INCOMPARABLE) else None,
            f"on {len(known) - len(missed)} of {len(known)}"
            + (f"; not on {', '.join(missed)}" if missed else "")
            + (f"; {' and '.join(left_out)} cannot be compared" if left_out else ""),
            shown=SHOWN,
        ),
    ]


def text_claims(line: Line) -> list[Claim]:
    """Return the paper's claims on the text experiment."""
    source, shown = "introduction; section 4.5, table 1", ("table-text",)
    methods = (LIM2, FULL, NTK, MM, NAIVE)
    impractical = Claim(
        "With inputs of 7,000 dimensions, the linear baseline is not computationally practical.",
        None, "not tested: LinearTS is not run on texts here", source, shown,
    )  # fmt: skip
    if not line.has(*methods):
        return [impractical]
    full = line.differences(LIM2, FULL)
    share, half = pooled_interval([full / line.span])
    least = share - half
    others = {method: line.differences(LIM2, method) for method in (NTK, MM, NAIVE)}
    return [
        Claim(
            "With a convolutional network, LiM2 also performs as well as full memory.",
            bool(share >= -MARGIN),
            f"LiM2 minus full memory: {_signed(float(full.mean()))} ({len(full)} runs, p {p_value(_p(full))}), that is "
            f"{100 * share:+.1f}% of the span from random to best; the 95% interval starts at {100 * least:+.1f}%",
            source,
            shown,
        ),
        Claim(
            "With a convolutional network, LiM2 performs better than the NTK version, MM and Naive.",
            all(float(d.mean()) > 0 for d in others.values()),
            "LiM2 minus " + ", minus ".join(f"{m} {_signed(float(d.mean()))} ({len(d)} runs, p {p_value(_p(d))})"
                                      for m, d in others.items()),
            source,
            shown,
        ),
        impractical,
    ]  # fmt: skip


def _lowest(row: Dataset) -> float:
    mean, std = row.raw[LIM2]
    return mean - std


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value, 0)}"


def _pooled(lines: Sequence[Line], first: str, second: str) -> tuple[list[Array], str]:
    """Return paired differences of scores, an array per dataset, and the sentence that gives their mean."""
    played = [line for line in lines if line.has(first, second, REFERENCE) and line.scores]
    groups = [line.differences(first, second) / line.span for line in played]
    if not groups:
        return [], "not run"
    mean, half = pooled_interval(groups)
    text = f"{first} minus {second} {number(mean, 3)} ± {number(half, 3)} over {len(groups)} datasets"
    text += f" with {_range([len(group) for group in groups])} runs each"
    return groups, f"{text}, p {p_value(pooled_p(groups))}"


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts, default=0), max(counts, default=0)
    return str(least) if least == most else f"{least} to {most}"


def _better(groups: list[Array]) -> bool:
    p = pooled_p(groups)
    return p is not None and p < LEVEL and pooled_interval(groups)[0] > 0


def _not_below(groups: list[Array]) -> bool | None:
    """Say whether the 95% interval of the mean lies above minus the margin."""
    if pooled_p(groups) is None:
        return None
    mean, half = pooled_interval(groups)
    return mean - half > -MARGIN


def _comparable(lines: Sequence[Line]) -> Claim:
    groups, text = _pooled(lines, LIM2, FULL)
    return Claim(
        "With limited memory, LiM2 achieves a performance comparable to that of unlimited memory.",
        _not_below(groups),
        f"difference in score: {text} (an interval above -{MARGIN} counts as comparable)",
        f"abstract; {SECTION}",
        SHOWN,
    )


def _one_step(lines: Sequence[Line]) -> Claim:
    groups, text = _pooled(lines, LIM2, FULL)
    return Claim(
        "One step per round (P = 1), for the network and for matching, is enough to be competitive.",
        _not_below(groups),
        "LiM2 has P = 1 in all runs, while full memory trains 800 batches every 400 rounds. Difference in score: "
        f"{text}. More steps were not run.",
        "section 3; summary",
        SHOWN,
    )


def _highest(lines: Sequence[Line]) -> Claim:
    """Compare on the datasets that all methods play: an average with Amazon is not one without."""
    there = alike(lines, METHODS)
    averages, medians = averages_of(there), medians_of(there)
    everywhere = number(averages_of(lines).get(LIM2), 3)
    return Claim(
        "LiM2 has the highest average and the highest median score of all methods.",
        _first_two(averages)[0] == LIM2 == _first_two(medians)[0] if there else None,
        f"over the {len(there)} datasets that all methods play, the highest averages are {_named(averages)}, the "
        f"highest medians {_named(medians)}; over all of its datasets LiM2's average is {everywhere}"
        if there
        else f"not every method was played; LiM2's average is {everywhere}",
        "table 1",
        SHOWN,
        BASELINES,
    )


def _first_two(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda method: -scores[method])[:2]


def _named(scores: dict[str, float]) -> str:
    return " and ".join(f"{method} {number(scores[method], 3)}" for method in _first_two(scores))


def _each_prior(lines: Sequence[Line]) -> Claim:
    mean, mean_text = _pooled(lines, MM, NAIVE)
    covariance, covariance_text = _pooled(lines, LIM2, MM)
    tested = pooled_p(mean) is not None and pooled_p(covariance) is not None
    return Claim(
        "Adding each of the priors improves the performance: first the prior mean (from Naive to MM), then the prior "
        "covariance (from MM to LiM2).",
        _better(mean) and _better(covariance) if tested else None,
        f"difference in score: {mean_text}; {covariance_text} (published averages: Naive {AVERAGE[NAIVE]}, MM "
        f"{AVERAGE[MM]}, LiM2 {AVERAGE[LIM2]})",
        "section 4, methods",
        SHOWN,
    )


def _ahead_everywhere(lines: Sequence[Line], text: str, others: tuple[str, ...]) -> Claim:
    played = [line for line in lines if line.has(LIM2, *others)]
    lost = [line.title for line in played if any(line.differences(LIM2, m).mean() <= 0 for m in others)]
    clear = sum(all(_clearly_positive(line.differences(LIM2, m)) for m in others) for line in played)
    return Claim(
        text,
        not lost if played else None,
        f"LiM2's mean reward is higher on {len(played) - len(lost)} of {len(played)} datasets; each dataset tested "
        f"alone, significantly (p < {LEVEL}) on {clear}{'; not on ' if lost else ''}{', '.join(lost)}",
        f"introduction; {SECTION}",
        SHOWN,
    )


def _p(differences: Array) -> float | None:
    return paired_p(differences, np.zeros_like(differences))


def _clearly_positive(differences: Array) -> bool:
    p = _p(differences)
    return p is not None and p < LEVEL and bool(differences.mean() > 0)


def _clearly_ahead(lines: Sequence[Line], first: str, second: str) -> list[str]:
    played = [line for line in lines if line.has(first, second)]
    return [line.title for line in played if _clearly_positive(line.differences(first, second))]


def _some_beat_full_memory(lines: Sequence[Line]) -> Claim:
    ahead, behind = _clearly_ahead(lines, LIM2, FULL), _clearly_ahead(lines, FULL, LIM2)
    return Claim(
        "In some cases LiM2 even outperforms full memory.",
        bool(ahead) if any(line.has(LIM2, FULL) for line in lines) else None,
        f"LiM2 is significantly ahead on {', '.join(ahead) or 'none'}; significantly behind on "
        f"{', '.join(behind) or 'none'}",
        SECTION,
        SHOWN,
    )


def _scania(lines: Sequence[Line]) -> Claim:
    scania = next((line for line in lines if line.problem == "scania" and line.has(MM, NAIVE, REFERENCE)), None)
    means = {m: scania.cells[m]["reward_mean"] for m in (MM, NAIVE, REFERENCE)} if scania else {}
    return Claim(
        "On Scania Trucks, the versions without a prior (MM, Naive) act worse than a random policy, which earns 4,663.",
        max(means[MM], means[NAIVE]) < means[REFERENCE] if means else None,
        "mean reward: "
        + ", ".join(f"{'random' if m == REFERENCE else m} {number(mean, 0)}" for m, mean in means.items()),
        SECTION,
        SHOWN,
        RANDOM_POLICY,
    )


def _score_list(lines: Sequence[Line], method: str, rows: Sequence[Dataset]) -> str:
    scores = {line.title: line.scores[method] for line in lines if method in line.scores}
    return ", ".join(f"{row.title} {number(scores.get(row.title), 2)} ({row.normalized[method]:.2f})" for row in rows)


def _linear_does_well(lines: Sequence[Line]) -> Claim:
    well = [line.title for line in lines if line.scores.get(LINEAR, 0.0) >= WELL]
    return Claim(
        "On some datasets the linear baseline performs well.",
        bool(well) if any(LINEAR in line.scores for line in lines) else None,
        f"LinearTS scores at least {WELL} on {', '.join(well) or 'none'}",
        SECTION,
        SHOWN,
    )


def _linear_does_poorly(lines: Sequence[Line]) -> Claim:
    titles = [row.title for row in HARD_DATASETS]
    played = [line for line in lines if line.title in titles and LINEAR in line.scores]
    poor = sum(line.scores[LINEAR] < POORLY for line in played)
    return Claim(
        "Rewards are generally not linear; on such datasets, the linear baseline performs poorly.",
        2 * poor > len(played) if len(played) == len(titles) else None,
        f"LinearTS's published score is below {POORLY} on {len(titles)} datasets; here it is below on {poor} of them: "
        f"{_score_list(lines, LINEAR, HARD_DATASETS)}, with the published score in brackets",
        SECTION,
        SHOWN,
        DATA,
    )


def _lim2_beats_linear(lines: Sequence[Line]) -> Claim:
    titles = [row.title for row in LINEAR_DATASETS]
    ahead = _clearly_ahead([line for line in lines if line.title in titles], LIM2, LINEAR)
    return Claim(
        "Even on some datasets where the linear baseline performs well, LiM2 outperforms it.",
        bool(ahead) if any(line.has(LIM2, LINEAR) for line in lines) else None,
        f"of the datasets {', '.join(titles)}, LiM2 is significantly ahead on {', '.join(ahead) or 'none'}",
        SECTION,
        SHOWN,
    )


def _advantage(lines: Sequence[Line]) -> Claim:
    found = [_pooled(lines, LIM2, method) for method in (NTK, *SLOW)]
    tested = all(pooled_p(groups) is not None for groups, _ in found)
    return Claim(
        "LiM2 has an advantage over the NTK-based algorithms (NTK version, NeuralUCB, NeuralTS).",
        all(_better(groups) for groups, _ in found) if tested else None,
        f"difference in score: {'; '.join(text for _, text in found)} (p < {LEVEL} counts as an advantage)",
        "introduction",
        SHOWN,
        BASELINES,
    )


def _listed(averages: dict[str, float]) -> str:
    return ", ".join(f"{m} {number(averages[m], 3)}" for m in sorted(averages, key=lambda m: -averages[m]))


def _most(lines: Sequence[Line]) -> Claim:
    played = [line for line in lines if line.has(LIM2, *SLOW)]
    lost = [line.title for line in played if any(line.differences(LIM2, m).mean() <= 0 for m in SLOW)]
    return Claim(
        "LiM2 performs better than NeuralUCB and NeuralTS on most datasets, except on Scania Trucks.",
        2 * len(lost) < len(played) if played else None,
        f"LiM2's mean reward is higher than both on {len(played) - len(lost)} of {len(played)} datasets with "
        f"{_range([len(line.seeds) for line in played])} runs each"
        f"{'; not on ' if lost else ''}{', '.join(lost)}",
        SECTION,
        SHOWN,
    )


def _poor_on_linear(lines: Sequence[Line]) -> Claim:
    titles = [row.title for row in LINEAR_DATASETS]
    there = alike([line for line in lines if line.title in titles], SLOW)
    averages = averages_of(there, SLOW)
    published = {m: np.mean([row.normalized[m] for row in LINEAR_DATASETS]) for m in SLOW}
    return Claim(
        f"NeuralUCB and NeuralTS perform poorly on the linear datasets ({', '.join(titles)}).",
        max(averages.values()) < POORLY if len(there) == len(titles) else None,
        "average score there: "
        + ", ".join(f"{m} {number(averages.get(m), 2)} (published {published[m]:.2f})" for m in SLOW)
        + f", over {_range([len(line.seeds) for line in there])} runs; below {POORLY} counts as poor",
        SECTION,
        SHOWN,
        BASELINES,
    )


def _ntk_ahead(lines: Sequence[Line]) -> Claim:
    methods = (NTK, *SLOW)
    there = alike(lines, methods)
    averages = averages_of(there, methods)
    return Claim(
        "The NTK version of LiM2 outperforms NeuralUCB and NeuralTS.",
        max(averages, key=lambda m: averages[m]) == NTK if averages else None,
        f"average scores over {len(there)} datasets with {_range([len(line.seeds) for line in there])} runs each: "
        f"{_listed(averages)}",
        SECTION,
        SHOWN,
        BASELINES,
    )


def _census(lines: Sequence[Line]) -> Claim:
    census = [line for line in lines if line.problem == "census" and line.has(LIM2, NTK)]
    difference = census[0].differences(LIM2, NTK) if census else np.empty(0)
    p = _p(difference)
    return Claim(
        "On Census the gap between LiM2 and its NTK version is significant.",
        None if p is None else bool(p < LEVEL and difference.mean() > 0),
        f"difference in reward: {_signed(float(difference.mean()))}, p {p_value(p)}" if census else "not run",
        SECTION,
        SHOWN,
    )
