"""The figures of a bench: of each problem, over all problems, and over delays and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.report.charts import Axis, Drawn, Line, Lines, Point, Points, Row, Rows
from lim2.experiments.report.runs import curves_of, per_round
from lim2.experiments.stats import band
from lim2.experiments.summary import feedback_of
from lim2.experiments.tables import Tables

ROUND = Axis("round", low=0.0)
TIME = Axis("time of a round, act and update (log scale)", log=True, unit="s")
Shades = Mapping[str, int]


def of_problem(tables: Tables, problem: str, shades: Shades) -> Iterator[Drawn]:
    """Give the figures of a problem, for files: a page makes its own of the runs."""
    agents = [entry.row["agent"] for entry in tables.of(problem)]
    late = feedback_of(tables.of(problem)[0].row)
    regret, rate, memory = [], [], []
    tops: list[tuple[bool, float, float]] = []
    for agent in agents:
        group = tables.group(problem, agent)
        reference = agent in tables.references
        curves = curves_of(group, "curve_regret")
        if curves is not None:
            mean, half = band(curves[1])
            regret.append(Line(agent, shades[agent], curves[0], mean, half, reference))
            at, pace, wide = per_round(*curves)
            rate.append(Line(agent, shades[agent], at, pace, wide, reference))
            tops.append((reference, float((mean + half).max()), float((pace + wide)[len(pace) // 8 :].max())))
        size = curves_of(group, "memory_mb", "memory_round")
        if size is not None and not group["agent_mb"].null_count():
            mean, half = band(1e6 * size[1])
            memory.append(Line(agent, shades[agent], size[0], mean, half, reference))
    rows = [row for agent in agents if (row := tables.row(problem, agent)) and agent not in tables.references]
    points = [
        Point(
            row["agent"], shades[row["agent"]], row["us_per_round"] / 1e6, row["reward_mean"], row["reward_std"] or 0.0
        )
        for row in rows
    ]
    so_far, of_a_round = (_in_view([(top[0], top[i]) for top in tops]) for i in (1, 2))
    regrets = Axis("regret so far", low=0.0, high=so_far)
    rates = Axis("regret of a round", low=0.0, high=of_a_round)
    for name, title, chart in (
        ("cumulative-regret", "Cumulative regret", Lines("", ROUND, regrets, regret)),
        ("regret-per-round", "Regret per round", Lines("", ROUND, rates, rate)),
        ("reward-against-time", "Reward against time", Points("", TIME, Axis("cumulative reward"), points)),
        (
            "memory",
            "Memory of the agent",
            Lines("", ROUND, Axis("size of its state (log scale)", log=True, unit="B"), memory),
        ),
    ):
        yield _named(name, late.labelled(title), chart)


def _named(name: str, title: str, chart: Lines | Points | Rows) -> Drawn:
    return Drawn(name, title, [type(chart)(**{**vars(chart), "title": title})])


def _in_view(tops: Sequence[tuple[bool, float]]) -> float:
    """Return the upper end of an axis that suits the agents: the random policy may leave the figure."""
    agents = [top for reference, top in tops if not reference] or [top for _, top in tops]
    highest = max(agents, default=0.0)
    return 1.12 * highest if highest > 0 else 1.0


def overview(tables: Tables, shades: Shades, feedback: Feedback = IMMEDIATE) -> Iterator[Drawn]:
    """Give the figures over all problems."""
    standings = tables.leaderboard
    rows = [
        Row(s.agent, shades[s.agent], s.mean, dots=[(v, p) for p, v in s.scores.items() if v is not None])
        for s in standings
    ]
    title = "Scores and their mean" if feedback.text else "Score of every problem (dots), and their mean (bar)"
    scores = Rows(
        feedback.labelled(title), Axis("normalised score: 0 = random policy, 1 = best agent"), rows, bars=True
    )
    yield Drawn("scores", feedback.labelled("Normalised scores"), [scores])
    points = [
        Point(s.agent, shades[s.agent], s.us_per_round / 1e6, s.mean)
        for s in standings
        if s.mean is not None and s.agent not in tables.references
    ]
    title = feedback.labelled("Score against time")
    yield Drawn("score-against-time", title, [Points(title, TIME, Axis("mean normalised score"), points)])


def across(tables: Tables, problem: str, shades: Shades) -> Drawn:
    """Return the rewards of a problem with every delay and batch."""
    places = list(tables.parts)
    lines = []
    for agent, rows in tables.across[problem].items():
        for batch in dict.fromkeys(feedback.batch for feedback in rows):  # a line each
            at = [place for place, late in enumerate(places) if late in rows and late.batch == batch]
            shown = [rows[places[place]] for place in at]
            lines.append(
                Line(
                    agent,
                    shades[agent],
                    [float(place) for place in at],
                    [row["reward_mean"] for row in shown],
                    [row["reward_std"] or 0.0 for row in shown],
                    dashed=agent in tables.references,
                    marked=True,
                )
            )
    title = f"Reward by delay and batch: {problem}"
    names = [feedback.name for feedback in places]
    x = Axis("delay and batch", low=-0.4, high=len(places) - 0.6, names=names)
    return Drawn("reward-by-delay", title, [Lines(title, x, Axis("cumulative reward"), lines, "standard deviation")])
