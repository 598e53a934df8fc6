from __future__ import annotations

import json
from pathlib import Path

import pytest
from experiments.made import made
from experiments.test_compare import AFTER, BEFORE
from rich.console import Console
from typer.testing import CliRunner

from lim2.cli import program
from lim2.experiments import benchmark
from lim2.experiments.plan import Run

runner = CliRunner()
SMALL = ("--rounds", "30", "--runs", "2", "--jobs", "2", "--no-report")


@pytest.fixture(autouse=True)
def surroundings(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def run(*words: str) -> tuple[int, str, str]:
    result = runner.invoke(program(), list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_bench_tells_its_way_and_where_the_results_are() -> None:
    words = ("bench", "--problems", "wheel,linear", "--agents", "LinearTS,outside_agents:Cycle", *SMALL)
    code, out, err = run(*words, "--set", "Cycle.step=2", "--set", "wheel.delta=0.5", "--out", "here")
    assert code == 0
    assert "Results: here" in out
    assert "LinearTS" in out
    assert "[12/12] " in err
    assert "rounds/s" in err
    code, out, err = run(*words, "--set", "Cycle.step=2", "--set", "wheel.delta=0.5", "--out", "here")
    assert "12 of 12 runs are here already" in err
    code, out, err = run(*words, "--out", "here", "--quiet")
    assert (code, err, out) == (0, "", "Results: here\n")


def test_a_failure_shows_in_the_status() -> None:
    words = ("bench", "--problems", "wheel", "--agents", "LinearTS,outside_agents:Faulty", *SMALL, "--out", "here")
    code, _, err = run(*words)
    assert code == 1
    assert "error: 2 runs failed; their tracebacks are in the report, which lim2 report here writes:" in err
    assert "wheel / Faulty / seed 0: RuntimeError: no more memory for marbles" in err
    text = Path("outside_agents.py").read_text().replace('raise RuntimeError("no more memory for marbles")', "pass")
    Path("outside_agents.py").write_text(text)
    assert run(*words)[0] == 0  # put right, it is run again


def test_a_failure_of_an_earlier_command_does_not_show_in_the_status() -> None:
    words = ("bench", "--problems", "wheel", "--agents", "LinearTS", *SMALL, "--out", "here")
    assert run(*words, "--set", "LinearTS.a0=-1")[0] == 1
    code, _, err = run(*words, "--set", "LinearTS.a0=7")
    assert code == 0
    assert "failed" not in err
    assert len(list(Path("here/failures").iterdir())) == 2  # which the report of the folder still shows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bench", "--agents", "LiM"), "did you mean 'LiM2'"),
        (("bench", "--problems", "weel"), "did you mean 'wheel'"),
        (("bench", "--set", "LiM2.hiden=3"), "did you mean 'hidden'"),
        (("bench", "--set", "hidden=3"), "expected NAME.setting=value"),
        (("bench", "--csv", "none.csv", "--label", "y"), "there is no file none.csv"),
        (("bench", "--csv", "none.csv"), "must be given together"),
        (("bench", "--delay", "-5"), "delay must be a whole number of rounds, at least 0, not -5"),
        (("bench", "--delay", "soon"), "--delay must be one or several whole numbers, such as 0,100,1000, got 'soon'"),
        (("bench", "--batch", "1.5"), "--batch must be one or several whole numbers"),
        (("bench", "--batch", "64", "--rounds", "50"), "no reward would be learned before the last decision"),
        (("bench", "--on", "moon"), "on must be 'local' or 'ray'"),
        (("bench", "--seed", "-1"), "the seed must be at least 0, got -1"),
        (("bench", "--agents", "broken:Agent"), "the module 'broken' cannot be imported: NameError: name 'x'"),
        (("bench", "--problems", "unsaid:problem"), "the module 'unsaid' cannot be imported: SyntaxError"),
        (("bench", "--agents", "absent.part:Agent"), "there is no module 'absent' here or on PYTHONPATH"),
        (("bench", "--problems", "wheel", "--out", "broken.py"), "the folder broken.py cannot be created: File exists"),
        (("bench", "--suite", "latin.toml"), "is not TOML: 'utf-8' codec"),
        (("bench", "--suite", "none.toml"), "cannot be read"),
        (("bench", "--suite", "zero.toml"), "runs must be a whole number from 1, got 0"),
        (("bench", "--suite", "of.toml", "--agents", "a"), 'needs the entry "of", for example of = "LiM2"'),
        (("paper", "table", "--runs", "0"), "--runs must be at least 1, got 0"),
        (("paper", "table", "--slow-runs", "-2"), "--slow-runs must be at least 1, got -2"),
        (("suite", "openml", "--task", "31", "--runs", "0"), "runs must be at least 1, got 0"),
        (("suite", "openml", "--task", "31", "--out", "broken.py/suite.toml"), "the folder broken.py cannot be"),
        (("report", "nowhere"), "has no results of `lim2 bench`"),
        (("compare", "nowhere", "there"), "has no results of `lim2 bench`"),
        (("compare", "nowhere", "there", "--format", "xml"), "--format must be one of"),
        (("bench", "--nonsense"), "No such option: --nonsense"),
        (("bench", "--rounds", "many"), "Invalid value for '--rounds'"),
        (("compare", "nowhere"), "Missing argument 'OTHER'"),
        (("beench",), "No such command 'beench'"),
        (("paper", "tabel"), "No such command 'tabel'"),
    ],
)
def test_wrong_words_are_told_in_one_line(words: tuple[str, ...], message: str) -> None:
    Path("broken.py").write_text("x\n")
    Path("unsaid.py").write_text("def (\n")
    Path("latin.toml").write_bytes("# größe".encode("latin-1"))
    Path("zero.toml").write_text("runs = 0")
    Path("of.toml").write_text("[variants.a]\nof = 3")
    code, _, err = run(*words)
    assert code == 2
    assert err.startswith("error: ") and message in err
    assert "Traceback" not in err
    assert not list(Path().glob("results/runs/*"))


