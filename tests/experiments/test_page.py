"""The report in a browser: asked by pointer and keyboard, read by axe, light and dark, and without JavaScript."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("selenium")

from experiments.made import made
from paper.fabricated import rewards as fabricated
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from serve.browser import AXE, CHROMIUM, DRIVER, Browser

from lim2.experiments.report.content import content_of
from lim2.experiments.report.write import page_of, shades_of
from lim2.experiments.stats import holm, paired_p, pooled_interval, pooled_p
from lim2.experiments.store import Store
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables, paired
from lim2.paper import ablation, table
from lim2.paper.write import page_of as paper_page_of

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium is not installed: apt-get install chromium-driver"),
]
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci in tests/serve/node")

EVIL = '<img src=x onerror="window.harmed=1">'
PROBLEMS = (
    "linear", "nonlinear", "wheel", "drifting", "statlog", "adult", "census", "covertype", "mushroom", "jester",
    "financial", "epileptic",
)  # fmt: skip
AGENTS = {
    **{name: (name, {}) for name in ("AdaptiveTS", "LiM2", "LinearTS", "NeuralLinear")},
    EVIL: ("LiM2", {"buffer": 50}),
    "Uniform": ("Uniform", {}),
}


def earned() -> dict[tuple[str, str], list[float]]:
    """Return what 6 agents earn on 12 problems in 5 runs; shuffles are common, so that pairs are alike."""
    rng = np.random.default_rng(0)
    found = {}
    for problem in PROBLEMS:
        shuffles = rng.normal(0, 3, 5)
        for place, agent in enumerate(AGENTS):
            mean = 50.0 if agent == "Uniform" else 120.0 - 4 * place + rng.normal(0, 3)
            found[problem, agent] = [float(v) for v in mean + shuffles + rng.normal(0, 1.5, 5)]
    return found


@pytest.fixture(scope="module")
def bench_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve problems, six agents, five runs."""
    folder = tmp_path_factory.mktemp("bench")
    store = made(folder, earned(), agents=AGENTS)
    runs, failures = store.frames()
    content = content_of(store, runs, failures, summarize(runs))
    (folder / "report.html").write_text(page_of(content, shades_of(runs)), encoding="utf-8")
    return folder / "report.html"


@pytest.fixture(scope="module")
def tables(bench_page: Path) -> Tables:
    runs, _ = Store(bench_page.parent).frames()
    return Tables(runs, summarize(runs))


