from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.made import made
from paper.fabricated import tables as fabricated

from lim2.experiments.benchmark import Results, finish
from lim2.experiments.report.content import content_of
from lim2.experiments.report.write import page_of, shades_of
from lim2.experiments.store import Store
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables

REWARDS = {
    ("wheel", "LiM2"): [100.0, 110.0, 104.0, 99.0],
    ("wheel", "LinearTS"): [99.0, 109.5, 104.5, 98.0],
    ("wheel", "Uniform"): [50.0, 48.0, 52.0, 50.0],
    ("linear", "LiM2"): [80.0, 82.0, 81.0, 80.0],
    ("linear", "LinearTS"): [90.0, 91.5, 91.0, 90.5],
    ("linear", "Uniform"): [10.0, 10.0, 11.0, 9.0],
}
PLOTS = ("cumulative-regret", "regret-per-round", "reward-against-time", "memory")


class Page(HTMLParser):
    """Collects what a page is made of, and checks that its tags are closed in order."""

    VOID = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        self.links += [str(values[key]) for key in ("href", "src") if values.get(key)]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return finish(made(tmp_path_factory.mktemp("results"), REWARDS))


def test_page_stands_alone_and_is_whole(results: Results) -> None:
    text = results.report.read_text()
    page = Page(text)
    assert page.tags["figure"] == 2 + 1 + 2 * 3  # over all, in pairs, of each problem
    assert [name for name, count in Counter(page.ids).items() if count > 1] == []
    inside = {link for link in page.links if link.startswith("#")}
    beside = set(page.links) - inside
    assert {link[1:] for link in inside} <= set(page.ids)
    assert beside and all((results.folder / link).is_file() for link in beside)  # shown without JavaScript alone
    assert beside == set(re.findall(r'<noscript><img src="([^"]+)"', text))
    assert "default-src 'none'" in text and "connect-src" not in text


def test_colours_follow_the_scheme(results: Results) -> None:
    text = results.report.read_text()
    assert "@media (prefers-color-scheme: dark)" in text
    assert "--c0: #2160c4" in text.replace("--c0:#", "--c0: #") and "#78aeff" in text


def test_what_a_reader_looks_for(results: Results) -> None:
    text = Page(results.report.read_text()).text
    for words in ("Leaderboard", "Normalised score by problem", "Repeat it", "wheel", "linear", "lim2 bench"):
        assert words in text
    assert "LinearTS ranks first, with a mean normalised score of 1.00 over 2 problems." in text
    assert "103 ± 5" not in text
    assert "103.2 ± 5.0" in text
    assert "lim2 bench --agents '<b>&'" in text  # as typed, not as tags
    assert "<b>&" not in results.report.read_text()


def test_figures_are_beside_it(results: Results) -> None:
    folder = results.folder / "figures"
    names = {f"{problem}-{plot}" for problem in ("wheel", "linear") for plot in PLOTS}
    names |= {"all-scores", "all-score-against-time"}
    assert {path.stem for path in folder.glob("*.png")} == {path.stem for path in folder.glob("*.svg")} == names
    for path in folder.glob("*.svg"):
        ET.fromstring(path.read_text())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))


def test_markdown_and_latex(results: Results) -> None:
    text = (results.folder / "report.md").read_text()
    assert "| 1 | **LinearTS** | **1.000** |" in text or "| 1 | **LinearTS** |" in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (results.folder / link).exists()
    table = (results.folder / "tables" / "normalized.tex").read_text()
    assert table.count("&") == 2 * 5
    assert r"\textbf{1.000}" in table
    assert "Uniform" not in table
    rewards = (results.folder / "tables" / "rewards.tex").read_text()
    assert r"\textbf{103.2} $\pm$ 5.0" in rewards


def test_tables_as_csv(results: Results) -> None:
    folder = results.folder / "tables"
    board = pl.read_csv(folder / "leaderboard.csv")
    assert board["agent"].to_list() == ["LinearTS", "LiM2", "Uniform"] and board["rank"].to_list() == [1, 2, 3]
    every = pl.read_csv(folder / "runs.csv")
    assert every.filter(problem="wheel", agent="LiM2")["reward"].to_list() == REWARDS["wheel", "LiM2"]
    assert len(pl.read_csv(folder / "results.csv")) == len(results.rows)


def test_the_same_results_make_the_same_report(results: Results) -> None:
    paths = [path for path in results.folder.rglob("*.*") if path.suffix in (".html", ".md", ".svg", ".tex")]
    before = {path: path.read_bytes() for path in paths}
    finish(Store(results.folder))
    assert {path: path.read_bytes() for path in before} == before


def test_significance(results: Results) -> None:
    tables = Tables(results.runs, results.rows)
    wheel = {entry.row["agent"]: entry for entry in tables.of("wheel")}
    assert wheel["LiM2"].best
    assert wheel["LiM2"].p is None
    assert wheel["LinearTS"].tied  # half a point of 100
    assert not wheel["Uniform"].tied
    linear = {entry.row["agent"]: entry for entry in tables.of("linear")}
    assert linear["LinearTS"].best
    assert not linear["LiM2"].tied
    assert linear["LiM2"].p is not None
    assert linear["LiM2"].p < 0.001