def test_a_suite_a_table_and_the_command_line_together() -> None:
    Path("own.csv").write_text("x,z,y\n" + "".join(f"{i},{i % 3},{'ab'[i % 2]}\n" for i in range(40)))
    Path("suite.toml").write_text("""
agents = ["LinearTS", "calm"]
runs = 1
rounds = 20
[variants.calm]
of = "LinearTS"
a0 = 60.0
""")
    words = ("bench", "--suite", "suite.toml", "--csv", "own.csv", "--label", "y", "--out", "here", "--no-report", "-q")
    assert run(*words, "--runs", "2")[0] == 0
    rows = json.loads(Path("here/summary.json").read_text())
    assert [(row["problem"], row["agent"], row["runs"], row["rounds"]) for row in rows] == [
        ("own", "LinearTS", 2, 20),
        ("own", "calm", 2, 20),
        ("own", "Uniform", 2, 20),
    ]


def test_delay_and_batch_of_the_command_line_and_of_a_suite() -> None:
    Path("suite.toml").write_text('problems = ["wheel"]\nagents = ["LinearTS"]\ndelay = [0, 3]\nbatch = 4')
    code, out, err = run("bench", "--suite", "suite.toml", *SMALL, "--out", "here")
    assert code == 0
    assert "wheel (delay 3, batch 4) / LinearTS / seed 0: reward" in err
    assert "Normalised score, batch 4: 0 = random policy" in out
    assert "Normalised score, delay 3, batch 4: 0 = random policy" in out
    assert "Mean reward by delay and batch" in out
    code, out, err = run("bench", "--suite", "suite.toml", "--delay", "3", *SMALL, "--out", "here")
    assert "4 of 4 runs are here already" in err  # and what is there of another delay stays in the report
    assert "Mean reward by delay and batch" in out
    code, out, err = run("bench", "--suite", "suite.toml", "--delay", "5", "--batch", "1,2", *SMALL, "--out", "there")
    rows = json.loads(Path("there/summary.json").read_text())
    told = {(row["problem"], row["delay"], row["batch"]) for row in rows}
    assert told == {("wheel (delay 5)", 5, 1), ("wheel (delay 5, batch 2)", 5, 2)}


