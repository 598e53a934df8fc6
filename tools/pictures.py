"""Draw the pictures of the explanation: `python -m tools.pictures` writes docs/images/*.svg."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy import stats

import lim2
from lim2.exploration.propensity import chances_of_largest

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLOURS = ("#1f5fbf", "#d1600a", "#2a8a4a")
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "lim2",
    "svg.fonttype": "path",
    "figure.facecolor": "white",
}


def thompson() -> Figure:
    """Draw what is believed about three arms, and with which probability each is played."""
    mean, scale, freedom = np.array([0.30, 0.45, 0.20]), np.array([0.05, 0.06, 0.22]), np.full(3, 12.0)
    chances = chances_of_largest(mean, scale, freedom)
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    x = np.linspace(-0.4, 0.9, 600)
    for name, m, s, f, chance, colour in zip("ABC", mean, scale, freedom, chances, COLOURS, strict=True):
        density = stats.t.pdf(x, f, m, s)
        axes.plot(x, density, color=colour)
        axes.fill_between(x, density, color=colour, alpha=0.15)
        side = "right" if name == "A" else "left"
        place = {"A": (0.24, 6.6), "B": (0.51, 5.4), "C": (0.62, 1.1)}[name]
        axes.text(*place, f"arm {name}: played {chance:.0%}", color=colour, ha=side)
    axes.set(xlabel="score: expected reward in this context", yticks=[], xlim=(-0.4, 0.9), ylim=(0, None))
    axes.spines["left"].set_visible(False)
    return figure


def matching() -> Figure:
    """Draw a covariance before and after the features of all contexts have changed."""
    rng = np.random.default_rng(3)
    old = rng.normal(size=(300, 2)) * [1.0, 0.7]
    turn = np.array([[1.5, 0.6], [-0.3, 0.8]])
    new = old @ turn
    cov = np.array([[0.9, 0.35], [0.35, 0.3]])
    matched = lim2.match(cov, old, new, method="solve", ridge=1e-6).cov
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panels: Any = figure.subplots(1, 2)
    for axes, features, title in zip(panels, (old, new), ("before training", "after training"), strict=True):
        axes.plot(*features.T, ".", color="#999999", markersize=2, label="features of contexts")
        axes.add_patch(_ellipse(cov, COLOURS[1], "covariance of the weights, as it was", "--"))
        if features is new:
            axes.add_patch(_ellipse(matched, COLOURS[0], "matched to the new features", "-"))
        axes.set(title=title, xlim=(-4, 4), ylim=(-3, 3), aspect="equal", xticks=[], yticks=[])
        axes.title.set_fontsize(10)
        axes.legend(loc="lower left", fontsize=7, frameon=False)
    return figure


def _ellipse(cov: Any, colour: str, label: str, line: str) -> Ellipse:
    values, vectors = np.linalg.eigh(cov)
    angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
    width, height = 4 * np.sqrt(values[::-1])
    return Ellipse((0, 0), width, height, angle=angle, fill=False, edgecolor=colour, linestyle=line, lw=2, label=label)


def learning() -> Figure:
    """Draw what three agents earn on a problem that is not linear."""
    problem, rounds = lim2.problems.load("nonlinear", rounds=2000, seed=0), 2000
    shape = {"n_arms": problem.n_arms, "n_features": problem.n_features, "seed": 0}
    agents = {"AdaptiveTS": lim2.AdaptiveTS(**shape), "LiM2": lim2.LiM2(**shape), "LinearTS": lim2.LinearTS(**shape)}
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    agent: Any
    for (name, agent), colour in zip(agents.items(), COLOURS, strict=True):
        earned = np.zeros(rounds)
        for t, context in enumerate(problem.contexts):
            arm = agent.act(context)
            agent.update(context, arm, problem.rewards[t, arm])
            earned[t] = problem.expected_rewards[t, arm]
        axes.plot(np.cumsum(problem.best_rewards - earned), color=colour, label=name)
    axes.set(xlabel="round", ylabel="cumulative regret", xlim=(0, rounds), ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Write all pictures."""
    with mpl.rc_context(STYLE):
        for draw in (thompson, matching, learning):
            draw().savefig(IMAGES / f"{draw.__name__}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
