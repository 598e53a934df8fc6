"""What the pages say follows from the kept runs: in CI, and it fails when a run or a page is changed by hand."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from helpers.kept import with_results

import lim2
from benchmarks import past_the_paper, sentences, statements
from benchmarks.kept import ROOT, Kept
from benchmarks.risky import risky
from lim2 import problems
from lim2.experiments.runner import play
from lim2.paper import ablation
from lim2.paper.published import METHODS

pytestmark = with_results


@pytest.fixture(scope="module")
def ours() -> Kept:
    """Return what is kept."""
    return Kept()


def test_every_statement_follows_from_the_kept_runs(ours: Kept) -> None:
    assert statements.problems(ours) == [], "run `python -m benchmarks.statements --write`"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of what is kept, with the pages."""
    for name in statements.TABLES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results", ignore=shutil.ignore_patterns("*.png"))
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    return tmp_path


def wrong(kept: Kept, page: str) -> list[str]:
    """Return what the runs do not give of a page."""
    return statements.renewed(page, (kept.root / page).read_text(), kept)[1]


def with_changed_run(file: Path, by: float, **of: object) -> None:
    """Change the reward of one run by hand."""
    read, write = (
        (pl.read_csv, pl.DataFrame.write_csv)
        if file.suffix == ".csv"
        else (pl.read_parquet, pl.DataFrame.write_parquet)
    )
    runs = read(file)
    one = pl.all_horizontal(pl.col(name) == value for name, value in of.items())
    assert runs.filter(one).height == 1
    write(runs.with_columns(reward=pl.when(one).then(pl.col("reward") + by).otherwise(pl.col("reward"))), file)


def test_a_run_of_the_papers_table_that_was_changed_is_found(ours: Kept, copy: Path) -> None:
    table = copy / "docs" / "results" / "runs" / "table.parquet"
    with_changed_run(table, 4000.0, problem="mushroom", agent="NeuralUCB", seed=1)
    kept = Kept(copy)
    assert "docs/research/results.md: the table 'paper' is not what the kept runs give" in wrong(
        kept, "docs/research/results.md"
    )
    [told] = [line for line in wrong(kept, "docs/research/reproduction.md") if "earns {} in the paper" in line]
    assert told.startswith(
        "docs/research/reproduction.md: “earns {} in the paper: it learns to eat nothing. Here {} of {} runs"
    )
    assert "”: −32, 5, 10, 12,005 should be −32, " in told
    assert statements.digests(kept) != (kept.results / statements.DIGESTS).read_text()


def test_a_report_of_other_runs_is_found(ours: Kept, copy: Path) -> None:
    page = (ours.results / "report.html").read_text()
    with_changed_run(copy / "docs" / "results" / "runs" / "table.parquet", 40.0, problem="adult", agent="LiM2", seed=1)
    found = statements.unshown(page, list(Kept(copy).sections.values()))
    assert len([text for text in found if text.startswith("Adult")]) == 2  # of both tables
    assert any(
        path.suffix == ".tex" and path.read_text() != text for path, text in statements.made_files(Kept(copy)).items()
    )


def test_a_fresh_run_that_was_changed_a_little_is_found(ours: Kept, copy: Path) -> None:
    runs = copy / "docs" / "results" / "past-the-paper" / "runs.csv"
    with_changed_run(runs, 1.0, problem="statlog", agent="LiM2", seed=1003)
    kept = Kept(copy)
    assert kept.comparisons.write_csv() != (kept.past / "against.csv").read_text()
    assert statements.digests(kept) != (kept.results / statements.DIGESTS).read_text()
    with_changed_run(runs, 4000.0, problem="census", agent="LiM2 intercept", seed=1003)
    assert wrong(ours, "README.md") == []
    assert [line for line in wrong(Kept(copy), "README.md") if "it is ahead on {} of {}" in line]