def test_rounds_are_capped_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own.csv").write_text("x,z,y\n" + "".join(f"{i},{i % 3},{'ab'[i % 2]}\n" for i in range(40)) + "3,1,\n")
    words = ("bench", "--agents", "LinearTS", "--rounds", "70", "--runs", "1", "--no-report", "--out", "here")
    code, _, err = run(*words, "--csv", "own.csv", "--label", "y")
    assert code == 0
    assert "Fewer than 70 rounds, as there are no more rows: own 40." in err  # and a row without a label is none
    assert {row["rounds"] for row in json.loads(Path("here/summary.json").read_text())} == {40}
    assert "Fewer than 70 rounds" in run(*words, "--csv", "own.csv", "--label", "y", "--quiet")[2]  # no progress
    assert "Fewer than" not in run(*words, "--csv", "own.csv", "--label", "y", "--rounds", "30")[2]
    seen: list[Run] = []
    monkeypatch.setattr("lim2.experiments.benchmark.carry_out", lambda runs, *_: seen.extend(runs))
    monkeypatch.setattr("lim2.experiments.benchmark.check_data", lambda _: None)
    many = ("bench", "--problems", "financial,wheel", "--agents", "LinearTS", "--rounds", "100000", "--no-report")
    assert "Fewer than 100,000 rounds, as there are no more rows: financial 3,713." in run(*many, "--out", "there")[2]
    assert {r.rounds for r in seen if r.problem.label == "financial"} == {3713}
    assert {r.rounds for r in seen if r.problem.label == "wheel"} == {100_000}


def test_settings_are_in_the_name_of_the_agent() -> None:
    words = ("bench", "--problems", "wheel", "--agents", "LinearTS", *SMALL, "--out", "here")
    assert run(*words)[0] == 0
    code, out, _ = run(*words, "--set", "lineartS.a0=60.0", "--set", "wheel.delta=0.5")
    assert code == 0
    assert "LinearTS (a0=60.0)" in out
    rows = json.loads(Path("here/summary.json").read_text())
    assert {(row["problem"], row["agent"]) for row in rows} == {("wheel", "LinearTS (a0=60.0)"), ("wheel", "Uniform")}


@pytest.mark.parametrize("width", ["20", "60", "400"])
def test_no_number_is_cut_however_narrow_the_terminal_is(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    many = {("wheel", "LiM2"): [1234567.0, 1234568.5], ("wheel", "Uniform"): [-7654321.25, -7654320.0]}
    made(Path("a"), many)
    made(Path("b"), {where: [value + 1111.0 for value in values] for where, values in many.items()})
    out = run("compare", "a", "b")[1]
    assert "…" not in out
    for number in ("1,234,568 ± 1", "1,235,679 ± 1", "−7,654,321 ± 1", "+1,111", "x 1.00"):
        assert number in out, number
    assert len({len(line) for line in out.splitlines() if line.startswith("│")}) == 1


def test_the_default_needs_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Run] = []
    monkeypatch.setattr("lim2.experiments.benchmark.carry_out", lambda runs, *_: seen.extend(runs))
    monkeypatch.setattr("lim2.experiments.benchmark.Local", object, raising=False)
    assert run("bench", "-q", "--no-report")[0] == 0
    assert {r.problem.label for r in seen} == set(benchmark.PROBLEMS)
    assert {r.agent.label for r in seen} == set(benchmark.AGENTS) >= {"AdaptiveTS", "LiM2"}
    assert {r.rounds for r in seen} == {benchmark.ROUNDS}


def test_report_and_compare() -> None:
    made(Path("a"), BEFORE)
    made(Path("b"), AFTER)
    code, out, err = run("report", "b")
    assert (code, out) == (0, "Report: b/report.html\n")
    assert "2 runs have no result" in err  # the fifth of two agents
    code, out, err = run("compare", "a", "b")
    assert code == 0
    assert "better" in out
    code, out, _ = run("compare", "b", "a", "--fail-if-worse", "--format", "json")
    assert code == 1
    assert [row["verdict"] for row in json.loads(out)] == ["worse", "unclear", "same"]
    code, out, _ = run("compare", "a", "b", "--format", "markdown")
    assert out.startswith("| problem | agent |")


def test_a_terminal_shows_what_went_wrong(outside: Path) -> None:
    agents = ["outside_agents:Mortal", "outside_agents:Faulty"]
    settings = {"Mortal": {"note": str(outside / "deaths")}}
    plan = benchmark.planned(["wheel"], agents, rounds=30, runs=1, settings=settings)
    console = Console(force_terminal=True, width=120, record=True)
    results = benchmark.carried_out(plan, outside / "out", jobs=1, report=False, console=console)
    text = console.export_text()
    assert "wheel / Mortal / seed 0: signal 9 ended its process" in text and "; trying again" in text
    assert "wheel / Faulty / seed 0: failed: RuntimeError: no more memory for marbles" in text
    assert "rounds/s" in text
    assert (results.retried, len(results.failures)) == (1, 1)