@pytest.fixture(scope="module")
def paper_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    cells: dict[tuple[str, str], list[float]] = {}
    for problem, mean in (("statlog", 4800.0), ("census", 2700.0)):
        base = mean + rng.normal(0, 20, 6)
        cells[problem, "Uniform"] = [700.0] * 6
        changes = {ablation.PUBLISHED: 0, "no matching step": 0, "no mean prior": -300, "intercept": 100}
        for label, change in changes.items():
            cells[problem, label] = (base + change + rng.normal(0, 10, 6) * (change != 0)).tolist()
    methods = {("statlog", "LiM2"): [4800.0, 4810, 4790], ("statlog", "NeuralUCB"): [4000.0, 4010, 4020]}
    methods |= {("statlog", "Uniform"): [700.0, 710, 690], ("census", "LiM2"): [2600.0, 2610, 2590]}
    made_up = [(table, fabricated(methods)), (ablation, fabricated(cells))]
    sections = [replace(section, tables=runs) for part, runs in made_up if (section := part.section(runs))]
    path = tmp_path_factory.mktemp("paper") / "report.html"
    path.write_text(paper_page_of(sections, ["lim2 paper all"], {"version": ["1"]}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def chromium(downloads: Path) -> Iterator[Browser]:
    browser = Browser()
    browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    assert chromium.complaints() == []


@pytest.fixture
def page(browser: Browser, bench_page: Path) -> Browser:
    return opened(browser, bench_page)


def opened(browser: Browser, path: Path, scheme: str = "light", size: str = "laptop") -> Browser:
    browser.look(scheme, size)
    browser.driver.get(path.as_uri())
    browser.console()
    browser.until(lambda: browser.all(".plot"), "a figure")
    return browser


def plot(browser: Browser, figure: str) -> Any:
    """Bring a figure into view, and return its plot when it is drawn."""
    found = browser.find(f"{figure} .plot")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    browser.until(lambda: found.get_attribute("data-drawn"), f"the figure {figure}")
    return found


def strengths(browser: Browser, figure: str) -> dict[str, float]:
    """Return how strong each agent is drawn in a figure."""
    found: list[tuple[str, float]] = browser.driver.execute_script(
        "return arguments[0].data.filter(t => !t.fill).map(t => [t.meta, t.opacity])", plot(browser, figure)
    )
    return dict(found)


def axis(browser: Browser, figure: str, name: str = "xaxis") -> list[float]:
    script = "return arguments[0]._fullLayout[arguments[1]].range.map(Number)"
    found: list[float] = browser.driver.execute_script(script, plot(browser, figure), name)
    return found


def width(ends: list[float]) -> float:
    return ends[1] - ends[0]


RUNS, CURVE, PRICE = (f'[data-card="0"] [data-view={kind}]' for kind in ("runs", "curve", "price"))
SCORES, PAIR = '[data-name="all-scores"]', "[data-view=pair]"


def test_it_is_small_and_may_load_nothing(page: Browser, bench_page: Path, paper_page: Path) -> None:
    assert bench_page.stat().st_size < 3e6 and paper_page.stat().st_size < 3e6
    for path in (bench_page, paper_page):
        text = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in text and "<link" not in text and "@import" not in text
        assert not re.search(r"<(script|img|iframe)[^>]* src=\"(?!figures/)", text)
    assert page.driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    blocked = "return fetch('https://example.org/').then(() => 'sent', error => error.name)"
    assert page.driver.execute_script(blocked) == "TypeError"
    page.console()  # the refusal above


def test_pointing_at_a_figure_shows_values(page: Browser, tables: Tables) -> None:
    figure = plot(page, RUNS)
    place = page.driver.execute_script(
        "const g = arguments[0], l = g._fullLayout, t = g.data.find(t => t.meta === 'AdaptiveTS' && t.x.length === 1);"
        "return [l.xaxis.l2p(t.x[0]) + l.xaxis._offset, l.yaxis.l2p(t.y[0]) + l.yaxis._offset]",
        figure,
    )
    size = figure.size
    move = (int(place[0] - size["width"] / 2), int(place[1] - size["height"] / 2))
    ActionChains(page.driver).move_to_element_with_offset(figure, *move).perform()
    page.until(lambda: page.all(f"{RUNS} .hoverlayer text"), "the values of a run")
    row = tables.row("linear", "AdaptiveTS")
    assert row is not None
    shown = page.find(f"{RUNS} .hoverlayer").get_attribute("textContent") or ""
    assert "AdaptiveTS" in shown and f"mean of runs {row['reward_mean']:.1f} ±" in shown and "5 runs" in shown


def test_arrow_keys_go_through_values(page: Browser) -> None:
    figure = plot(page, CURVE)
    page.driver.execute_script("arguments[0].focus()", figure)
    end = figure.get_attribute("aria-valuetext") or ""
    assert end.startswith("round 100: ") and "LiM2" in end and "±" in end
    page.press("HOME")
    page.until(lambda: (figure.get_attribute("aria-valuetext") or "").startswith("round 1: "), "the first round")
    page.until(lambda: page.all(f"{CURVE} .hoverlayer text"), "its values")
    page.press("ARROW_RIGHT")
    page.until(lambda: (figure.get_attribute("aria-valuetext") or "").startswith("round 3: "), "the next round")
    assert page.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", figure) == "solid"


def test_zoom_pan_and_all_again(page: Browser) -> None:
    before = axis(page, CURVE)
    page.click(f"{CURVE} [aria-label='Zoom in']")
    page.until(lambda: width(axis(page, CURVE)) == pytest.approx(width(before) / 2), "half the rounds")
    near = axis(page, CURVE)
    figure = plot(page, CURVE)
    page.driver.execute_script("arguments[0].focus()", figure)
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    page.until(lambda: axis(page, CURVE)[0] > near[0], "later rounds")
    aside = axis(page, CURVE)
    assert width(aside) == pytest.approx(width(near))
    page.click(f"{CURVE} [aria-label='Drag to pan']")
    ActionChains(page.driver).move_to_element(figure).click_and_hold().move_by_offset(-60, 0).release().perform()
    page.until(lambda: axis(page, CURVE)[0] > aside[0], "what is further on")
    page.click(f"{CURVE} [aria-label='Show all']")
    page.until(lambda: axis(page, CURVE) == pytest.approx(before), "all rounds")


def test_an_agent_is_brought_out_in_every_figure(page: Browser) -> None:
    figures = (SCORES, RUNS, CURVE, PRICE)
    for figure in figures:
        assert set(strengths(page, figure).values()) == {1}
    page.click(".bar .chip[data-agent=LiM2]")
    for figure in figures:
        page.until(lambda figure=figure: is_brought_out(page, figure, {"LiM2"}), f"LiM2 in {figure}")  # type: ignore[misc]
    assert page.all("tr[data-agent=LinearTS].quiet") and not page.all("tr[data-agent=LiM2].quiet")
    for chip in page.all(".chip[data-agent=LiM2]"):
        assert chip.get_attribute("aria-pressed") == "true"
    clicked = "arguments[0].emit('plotly_click', {points: [{data: {meta: 'LinearTS'}}], event: {shiftKey: true}})"
    page.driver.execute_script(clicked, plot(page, RUNS))
    page.until(lambda: is_brought_out(page, CURVE, {"LiM2", "LinearTS"}), "both agents")
    page.press("ESCAPE")
    page.until(lambda: set(strengths(page, PRICE).values()) == {1}, "all agents alike")


def is_brought_out(page: Browser, figure: str, agents: set[str]) -> bool:
    """Return whether a figure shows these agents, and no others, at full strength."""
    return all(strength == (1 if agent in agents else 0.12) for agent, strength in strengths(page, figure).items())


def test_the_metric_can_be_chosen(page: Browser, tables: Tables) -> None:
    titles = {
        "regret": "Cumulative regret (lower is better)", "normalised": "Normalised score (higher is better)",
        "optimal": "Optimal arm played (higher is better)", "time": "Time per round, log scale (lower is better)",
        "memory": "Memory, log scale (lower is better)", "reward": "Cumulative reward (higher is better)",
    }  # fmt: skip
    for metric, title in titles.items():
        page.choose("select[data-control=metric]", metric)
        script = "return arguments[0].layout.xaxis.title.text.replaceAll('<br>', ' ')"
        assert page.driver.execute_script(script, plot(page, RUNS)) == title
        assert plot(page, CURVE).get_attribute("aria-valuetext")
    dots: list[float] = page.driver.execute_script(
        "return arguments[0].data.find(t => t.meta === 'LiM2' && t.x.length > 1).x", plot(page, RUNS)
    )
    assert dots == pytest.approx(tables.group("linear", "LiM2")["reward"].to_list(), rel=1e-4)  # a point per seed
    page.choose("select[data-control=pace]", "round")
    assert page.text(f"{CURVE} figcaption span") == "Reward per round"


def test_two_agents_in_pairs(page: Browser, tables: Tables) -> None:
    first, second = page.all(".pair select")
    for select, agent in ((first, "AdaptiveTS"), (second, "LinearTS")):
        option = next(one for one in select.find_elements("css selector", "option") if one.text == agent)
        option.click()
    lines = [[cell.text for cell in row.find_elements("css selector", "td")] for row in page.all(".pair tbody tr")]
    pairs = [paired(tables.group(p, "AdaptiveTS"), tables.group(p, "LinearTS")) for p in tables.problems]
    ps = [paired_p(a, b) for a, b in pairs]
    for line, (a, b), p, corrected in zip(lines, pairs, ps, holm(ps), strict=False):
        mean, half = pooled_interval([a - b])
        assert p is not None and corrected is not None
        assert line[3] == f"{'+' if mean > 0 else ''}{mean:.1f} ± {half:.1f}".replace("-", "−")
        for text, value in ((line[4], p), (line[5], corrected)):
            assert text == "< 0.001" if value < 0.001 else float(text) == pytest.approx(value, abs=0.006)
        words = "▲ AdaptiveTS better" if mean > 0 else "▼ LinearTS better"
        assert line[6] == (words if corrected < 0.05 else "≈ no significant difference")
    scales = [scale for problem in tables.problems if (scale := tables.range_of(problem))]
    shares = [100 * (a - b) / (high - low) for (a, b), (low, high) in zip(pairs, scales, strict=True)]
    mean, half = pooled_interval(shares)
    assert lines[-1][0] == "all 12 problems" and lines[-1][3] == f"+{mean:.1f}% ± {half:.1f}%"
    assert (pooled_p(shares) or 1) < 0.001 and lines[-1][4] == "< 0.001"
    points = page.driver.execute_script("return arguments[0].data.map(t => [t.meta, t.x.length])", plot(page, PAIR))
    assert ["linear", 5] in points and ["all problems", 1] in points
    won = sum(line[6].startswith("▲") for line in lines[:-1])
    assert f"AdaptiveTS is better on {won}, LinearTS on " in page.text(".pair-sum")


def test_tables_sort_and_filter_and_leave_as_csv(page: Browser, downloads: Path) -> None:
    region = "[aria-label='Normalised score by problem']"

    def column(number: int) -> list[str]:
        rows = page.all(f"{region} tbody tr:not([hidden])")
        return [row.find_elements("css selector", "td")[number].text for row in rows]

    page.click(f"{region} th:nth-child(3) button")
    shown = [float(text.replace("−", "-")) for text in column(2)[:-2]]
    assert shown == sorted(shown, reverse=True) and column(0)[-2:] == ["mean", "median"]
    page.click(f"{region} th:nth-child(3) button")
    assert page.find(f"{region} th:nth-child(3)").get_attribute("aria-sort") == "ascending"
    page.click(f"{region} th:nth-child(1) button")
    page.click(f"{region} th:nth-child(1) button")
    assert column(0)[:-2] == sorted(PROBLEMS)
    field = page.find("input[aria-label='Filter rows: Normalised score by problem']")
    field.send_keys("linear")
    assert column(0) == ["linear", "nonlinear", "mean", "median"]
    assert field.find_element("xpath", "..").text.startswith("2 of 12 rows")
    page.click("button[aria-label='CSV of Normalised score by problem']")
    path = downloads / "normalised-score-by-problem.csv"
    page.until(path.is_file, "the file")
    lines = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    assert [line[0] for line in lines] == ["problem", "linear", "nonlinear", "mean", "median"]


def test_one_problem_alone(page: Browser) -> None:
    page.choose("select[data-control=problem]", "4")
    assert [card.get_attribute("id") for card in page.all("[data-card]:not([hidden])")] == ["p-statlog"]


def test_names_stay_text(page: Browser) -> None:
    page.click(f".bar .chip[data-agent='{EVIL}']")
    for figure in (SCORES, RUNS, CURVE, PRICE):
        assert strengths(page, figure)[EVIL] == 1
    assert EVIL in [cell.text for cell in page.all("#leaderboard td.first")]
    assert EVIL.replace(" ", "") in (plot(page, RUNS).get_attribute("textContent") or "").replace(" ", "")  # in lines
    assert page.driver.execute_script("return window.harmed === undefined && !document.querySelector('img')")


@needs_axe
@pytest.mark.parametrize(("scheme", "size"), [("light", "laptop"), ("dark", "phone")])
@pytest.mark.parametrize("kind", ["bench", "paper"])
def test_axe_finds_nothing_serious(
    browser: Browser, bench_page: Path, paper_page: Path, scheme: str, size: str, kind: str, pytestconfig: pytest.Config
) -> None:
    opened(browser, bench_page if kind == "bench" else paper_page, scheme, size)
    assert browser.findings() == []  # as it opens, before figures further down are drawn
    browser.driver.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true });"
        "document.querySelectorAll('[data-card]').forEach(card => { if (Number(card.dataset.card) > 1) card.remove() })"
    )
    while browser.all(waiting := "figure.chart:not(:has([data-drawn]))"):
        plot(browser, waiting)
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    nameless = "e => e.scrollWidth > e.clientWidth + 1 && !(e.tabIndex === 0 && e.ariaLabel && e.role === 'region')"
    regions = f"return [...document.querySelectorAll('.scroll, pre')].filter({nameless}).map(e => e.outerHTML)"
    assert browser.driver.execute_script(regions) == []
    tall = "return [...document.querySelectorAll('td.first')].filter(cell => !cell.textContent.includes(' ')"
    broken = f"{tall} && cell.getBoundingClientRect().width && cell.clientHeight > 90).map(cell => cell.textContent)"
    assert browser.driver.execute_script(broken) == []  # no name is written a letter per line
    pictures = pytestconfig.rootpath / "results" / "page"
    pictures.mkdir(parents=True, exist_ok=True)
    browser.keep(pictures / f"report-{kind}-{scheme}-{size}.png")
    assert browser.findings() == []


