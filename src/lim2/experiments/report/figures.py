"""The figures, drawn once, in colours that the page can change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.report.colours import shade
from lim2.experiments.report.texts import megabytes, microseconds
from lim2.experiments.stats import band
from lim2.experiments.summary import feedback_of
from lim2.experiments.tables import Tables

Array = NDArray[np.float64]

INK, FAINT, GRID = "#1d2127", "#5b626c", "#dfe3e8"
SIZE = (4.9, 3.3)
BINS = 25  # of the regret per round
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": FAINT,
    "ytick.labelcolor": FAINT,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Drawn:
    """A figure.

    Parameters
    ----------
    name
        Of its files.
    caption
        What it shows.
    figure
        Itself, without a legend.
    """

    name: str
    caption: str
    figure: Figure


def of_problem(tables: Tables, problem: str, shades: dict[str, int]) -> Iterator[Drawn]:
    """Draw the figures of a problem.

    Parameters
    ----------
    tables
        All results.
    problem
        Its label.
    shades
        The agents' colours.
    """
    draw = _Drawing(tables, problem, shades)
    kinds: Sequence[tuple[str, str, Callable[[Axes], None]]] = (
        ("cumulative-regret", "Cumulative regret", draw.cumulative_regret),
        ("regret-per-round", "Regret per round", draw.regret_per_round),
        ("reward-against-time", "Reward against time", draw.reward_against_time),
        ("memory", "Memory of the agent", draw.memory),
    )
    for name, kind, onto in kinds:
        title = draw.feedback.labelled(kind)
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=SIZE)
            axes = figure.add_subplot()
            axes.set_title(title)
            onto(axes)
            margins(figure)
            yield Drawn(name, title, figure)


class _Drawing:
    def __init__(self, tables: Tables, problem: str, shades: dict[str, int]) -> None:
        self.tables, self.problem, self.shades = tables, problem, shades
        entries = tables.of(problem)
        self.feedback = feedback_of(entries[0].row)
        self.agents = [entry.row["agent"] for entry in entries]
        self.groups = {agent: tables.group(problem, agent) for agent in self.agents}

    def curves(self, agent: str, column: str) -> tuple[Array, Array]:
        group = self.groups[agent]
        values = np.array([np.asarray(curve, dtype=float) for curve in group[column].to_list()])
        return np.asarray(group["curve_round"][0].to_list(), dtype=float), values

    def cumulative_regret(self, axes: Axes) -> None:
        tops = []
        for agent in reversed(self.agents):
            rounds, regrets = self.curves(agent, "curve_regret")
            mean, half = band(regrets)
            self.line(axes, agent, rounds, mean, half)
            tops.append((agent in self.tables.references, float((mean + half).max())))
        rounds_axis(axes)
        axes.set_ylabel("regret so far")
        _keep_in_view(axes, tops)

    def regret_per_round(self, axes: Axes) -> None:
        tops = []
        for agent in reversed(self.agents):
            rounds, regrets = self.curves(agent, "curve_regret")
            edges = np.unique(np.linspace(0, len(rounds), min(BINS, len(rounds)) + 1).astype(int))[1:] - 1
            at = np.concatenate([[0.0], rounds[edges]])
            reached = np.concatenate([np.zeros((len(regrets), 1)), regrets[:, edges]], axis=1)
            mean, half = band(np.diff(reached, axis=1) / np.diff(at))
            self.line(axes, agent, (at[1:] + at[:-1]) / 2, mean, half)
            tops.append((agent in self.tables.references, float((mean + half)[len(mean) // 8 :].max())))
        rounds_axis(axes)
        axes.set_ylabel("regret of a round")
        _keep_in_view(axes, tops)

    def reward_against_time(self, axes: Axes) -> None:
        points = []
        for agent in [agent for agent in self.agents if agent not in self.tables.references] or self.agents:
            row = self.tables.row(self.problem, agent)
            assert row is not None
            points.append((agent, row["us_per_round"], row["reward_mean"], row["reward_std"] or 0.0))
        _scatter(axes, points, self.shades)
        axes.set_ylabel("cumulative reward")

    def memory(self, axes: Axes) -> None:
        for agent in reversed(self.agents):
            group = self.groups[agent]
            row = self.tables.row(self.problem, agent)
            if row is None or not row["peak_mb"]:
                continue  # nothing to show on a logarithmic axis
            if group["agent_mb"].null_count():
                axes.axhline(
                    row["peak_mb"], color=shade(self.shades[agent]), linestyle=":", label=agent, gid=_gid(self, agent)
                )
                continue
            rounds, sizes = group["memory_round"][0].to_list(), np.array(group["memory_mb"].to_list())
            self.line(axes, agent, np.asarray(rounds, dtype=float), *band(sizes))
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, high / 8), high * 1.3)
        few_ticks(axes.yaxis, megabytes)
        axes.set_ylabel("size of its state (log scale)")
        rounds_axis(axes)

    def line(self, axes: Axes, agent: str, x: Array, mean: Array, half: Array) -> None:
        colour = shade(self.shades[agent])
        style = "--" if agent in self.tables.references else "-"
        gid = _gid(self, agent)
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.16, linewidth=0, gid=gid)
        axes.plot(x, mean, style, color=colour, label=agent, gid=gid)


def _gid(drawing: _Drawing, agent: str) -> str:
    return f"series{drawing.shades[agent]}"


def overview(tables: Tables, shades: dict[str, int], feedback: Feedback = IMMEDIATE) -> Iterator[Drawn]:
    """Draw the figures over all problems.

    Parameters
    ----------
    tables
        All results of one delay and batch.
    shades
        The agents' colours.
    feedback
        Which delay and batch, for the titles.
    """
    standings = tables.leaderboard
    with mpl.rc_context(STYLE):
        left = 0.25 + 0.078 * max(len(standing.agent) for standing in standings)
        figure = Figure(figsize=(SIZE[0] + max(left - 1.0, 0.0), max(SIZE[1], 0.42 * len(standings) + 1)))
        axes = figure.add_subplot()
        for place, standing in enumerate(standings):
            colour = shade(shades[standing.agent])
            gid = f"series{shades[standing.agent]}"
            known = [score for score in standing.scores.values() if score is not None]
            axes.barh(place, standing.mean or 0.0, height=0.62, color=colour, alpha=0.28, gid=gid)
            axes.plot(known, [place] * len(known), "o", color=colour, markersize=5.5, alpha=0.9, gid=gid)
        axes.set_yticks(range(len(standings)), [standing.agent for standing in standings])
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        axes.invert_yaxis()
        axes.set_xlim(left=min(-0.03, axes.get_xlim()[0]))
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("normalised score: 0 = random policy, 1 = best agent")
        title = "Scores and their mean" if feedback.text else "Score of every problem (dots), and their mean"
        axes.set_title(feedback.labelled(title))
        margins(figure, left=left)
        yield Drawn("scores", feedback.labelled("Normalised scores"), figure)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=SIZE)
        axes = figure.add_subplot()
        points = [
            (s.agent, s.us_per_round, s.mean, 0.0)
            for s in standings
            if s.mean is not None and s.agent not in tables.references
        ]
        _scatter(axes, points, shades)
        axes.set_ylabel("mean normalised score")
        axes.set_title(feedback.labelled("Score against time"))
        margins(figure)
        yield Drawn("score-against-time", feedback.labelled("Score against time"), figure)


def across(tables: Tables, problem: str, shades: dict[str, int]) -> Drawn:
    """Draw the rewards of a problem with every delay and batch.

    Parameters
    ----------
    tables
        All results.
    problem
        Its label, without delay and batch.
    shades
        The agents' colours.
    """
    places = list(tables.parts)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(SIZE[0], 1.2 + 0.75 * len(places)), SIZE[1]))
        axes = figure.add_subplot()
        for agent, rows in tables.across[problem].items():
            label: str | None = agent
            for batch in dict.fromkeys(feedback.batch for feedback in rows):  # a line each
                at = [place for place, late in enumerate(places) if late in rows and late.batch == batch]
                drawn = [rows[places[place]] for place in at]
                axes.errorbar(
                    at,
                    [row["reward_mean"] for row in drawn],
                    yerr=[row["reward_std"] or 0.0 for row in drawn],
                    fmt="o--" if agent in tables.references else "o-",
                    color=shade(shades[agent]), capsize=3, label=label, gid=f"series{shades[agent]}",
                )  # fmt: skip
                label = None
        axes.set_xticks(range(len(places)), [feedback.name.replace(", ", "\n") for feedback in places])
        axes.set_xlim(-0.4, len(places) - 0.6)
        axes.set_ylabel("cumulative reward")
        title = f"Reward by delay and batch: {problem}"
        axes.set_title(title)
        margins(figure)
        return Drawn("reward-by-delay", title, figure)


Point = tuple[str, float, float, float]  # agent, time, reward, its spread


def _scatter(axes: Axes, points: Sequence[Point], shades: dict[str, int]) -> None:
    """Draw agents as points of (time, reward), each with its name beside it."""
    for agent, x, y, spread in points:
        axes.errorbar(
            x, y, yerr=spread or None, fmt="o", color=shade(shades[agent]), markersize=7, capsize=3, label=agent,
            gid=f"series{shades[agent]}",
        )  # fmt: skip
    axes.set_xscale("log")
    if points:
        times = [x for _, x, _, _ in points]
        axes.set_xlim(min(times) / 2.2, max(times) * 2.2)
        axes.margins(y=0.18)
    few_ticks(axes.xaxis, microseconds)
    axes.set_xlabel("time of a round, act and update (log scale)")
    _name_points(axes, points, shades)


def _name_points(axes: Axes, points: Sequence[Point], shades: dict[str, int]) -> None:
    """Write names beside points, where they cover neither another name nor a point."""
    (left, right), (low, high) = np.log(axes.get_xlim()), axes.get_ylim()
    spots = {agent: ((np.log(x) - left) / (right - left), (y - low) / (high - low)) for agent, x, y, _ in points}
    taken = [(x - 0.02, y - 0.03, x + 0.02, y + 0.03) for x, y in spots.values()]
    for agent, (x, y) in spots.items():
        width, height = 0.0165 * len(agent), 0.06
        beside = [(x + 0.03, y - height / 2), (x - 0.03 - width, y - height / 2)]
        apart = [(x - width / 2, y + k * 0.075 - height / 2) for k in (1, -1, 2, -2, 3, -3)]
        boxes = [(u, v, u + width, v + height) for u, v in (*beside, *apart)]
        fits = (box for box in boxes if box[0] > 0 and box[2] < 1 and not any(_overlap(box, other) for other in taken))
        box = next(fits, boxes[2])
        taken.append(box)
        axes.text(
            (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, agent, transform=axes.transAxes, ha="center", va="center",
            color=shade(shades[agent]), fontsize=8.5, gid=f"series{shades[agent]}",
        )  # fmt: skip


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def few_ticks(axis: Axis, text: Callable[[float], str]) -> None:
    """Mark a logarithmic axis at 1, 10, 100, or where that is too little at 1, 2, 5, 10 as well.

    Parameters
    ----------
    axis
        Of a figure whose limits are set.
    text
        Writes a number.
    """
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def rounds_axis(axes: Axes) -> None:
    """Let the horizontal axis count rounds.

    Parameters
    ----------
    axes
        Where.
    """
    axes.set_xlabel("round")
    axes.set_xlim(left=0)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _keep_in_view(axes: Axes, tops: Sequence[tuple[bool, float]]) -> None:
    """Scale to the agents: the random policy's regret may leave the figure."""
    agents = [top for reference, top in tops if not reference] or [top for _, top in tops]
    axes.set_ylim(0, 1.12 * max(agents) if max(agents) > 0 else 1.0)


def margins(figure: Figure, left: float = 0.75) -> None:
    """Set the margins; finding them by drawing everything first would take most of the time.

    Parameters
    ----------
    figure
        As drawn.
    left
        Room at the left, in inches.
    """
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left=left / width, right=1 - 0.15 / width, bottom=0.5 / height, top=1 - 0.28 / height)


def with_legend(figure: Figure) -> None:
    """Add a legend below, for a figure that stands alone.

    Parameters
    ----------
    figure
        As drawn.
    """
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if not labels:
        return
    width, height = figure.get_size_inches()
    columns = max(1, int(width / max(1.4, 0.55 + 0.065 * max(map(len, labels)))))  # as many as the longest name allows
    more = 0.08 + 0.2 * -(-len(labels) // columns)
    box = figure.subplotpars
    figure.set_size_inches(width, height + more)
    figure.subplots_adjust(
        bottom=(box.bottom * height + more) / (height + more), top=(box.top * height + more) / (height + more)
    )
    with mpl.rc_context(STYLE):
        figure.legend(handles[::-1], labels[::-1], loc="lower center", ncols=columns, fontsize=8.5)
