"""Suites: one file for what is played, what is tuned on, and what is judged on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lim2.experiments.names import PlanError
from lim2.experiments.plan import Plan, rounds_of
from lim2.experiments.suite import Suite, Tuning, read_suite
from lim2.experiments.tune import parts
from lim2.problems.registry import names

HERE = Path(__file__).parents[2] / "benchmarks" / "suites"


def suite(folder: Path, text: str) -> Suite:
    path = folder / "suite.toml"
    path.write_text(text)
    return read_suite(path)


def table(path: Path, rows: int = 30, shift: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{i + shift},{i % 3}, {'ab'[i % 2]}\n" for i in range(rows)))
    return path


TABLES = '[variants.many]\ncsv = "tables/*.dat"\nlabel = -1\nheader = false\n'


def test_patterns_of_names_and_of_files(tmp_path: Path) -> None:
    table(tmp_path / "tables" / "one.dat"), table(tmp_path / "tables" / "two.x.dat", rows=20, shift=1)
    read = suite(tmp_path, 'problems = ["smart*", "many"]\n' + TABLES)
    found = read.problems_of(read.problems)
    smart = [name for name in names() if name.startswith("smart")]
    assert [spec.label for spec in found] == [*smart, "one", "two"]
    assert [spec.rows for spec in found[len(smart) :]] == [30, 20]
    assert found[-1].settings == {"label": -1, "header": False}
    with pytest.raises(PlanError, match=r"no problem matches 'zz\*'"):
        read.problems_of(["zz*"])
    with pytest.raises(PlanError, match=r"no file matches none/\*.dat \(looked in"):
        suite(tmp_path, TABLES.replace("tables/", "none/")).problems_of(["many"])


def test_tables_are_also_found_beside_the_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path / "data" / "tables" / "one.dat")
    monkeypatch.setenv("LIM2_DATA", str(tmp_path / "data"))
    assert [spec.label for spec in suite(tmp_path, TABLES).problems_of(["many"])] == ["one"]
    single = suite(tmp_path, TABLES.replace("*", "one"))
    assert [spec.label for spec in single.problems_of(["many"])] == ["many"]


def test_a_short_table_is_played_to_its_end(tmp_path: Path) -> None:
    table(tmp_path / "tables" / "one.dat")
    [spec] = suite(tmp_path, TABLES).problems_of(["many"])
    assert (rounds_of(spec, 1000), rounds_of(spec, 10), rounds_of(spec, None)) == (30, 10, "all")


def test_the_part_to_tune_on(tmp_path: Path) -> None:
    read = suite(
        tmp_path,
        'problems = ["wheel"]\n[tune]\nproblems = ["linear"]\nseed = 7\nruns = 3\nrounds = 50\n'
        "[tune.space.LiM2]\nsteps = { low = 1, high = 2 }",
    )
    assert read.tune == Tuning(("linear",), 50, 3, 7, {"LiM2": {"steps": {"low": 1, "high": 2}}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tune = 3", "tune must be a table, [tune]"),
        ("[tune]\nagents = ['LiM2']", "unknown entry 'tune.agents'"),
        ("[tune]\nseed = 1.5", "tune.seed must be a whole number"),
        ("[tune]\nproblems = 'wheel'", "tune.problems must be a list of names"),
        ("[tune]\nspace = 3", "tune.space must have a table for each agent"),
    ],
)
def test_a_wrong_part_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        suite(tmp_path, text)


def both(folder: Path, text: str) -> tuple[Plan, Plan]:
    read = suite(folder, text)
    return parts(read, read.agent("LinearTS"))


def test_the_parts_of_a_suite(tmp_path: Path) -> None:
    text = 'problems = ["wheel"]\nrounds = 40\nruns = 2\n[tune]\nproblems = ["linear"]\n'
    tuning, evaluation = both(tmp_path, text)
    assert [spec.label for spec in tuning.problems] == ["linear"]
    assert [spec.label for spec in evaluation.problems] == ["wheel"]
    assert (tuning.rounds, len(tuning.seeds), evaluation.seeds) == (40, 2, (0, 1))
    assert not set(tuning.seeds) & set(evaluation.seeds)


def test_an_overlap_is_refused(tmp_path: Path) -> None:
    text = 'problems = ["wheel", "linear"]\nrounds = 40\nruns = 5\n[tune]\nproblems = ["nonlinear"]\nseed = 4\n'
    with pytest.raises(PlanError, match=r"seed 4 is in the tuning part \(seeds 4 to 5\) and in the evaluation part"):
        both(tmp_path, text)
    same = '[variants.other]\nof = "wheel"\ndelta = 0.9\n'
    with pytest.raises(PlanError, match=r"'other' of \[tune\] and 'wheel' of the evaluation part have the same data"):
        both(tmp_path, text.replace('"nonlinear"', '"other"').replace("seed = 4", "seed = 9") + same)
    table(tmp_path / "tables" / "one.dat"), table(tmp_path / "again.dat")  # the same contents under another name
    again = '[variants.again]\ncsv = "again.dat"\nlabel = -1\nheader = false\n'
    with pytest.raises(PlanError, match=r"'one' of .tune. and 'again' of the evaluation part have the same data"):
        both(tmp_path, 'problems = ["again"]\n[tune]\nproblems = ["many"]\n' + TABLES + again)
    with pytest.raises(PlanError, match="has no problems for the evaluation"):
        both(tmp_path, '[tune]\nproblems = ["linear"]\n')
    for rest in ("", "[tune]\nseed = 9\n"):
        with pytest.raises(PlanError, match="has no problems to tune on"):
            both(tmp_path, 'problems = ["linear"]\n' + rest)


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_the_kept_suites_can_be_read(path: Path) -> None:
    read = read_suite(path)
    assert read.problems