def test_the_papers_report_answers_too(browser: Browser, paper_page: Path) -> None:
    page = opened(browser, paper_page)
    assert page.find("#table-raw") and page.find("#figure-scores")
    for row in page.all("#claims tbody tr"):  # verdict, numbers, figure and table of every claim are a click away
        claim, *shown = (str(link.get_attribute("hash"))[1:] for link in row.find_elements("css selector", "a"))
        told = page.driver.find_element("id", claim)
        assert row.text.split("\n")[0].split(" ", 1)[0] in told.text and told.find_element(
            "css selector", "small:last-child"
        )
        assert {name.split("-")[0] for name in shown} == {"figure", "table"}
        assert all(page.driver.find_elements("id", name) for name in shown)
    better = page.find("#ablation td .better")
    assert better.text.startswith("▲") and "better" in (better.get_attribute("textContent") or "")
    assert strengths(page, "#figure-ablation")["intercept"] == 1
    look = "return [arguments[0].layout.xaxis.type, arguments[0].layout.xaxis.title.text]"
    kind, title = page.driver.execute_script(look, plot(page, "#figure-ablation"))
    assert kind == "linear" and title.startswith("difference from LiM2 as published, in %")
    page.click("#ablation details summary")
    inside = "#ablation .set"
    page.choose(f"{inside} select[data-control=metric]", "normalised")
    assert strengths(page, f"{inside} [data-card='0'] [data-view=runs]")["no mean prior"] == 1
    assert "LiM2 as published is better on 0" in page.text(f"{inside} .pair-sum")
    page.click(f"{inside} .chip[data-agent=intercept]")
    page.until(
        lambda: strengths(page, "#figure-ablation")["no mean prior"] == 0.12, "that another agent is brought out"
    )


def test_without_javascript_tables_are_read(browser: Browser, bench_page: Path) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.look("light", "laptop")
        browser.driver.get(bench_page.as_uri())
        assert "AdaptiveTS" in browser.text("#leaderboard table")
        links = [image.get_attribute("src") or "" for image in browser.all("noscript img")]
        assert any(link.endswith("figures/all-scores.svg") for link in links)
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
        browser.console()  # the figures are not beside this page
