"""How long a report takes to open, and how large it is: 12 problems, 6 agents, 5 runs.

``python -m benchmarks.report`` opens it in a headless Chromium, some times, each in a new process of its own. Text is
there when it is first painted; opening ends when the figures in view are drawn. The time of the page's thread on the
processor says how long that takes where nothing else runs. With a folder of results, its report is opened.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from lim2.experiments import bench
from lim2.experiments.names import given
from lim2.problems import Problem

AGENTS = ("AdaptiveTS", "LiM2", "LinearTS", "NeuralLinear", "NeuralLinearNTK", "Uniform")
PROBLEMS = 12
DRAWN = """
return new Promise(resolve => {
  const first = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? performance.now();
  const look = () => {
    const figures = [...document.querySelectorAll("figure.chart")];
    const near = figures.filter(f => f.getBoundingClientRect().top < innerHeight);
    const drawn = near.every(f => f.querySelector("[data-drawn]"));
    if (drawn) requestAnimationFrame(() => resolve([first(), performance.now()]));
    else setTimeout(look, 5);
  };
  look();
})
"""


def problem(rounds: int, seed: int, number: int = 0) -> Problem:
    rng = np.random.default_rng([seed, number])
    contexts = rng.normal(size=(rounds, 8))
    means = contexts @ np.random.default_rng(number).normal(size=(8, 4))
    return Problem(f"problem {number}", contexts, means + rng.normal(size=means.shape), means)


def opening(page: Path) -> tuple[float, float, float]:
    """Return the seconds until text is there, until figures in view are drawn, and those on the processor."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800"):
        options.add_argument(switch)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        driver.get(page.resolve().as_uri())
        text, figures = (float(moment) / 1e3 for moment in driver.execute_script(DRAWN))
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return text, figures, float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
    finally:
        driver.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="results of lim2 bench; default: made now")
    parser.add_argument("--times", type=int, default=7)
    wanted = parser.parse_args()
    folder = wanted.folder
    if folder is None:
        folder = Path(tempfile.mkdtemp())
        start = time.perf_counter()
        problems = [replace(given(problem), label=f"problem {i}", settings={"number": i}) for i in range(PROBLEMS)]
        bench(problems, AGENTS, rounds=200, runs=5, out=folder)
        print(f"{PROBLEMS} problems, {len(AGENTS)} agents, 5 runs in {time.perf_counter() - start:.0f} s")
    page = folder / "report.html"
    found = [opening(page) for _ in range(wanted.times)]
    print(f"{page.stat().st_size / 1e6:.2f} MB, opened {wanted.times} times")
    names = ("text, by the clock", "figures, by the clock", "on the processor")
    for name, seconds in zip(names, zip(*found, strict=True), strict=True):
        print(f"{name}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main()