def test_the_page_on_what_carries_the_result_reads_its_table_rightly(ours: Kept) -> None:
    """docs/research/ablation.md; its table is tested by tests/test_readme.py."""
    rows = ours.sheet("ablation", "ablation").select("variant", "problem", "difference_percent").iter_rows()
    apart = {(str(variant), str(problem)): float(percent) for variant, problem, percent in rows}
    assert -60.0 < apart["no mean prior", "all"] < -40.0  # "about half of the lead is lost"
    matching = {variant: apart[variant, "all"] for variant, _ in apart if "matching" in variant[:14]}
    assert set(matching) >= {"no matching step", "matching by sample", "matching rate x 10", "matching solved"}
    assert max(map(abs, matching.values())) < 5.0  # "it matters little"
    assert apart["intercept", "all"] > 5 * max(map(abs, matching.values()))
    by_dataset = [apart["intercept", name] for name in ablation.PROBLEMS]
    assert max(by_dataset) == apart["intercept", "epileptic"]  # "above all on Epileptic"
    recount = [apart["no recount", name] < 0.0 for name in ablation.PROBLEMS]
    assert sorted(recount) == [False, True, True, True]  # "helps on three datasets and hurts on the fourth"


def test_the_guide_for_users_of_vowpal_wabbit_does_not_promise_too_much(ours: Kept) -> None:
    """docs/guides/from-vowpal-wabbit.md: "On most of the problems where both were measured, lim2 earned more"."""
    ahead = [rival["difference"] > 0 for rival in past_the_paper.judged(ours.comparisons)["peers"].values()]
    ahead += [row["minus_peer"] > 0 for row in ours.measured("items")]
    assert sum(ahead) > 0.6 * len(ahead)


REPLAYED = past_the_paper.PROBLEMS if os.environ.get("LIM2_REPLAYS") else ["statlog"]


@pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="needs Statlog: set LIM2_DATA to its folder")
@pytest.mark.parametrize("problem", REPLAYED)
def test_the_kept_runs_are_of_the_agent_in_the_repository(problem: str) -> None:
    runs = past_the_paper.read_runs([Kept().past]).filter(problem=problem, agent="AdaptiveTS", seed=1000)
    rounds, reward = runs.select("rounds", "reward").row(0)
    made = risky(rounds, 1000) if problem == "risky" else problems.load(problem, rounds=rounds, seed=1000)
    assert isinstance(made, problems.Problem)
    arms = play(lim2.AdaptiveTS(made.n_arms, made.n_features, seed=1000), made).arms
    assert made.earned(arms, 0).sum() == pytest.approx(reward)


@pytest.mark.skipif(not os.environ.get("LIM2_REPLAYS"), reason="a long form: set LIM2_REPLAYS, and see the Makefile")
@pytest.mark.parametrize("method", [method for method in METHODS if method not in sentences.SLOW])
def test_the_kept_runs_of_the_paper_are_of_the_methods_in_the_repository(method: str, ours: Kept) -> None:
    """Bit for bit with OPENBLAS_CORETYPE=Haswell; other kernels round otherwise."""
    for title, seed in (("Statlog", 1), ("Jester", 0)):
        line = ours.line(title)
        made = problems.load(line.problem, rounds=5000, seed=seed)
        assert isinstance(made, problems.Problem)
        arms = play(lim2.AGENTS[method](made.n_arms, made.n_features, seed=seed), made).arms
        assert made.earned(arms, 0).sum() == pytest.approx(line.rewards[method][seed])


def test_a_number_that_was_changed_on_a_page_is_named_and_put_right(ours: Kept) -> None:
    page = "docs/research/benchmarks.md"
    text = (ROOT / page).read_text()
    changed = text.replace("over the 27 tests", "over the 28 tests")
    assert changed != text
    right, [told] = statements.renewed(page, changed, ours)
    assert right == text
    assert told.endswith("tests of the table”: 5%, 28 should be 5%, 27")
    _, [told] = statements.renewed(page, text.replace("over the 27 tests", "over all tests"), ours)
    assert told.endswith("” is not on the page")


def test_a_page_without_its_table_is_an_error(ours: Kept) -> None:
    with pytest.raises(SystemExit, match="one passage <!-- worlds -->"):
        statements.renewed("docs/research/benchmarks.md", "nothing", ours)
