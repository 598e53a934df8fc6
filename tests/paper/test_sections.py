"""What is told of runs: each claim must be able to fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from paper.fabricated import rewards, tables

from lim2.experiments.stats import pooled_interval
from lim2.paper import ablation, complexity, drift, forgetting, memory, table
from lim2.paper.published import DATASETS, METHODS
from lim2.paper.sections import Claim, Section

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


def test_the_published_numbers_show_what_the_paper_says() -> None:
    section = table.section(rewards(as_published()))
    assert verdicts(section)[:4] == ["reproduced"] * 4
    assert verdicts(section)[-1] == "reproduced"
    assert verdicts(table.section(rewards(as_published(NeuralUCB=3000))))[-1] == "not reproduced"
    assert section is not None
    raw = section.sheets[1].data
    assert set(raw["verdict"]) <= {"same", ""}
    assert raw.filter(raw["method"] == "LiM2").height == len(DATASETS)


def test_a_worse_lim2_is_told() -> None:
    section = table.section(rewards(as_published(LiM2=-900)))
    assert verdicts(section)[:5] == ["not reproduced"] * 5
    assert section is not None
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
    assert verdicts(section) == ["reproduced"]
    assert section is not None
    assert [row[0].text for row in section.sheets[0].rows] == ["Amazon"]
    assert verdicts(table.text_section(rewards(as_published(LiM2=-800)))) == ["not reproduced"]


def regret_run(level: float, peak: float, seed: int) -> dict[str, Any]:
    at = np.arange(20, 4001, 20)
    instant = level * (1 + 0.1 * np.random.default_rng(seed).normal(size=len(at)))
    since = at % forgetting.PHASE
    instant[(since > 0) & (since <= 100)] += peak
    curve = (instant * 20).cumsum()
    return {"curve_round": at.tolist(), "curve_regret": curve.tolist(), "regret": curve[-1]}


def forgetting_tables(**changed: tuple[float, float]) -> Any:
    levels = {
        forgetting.FULL: (0.02, 0.0), forgetting.LIM2: (0.02, 0.0), forgetting.NTK: (0.03, 0.0),
        forgetting.LINEAR: (0.1, 0.0), forgetting.ONLINE: (0.12, 0.0), forgetting.PHASES: (0.06, 0.1),
    }  # fmt: skip
    levels |= {getattr(forgetting, name): value for name, value in changed.items()}
    runs = {
        ("statlog", agent): [regret_run(*level, seed=100 * i + seed) for seed in range(10)]
        for i, (agent, level) in enumerate(levels.items())
    }
    return tables(runs, rounds=4000)


def test_peaks_are_found_where_they_are() -> None:
    assert verdicts(forgetting.section(forgetting_tables())) == ["reproduced"] * 6
    assert verdicts(forgetting.section(forgetting_tables(PHASES=(0.06, 0.0))))[0] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(LIM2=(0.02, 0.1))))[1] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(ONLINE=(0.02, 0.0))))[2] == "not reproduced"
    assert verdicts(forgetting.section(forgetting_tables(LIM2=(0.04, 0.0))))[3] == "not reproduced"


def memory_section(lim2: list[float], naive: list[float]) -> Section | None:
    names = list(memory.METHODS)
    cells = {
        ("statlog", memory._label(name, size)): jittered(value)
        for name, values in zip(names, (lim2, naive), strict=True)
        for size, value in zip(memory.SIZES, values, strict=True)
    }
    return memory.section(rewards(cells))


def test_a_flat_and_a_falling_curve_are_told_apart() -> None:
    flat, falling = [4800.0] * 7, [3000, 3500, 4000, 4400, 4500, 4600, 4700.0]
    assert verdicts(memory_section(flat, falling)) == ["reproduced", "reproduced"]
    assert verdicts(memory_section(falling, flat)) == ["not reproduced", "not reproduced"]


def drift_section(changes: list[float]) -> Section | None:
    def run(change: float, seed: int) -> dict[str, Any]:
        values = np.linspace(1.0, 1.0 + change, 5) + 0.001 * seed
        names = ("b,b", "b',b'", "b,b'")
        traces = [{"name": "iteration", "values": [0.0, 50, 100, 150, 200]}]
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
        cells = {("statlog", "LiM2"): [run(*lim2)], ("statlog", "NeuralLinear"): [run(*full)]}
        return verdicts(complexity.section(tables(cells, rounds=60_000)))

    assert told((0.0, 0.0), (3.0, 20.0)) == ["reproduced", "reproduced"]
    assert told((3.0, 0.0), (0.0, 20.0)) == ["not reproduced", "not reproduced"]
    assert told((0.0, 1.0), (3.0, 0.0)) == ["not reproduced", "not reproduced"]


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
    worse, better, same, best = section.findings
    assert worse.startswith("Worse") and "no mean prior" in worse and "intercept" not in worse
    assert better.startswith("Better") and "intercept" in better
    assert "no matching step" in same
    assert "“intercept”" in best
    data = section.sheets[0].data
    expected = 100 * -300 / (2700 - 700)
    found = data.filter((data["variant"] == "no mean prior") & (data["problem"] == "census"))["difference_percent"][0]
    assert found == pytest.approx(expected, rel=0.1)


def test_the_interval_of_one_problem_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0])
    mean, half = pooled_interval([values])
    assert mean == pytest.approx(7 / 3)
    assert half == pytest.approx(4.302653 * values.std(ddof=1) / np.sqrt(3), rel=1e-5)


def test_a_claim_has_a_word() -> None:
    assert [Claim("x", holds, "").verdict for holds in (True, False, None)] == ["reproduced", "not reproduced", "open"]
    assert set(METHODS) >= set(table.NEURAL_LINEAR)
