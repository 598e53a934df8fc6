"""What is told of runs: each claim must be able to fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.kept import RESULTS, with_results
from paper.fabricated import rewards, tables
from scipy.stats import ttest_1samp

from lim2.experiments.stats import equivalence_p, pooled_interval
from lim2.paper import ablation, complexity, drift, forgetting, memory, table, table_claims
from lim2.paper.archive import sections_of
from lim2.paper.published import DATASETS, METHODS
from lim2.paper.run import EXPERIMENTS
from lim2.paper.sections import Claim, Section
from lim2.paper.write import headline

RNG = np.random.default_rng(0)


def verdicts(section: Section | None) -> list[str]:
    assert section is not None
    return [claim.verdict for claim in section.claims]


def jittered(mean: float, n: int = 10, spread: float = 1.0) -> list[float]:
    noise = np.random.default_rng(int(abs(mean))).normal(size=n)
    return [mean + spread * float(value) for value in noise]


def as_published(**changed: float) -> dict[tuple[str, str], list[float]]:
    """Return runs that earn what is published, but for some methods."""
    earned: dict[tuple[str, str], list[float]] = {}
    for row in DATASETS:
        for method, (mean, _) in row.raw.items():
            earned[row.problem, method] = jittered(mean + changed.get(method, 0.0))
        earned[row.problem, "Uniform"] = jittered(min(mean for mean, _ in row.raw.values()) - 900)
    return earned


def words(section: Section | None) -> dict[str, str]:
    assert section is not None
    return {claim.text: claim.verdict for claim in section.claims}


def said(section: Section | None, part: str) -> str:
    [found] = [verdict for text, verdict in words(section).items() if part in text]
    return found


def test_the_published_numbers_show_what_the_paper_says() -> None:
    earned = as_published()
    earned["scania", "Uniform"] = jittered(4663)
    section = table.section(rewards(earned))
    apart = {text: verdict for text, verdict in words(section).items() if verdict != "reproduced"}
    assert list(apart.values()) == ["not reproduced", "open", "open"]
    priors, *explanations = apart
    assert "Adding each of the priors" in priors  # its own averages: MM 0.572, Naive 0.588
    assert all("is explained by" in text for text in explanations)
    assert section is not None
    assert [claim.holds for claim in section.criteria] == [True, True]
    raw = section.sheets[1].data
    assert set(raw["verdict"]) <= {"same", ""}
    assert raw.filter(raw["method"] == "LiM2").height == len(DATASETS)


def test_every_claim_on_the_table_can_fail_and_hold() -> None:
    published, worse = table.section(rewards(as_published())), table.section(rewards(as_published(LiM2=-900)))
    for part in (
        "comparable", "One step", "highest average", "each of the priors", "improves on the limited",
        "NTK version on all", "most datasets", "advantage",
    ):  # fmt: skip
        assert said(worse, part) == "not reproduced", part
    assert said(published, "outperforms NeuralUCB and NeuralTS") == "reproduced"
    better = table.section(rewards(as_published(NeuralUCB=3000)))
    assert said(better, "outperforms NeuralUCB and NeuralTS") == "not reproduced"
    for change, part in (
        ({"NeuralLinear": 900}, "even outperforms full memory"),
        ({"LinearTS": 9000}, "performs well, LiM2 outperforms it"),
        ({"LinearTS": -3000}, "linear baseline performs well."),
        ({"NeuralLinearNTK": 900}, "On Census"),
    ):
        assert said(published, part) == "reproduced"
        assert said(table.section(rewards(as_published(**change))), part) == "not reproduced", part
    assert said(published, "act worse than a random policy") == "not reproduced"  # which is made to earn less here
    assert said(table.section(rewards(as_published(LinearTS=900))), "generally not linear") == "not reproduced"
    assert said(better, "perform poorly on the linear datasets") == "not reproduced"


def test_scores_are_of_the_shuffles_that_all_have_played() -> None:
    earned = {("statlog", "LiM2"): [4800.0, 4800, 1000], ("statlog", "Uniform"): [700.0, 700, 700]}
    section = table.section(rewards({**earned, ("statlog", "NeuralUCB"): [4800.0, 4800]}))
    assert section is not None
    scores = dict(section.sheets[0].data.filter(dataset="Statlog").select("method", "ours").iter_rows())
    assert scores["LiM2"] == scores["NeuralUCB"] == 1.0
    assert "2 of 10 runs" in section.sheets[0].rows[0][0].below
    assert section.sheets[0].data["seeds"][0] == 2


def test_what_was_played_is_on_the_label() -> None:
    cells = {("smartphones-66", name): [{"reward": earned, "n_features": 66}] for name, earned in
             (("LiM2", 4800.0), ("Uniform", 700.0))}  # fmt: skip
    section = table.section(tables(cells))
    assert section is not None
    assert section.sheets[0].rows[0][0].below.startswith("d = 66 (paper 561), 6 arms")


def test_short_runs_stand_alone() -> None:
    cells = {cell: [{"reward": r} for r in values] for cell, values in as_published().items()}
    section = table.section(tables(cells, rounds=1000))
    assert set(words(section).values()) == {"open"}
    assert section is not None
    assert not any("paper" in cell.below for sheet in section.sheets for row in sheet.rows for cell in row[1:])
    assert "Nothing is judged" in headline([section])
    assert set(words(forgetting.section(forgetting_tables(runs=2))).values()) == {"open"}


def test_the_headline_counts_the_papers_claims_alone() -> None:
    claims = [Claim("a", True, ""), Claim("b", False, ""), Claim("c", None, "")]
    section = Section("x", "X", "", claims=claims, criteria=[Claim("ours", True, "")])
    outcome = "These runs reproduce 1 of the 3 claims of the paper, do not reproduce 1, and cannot judge 1 (“open”)."
    assert headline([section]) == outcome


@with_results
def test_every_claim_says_where_the_paper_says_it_and_what_shows_it() -> None:
    for section in sections_of(RESULTS).values():
        places = {f"figure-{figure.name}" for figure in section.figures}
        places |= {f"table-{sheet.name}" for sheet in section.sheets}
        for claim in section.claims:
            assert claim.source, claim.text
            assert claim.shown and set(claim.shown) <= places, claim.text


def test_a_worse_lim2_is_reported() -> None:
    section = table.section(rewards(as_published(LiM2=-900)))
    assert section is not None
    assert [claim.holds for claim in section.criteria] == [False, False]
    raw = section.sheets[1].data
    marks = raw.filter((raw["method"] == "LiM2") & (raw["dataset"] != "Financial") & (raw["dataset"] != "Smartphones"))
    assert set(marks["verdict"]) <= {"worse", "same"}
    assert (marks["verdict"] == "worse").sum() >= 8
    assert any("LiM2" in finding and "worse" in finding for finding in section.findings)


def test_some_methods_and_datasets_are_enough() -> None:
    section = table.section(rewards({("statlog", "LiM2"): [4800.0], ("statlog", "Uniform"): [700.0]}))
    assert section is not None
    assert "Census" in section.notes[-1]
    assert len(section.sheets[0].rows) == 3  # Statlog, average, median
    assert table.section(rewards({("wheel", "Uniform"): [1.0]})) is None


def test_the_text_section_is_of_amazon_alone() -> None:
    section = table.text_section(rewards(as_published()))
    assert verdicts(section) == ["reproduced", "reproduced", "open"]
    assert section is not None
    assert [row[0].text for row in section.sheets[0].rows] == ["Amazon"]
    worse = table.text_section(rewards(as_published(LiM2=-800)))
    assert verdicts(worse) == ["not reproduced", "not reproduced", "open"]


def regret_run(level: float, peak: float, seed: int) -> dict[str, Any]:
    at = np.arange(20, 4001, 20)
    instant = level * (1 + 0.1 * np.random.default_rng(seed).normal(size=len(at)))
    since = at % forgetting.PHASE
    instant[(since > 0) & (since <= 100)] += peak
    curve = (instant * 20).cumsum()
    return {"curve_round": at.tolist(), "curve_regret": curve.tolist(), "regret": curve[-1]}


def forgetting_tables(runs: int = 10, **changed: tuple[float, float]) -> Any:
    levels = {
        forgetting.FULL: (0.02, 0.0), forgetting.LIM2: (0.02, 0.0), forgetting.NTK: (0.03, 0.0),
        forgetting.LINEAR: (0.1, 0.0), forgetting.ONLINE: (0.12, 0.0), forgetting.PHASES: (0.06, 0.1),
    }  # fmt: skip
    levels |= {getattr(forgetting, name): value for name, value in changed.items()}
    cells = {
        ("statlog", agent): [regret_run(*level, seed=100 * i + seed) for seed in range(runs)]
        for i, (agent, level) in enumerate(levels.items())
    }
    return tables(cells, rounds=4000)


def test_peaks_are_found_where_they_are() -> None:
    assert verdicts(forgetting.section(forgetting_tables())) == ["reproduced"] * 6
    assert verdicts(forgetting.section(forgetting_tables(PHASES=(0.06, 0.0))))[3] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(LIM2=(0.02, 0.1))))[4] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(ONLINE=(0.02, 0.0))))[2] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(LIM2=(0.04, 0.0))))[1] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(LINEAR=(0.01, 0.0))))[0] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(NTK=(0.01, 0.0))))[5] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(NTK=(0.2, 0.0))))[5] == "not reproduced"


def memory_section(lim2: list[float], naive: list[float], spread: float = 1.0) -> Section | None:
    names = list(memory.METHODS)
    cells = {
        ("statlog", memory._label(name, size)): jittered(value, spread=spread)
        for name, values in zip(names, (lim2, naive), strict=True)
        for size, value in zip(memory.SIZES, values, strict=True)
    }
    return memory.section(rewards(cells))


def test_a_flat_and_a_falling_curve_are_told_apart() -> None:
    flat, falling = [4800.0] * 7, [3000, 3500, 4000, 4400, 4500, 4600, 4700.0]
    assert verdicts(memory_section(flat, falling)) == ["reproduced"] * 3
    assert verdicts(memory_section(falling, flat)) == ["not reproduced", "not reproduced", "reproduced"]
    assert verdicts(memory_section(flat, falling, spread=200.0))[2] == "not reproduced"


def drift_section(changes: list[float]) -> Section | None:
    def run(change: float, seed: int) -> dict[str, Any]:
        values = np.linspace(1.0, 1.0 + change, 5) + 0.001 * seed
        names = ("b,b", "b',b'", "b,b'")
        traces = [{"name": "iteration", "values": [0.0, 50.0, 100.0, 150.0, 200.0]}]
        return {"traces": traces + [{"name": name, "values": values.tolist()} for name in names]}

    cells = {
        ("statlog", drift._label(width)): [run(change, seed) for seed in range(3)]
        for width, change in zip(drift.WIDTHS, changes, strict=True)
    }
    return drift.section(tables(cells))


def test_drift_must_fall_with_the_width() -> None:
    assert verdicts(drift_section([0.4, 0.2, 0.1, 0.05])) == ["reproduced", "reproduced"]
    assert verdicts(drift_section([0.4, 0.2, 0.3, 0.05])) == ["reproduced", "not reproduced"]
    assert verdicts(drift_section([0.4, 0.2, 0.1, 0.001])) == ["not reproduced", "reproduced"]


def test_growth_is_told_from_a_flat_line() -> None:
    at = np.linspace(300, 60_000, 200).round().astype(int)

    def run(slope: float, memory_slope: float) -> dict[str, Any]:
        micro = 500 * (1 + slope * at / at[-1])
        return {
            "curve_round": at.tolist(),
            "curve_seconds": (np.diff(at, prepend=0) * micro / 1e6).cumsum().tolist(),
            "memory_round": at[::10].tolist(),
            "memory_mb": (1.0 + memory_slope * at[::10] / at[-1]).tolist(),
        }

    def told(lim2: tuple[float, float], full: tuple[float, float]) -> list[str]:
        cells = {("statlog", "LiM2"): [run(*lim2)] * 3, ("statlog", "NeuralLinear"): [run(*full)] * 3}
        return verdicts(complexity.section(tables(cells, rounds=60_000)))

    assert told((0.0, 0.0), (3.0, 20.0)) == ["reproduced", "reproduced", "reproduced"]
    assert told((3.0, 0.0), (0.0, 20.0)) == ["not reproduced", "reproduced", "not reproduced"]
    assert told((0.0, 1.0), (3.0, 0.0)) == ["not reproduced", "not reproduced", "reproduced"]


def test_the_ablation_says_which_pieces_matter() -> None:
    cells = {}
    for problem, mean in (("statlog", 4800.0), ("census", 2700.0)):
        base = np.array(jittered(mean, spread=20))
        cells[problem, "Uniform"] = [700.0] * 10
        cells[problem, ablation.PUBLISHED] = base.tolist()
        cells[problem, "no matching step"] = (base + RNG.normal(0, 10, 10)).tolist()
        cells[problem, "no mean prior"] = (base - 300 + RNG.normal(0, 10, 10)).tolist()
        cells[problem, "intercept"] = (base + 100 + RNG.normal(0, 10, 10)).tolist()
    section = ablation.section(rewards(cells))
    assert section is not None
    assert verdicts(section) == ["not reproduced"]
    data = section.sheets[0].data
    words = dict(data.drop_nulls("verdict").select("variant", "verdict").iter_rows())
    assert words == {"no mean prior": "worse", "intercept": "better", "no matching step": "equivalent"}
    expected = 100 * -300 / (2700 - 700)
    found = data.filter((data["variant"] == "no mean prior") & (data["problem"] == "census"))["difference_percent"][0]
    assert found == pytest.approx(expected, rel=0.1)


def test_a_large_difference_of_few_runs_is_undecided_not_none() -> None:
    cells: dict[tuple[str, str], list[float]] = {}
    for problem in ("statlog", "census"):
        cells[problem, "Uniform"] = [700.0] * 2
        cells[problem, ablation.PUBLISHED] = [4800.0, 4700.0]
        cells[problem, "no recount"] = [3200.0, 3400.0]
        cells[problem, "no matching step"] = [4799.0, 4702.0]
        for i in range(6):
            cells[problem, list(ablation.VARIANTS)[2 + i]] = [3000.0 + i, 3600.0]
    section = ablation.section(rewards(cells))
    assert section is not None
    words = dict(section.sheets[0].data.drop_nulls("verdict").select("variant", "verdict").iter_rows())
    assert words["no recount"] == "undecided" and words["no matching step"] == "equivalent"


def test_a_step_that_matters_is_reported() -> None:
    cells: dict[tuple[str, str], list[float]] = {}
    for problem in ("statlog", "census"):
        base = np.array(jittered(2700.0, spread=20))
        cells[problem, "Uniform"] = [700.0] * 10
        cells[problem, ablation.PUBLISHED] = base.tolist()
        cells[problem, ablation.STEP] = (base - 300 + RNG.normal(0, 10, 10)).tolist()
    assert verdicts(ablation.section(rewards(cells))) == ["reproduced"]


def test_equivalence_is_two_one_sided_t_tests() -> None:
    values = np.array([0.4, -0.2, 0.1, 0.3, -0.1])
    sides = (ttest_1samp(values, -1.0, alternative="greater"), ttest_1samp(values, 1.0, alternative="less"))
    assert equivalence_p([values], 1.0) == pytest.approx(max(side.pvalue for side in sides))
    assert (equivalence_p([values], 0.05) or 0.0) > 0.5
    assert equivalence_p([values[:1]], 1.0) is None
    assert equivalence_p([np.ones(3)], 2.0) == 0.0
    assert equivalence_p([np.ones(3)], 0.5) == 1.0


def test_the_interval_of_one_problem_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0])
    mean, half = pooled_interval([values])
    assert mean == pytest.approx(7 / 3)
    assert half == pytest.approx(4.302653 * values.std(ddof=1) / np.sqrt(3), rel=1e-5)


def test_a_claim_has_a_word() -> None:
    assert [Claim("x", holds, "").verdict for holds in (True, False, None)] == ["reproduced", "not reproduced", "open"]
    assert set(METHODS) >= {table_claims.LIM2, table_claims.NTK, *table_claims.SLOW}


def test_the_text_experiment_alone_says_nothing_of_other_datasets() -> None:
    texts = {("amazon", method): [3000.0, 3010.0] for method in ("LiM2", "NeuralLinear", "Uniform")}
    assert EXPERIMENTS["table"].section(rewards(texts)) is None
    assert EXPERIMENTS["text"].section(rewards(texts)) is not None
    some = EXPERIMENTS["table"].section(rewards({("statlog", "LiM2"): [4800.0], ("statlog", "Uniform"): [700.0]}))
    assert some is not None
    [note] = [note for note in some.notes if "Mushroom" in note]
    assert "missing" not in note