def test_leaderboard_is_the_papers(results: Results) -> None:
    first, second, last = Tables(results.runs, results.rows).leaderboard
    assert [first.agent, second.agent, last.agent] == ["LinearTS", "LiM2", "Uniform"]
    assert last.mean == last.median == 0.0
    expected = [(102.75 - 50) / (103.25 - 50), 1.0]
    assert first.mean == pytest.approx(sum(expected) / 2)
    assert first.mean_rank == 1.5
    assert first.p is None
    assert second.p is not None


def test_an_agent_that_is_not_everywhere_comes_after(tmp_path: Path) -> None:
    store = made(tmp_path, {**REWARDS, ("wheel", "NeuralLinear"): [200.0] * 4})
    runs, _ = store.frames()
    board = Tables(runs, summarize(runs)).leaderboard
    assert [standing.agent for standing in board] == ["LinearTS", "LiM2", "NeuralLinear", "Uniform"]
    assert "4 runs have not been done yet" in finish(store).report.read_text()


def test_scores_and_ranks_are_of_the_seeds_that_all_agents_have(tmp_path: Path) -> None:
    """An agent that lacks the hard shuffles is not ahead by that."""
    rewards = {
        ("wheel", "LiM2"): [90.0, 90.0, 30.0, 30.0],
        ("wheel", "LinearTS"): [80.0, 80.0],
        ("wheel", "Uniform"): [10.0, 10.0, 0.0, 0.0],
    }
    runs, _ = made(tmp_path, rewards).frames()
    rows = summarize(runs)
    assert {row["agent"]: row["normalized"] for row in rows} == {"LiM2": 1.0, "LinearTS": 0.875, "Uniform": 0.0}
    assert [row["reward_mean"] for row in rows] == [60.0, 80.0, 5.0]
    board = Tables(runs, rows).leaderboard
    assert [(standing.agent, standing.mean_rank) for standing in board[:2]] == [("LiM2", 1.0), ("LinearTS", 2.0)]
    assert Tables(runs, rows).range_of("wheel") == (10.0, 90.0)


def test_one_run_of_one_problem(tmp_path: Path) -> None:
    results = finish(made(tmp_path, {("wheel", "LiM2"): [5.0], ("wheel", "Uniform"): [1.0]}))
    assert results.rows[0]["reward_std"] is None
    text = Page(results.report.read_text()).text
    assert "LiM2 ranks first, with a mean normalised score of 1.00 over this problem." in text
    assert "significant" not in text.split("Leaderboard")[0]


@pytest.mark.parametrize("rewards", [{("wheel", "LiM2"): [1.0], ("wheel", "Uniform"): [2.0]}, {("wheel", "LiM2"): []}])
def test_nothing_to_rank(tmp_path: Path, rewards: dict[tuple[str, str], list[float]]) -> None:
    if not rewards["wheel", "LiM2"]:
        rewards = {("wheel", "LiM2"): [1.0]}
        store = made(tmp_path, rewards)
        for path in (tmp_path / "runs").iterdir():
            path.unlink()
    else:
        store = made(tmp_path, rewards)
    page = Page(finish(store).report.read_text())
    assert "There is nothing to rank" in page.text


def test_alerts(tmp_path: Path) -> None:
    store = made(tmp_path, REWARDS, attempts=2, warnings=["UserWarning: odd <i>"])
    next((tmp_path / "runs").iterdir()).unlink()
    text = Page(finish(store).report.read_text()).text
    assert "23 runs were tried again because their process died" in text
    assert "1 runs have not been done yet" in text
    assert "UserWarning: odd <i>" in text


def test_fifty_datasets_take_half_of_the_room_there_is(tmp_path: Path) -> None:
    """A page has at most 3 MB: 50 datasets, 6 agents, 10 runs, of curves that nothing makes short."""
    rng = np.random.default_rng(0)
    rounds = np.linspace(25, 5000, 60).astype(int)

    def run() -> dict[str, object]:
        curve = np.cumsum(rng.normal(20, 5, 60))
        shown = {name: curve * rng.uniform(0.5, 1) for name in ("curve_reward", "curve_regret", "curve_seconds")}
        sizes = {"curve_optimal": (curve / 2).astype(int), "memory_mb": curve}
        at = {"curve_round": rounds, "memory_round": rounds}
        return {name: values.tolist() for name, values in {**at, **shown, **sizes}.items()} | {"reward": curve[-1]}

    agents = ("AdaptiveTS", "LiM2", "LinearTS", "NeuralLinear", "NeuralLinearNTK", "Uniform")
    cells = {(f"dataset {i}", agent): [run() for _ in range(10)] for i in range(50) for agent in agents}
    made_up = fabricated(cells)
    content = content_of(Store(tmp_path), made_up.runs, made_up.runs.clear(), made_up.rows)
    page = page_of(content, shades_of(made_up.runs))
    assert len(page.encode()) < 1.5e6
    assert page.count('data-view="curve"') == 50
