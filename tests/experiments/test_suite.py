"""Suites: one file for the problems and agents of an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from lim2.experiments.names import PlanError
from lim2.experiments.plan import rounds_of
from lim2.experiments.suite import Suite, read_suite
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


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_the_kept_suites_can_be_read(path: Path) -> None:
    read = read_suite(path)
    assert read.problems
