"""The part of a report about agents over many datasets: figure, Markdown, LaTeX; the page has it from a template."""

from __future__ import annotations

import re
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lim2.experiments.analysis import Analysis, Pair, analysed
from lim2.experiments.feedback import Feedback
from lim2.experiments.report.colours import shade
from lim2.experiments.report.figures import FAINT, INK, STYLE, as_svg
from lim2.experiments.report.latex import escaped, tabular
from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import listed, number, p_value
from lim2.experiments.stats import LEVEL
from lim2.experiments.tables import Tables

NAME = "critical-difference"
STEP = 0.26  # inches between two lines of the figure
SPAN = 3.6  # inches from the first rank to the last
OTHER = shade(0)  # of the second test's bars


@dataclass(frozen=True)
class Section:
    """What a report says about agents over many datasets."""

    analysis: Analysis
    sentences: list[str]
    diagram: Figure

    @property
    def head(self) -> list[str]:
        """The names of the columns of the table of agents."""
        return ["agent", "mean rank", "95% interval", "mean score", "95% interval"]

    @property
    def rows(self) -> list[list[str]]:
        """The table of agents."""
        return [
            [
                place.agent,
                number(place.rank, 2),
                _interval(place.rank_interval, 2),
                number(place.score, 3),
                _interval(place.score_interval, 3),
            ]
            for place in self.analysis.places
        ]

    @property
    def matrix(self) -> list[list[str]]:
        """Wins / ties / losses of the agent of a row against that of a column."""
        agents = self.analysis.agents
        return [[a, *("" if a == b else counts(self.analysis.pair(a, b)) for b in agents)] for a in agents]

    def svg(self) -> str:
        """Return the diagram for a page, in the page's colours."""
        text = as_svg(self.diagram)
        text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
        attributes = 'role="img" aria-label="Critical-difference diagram; the table below has its numbers"'
        text = re.sub(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>', rf"<svg {attributes} \1>", text, count=1)
        for colour, variable in ((INK, "--ink"), (FAINT, "--faint"), (OTHER, "--c0")):
            text = text.replace(colour, f"var({variable})")
        return text

    def markdown(self, figure: str) -> list[str]:
        """Return the lines of a Markdown section."""
        agents = self.analysis.agents
        lines = [*self.sentences, "", f"![Critical-difference diagram]({figure})", "", *table(self.head, self.rows), ""]
        lines += [
            "Wins / ties / losses of the agent of a row against that of a column; in brackets, significant ones:",
            "",
        ]
        return [*lines, *table(["", *agents], self.matrix)]

    def latex(self) -> str:
        """Return the table of agents for papers (needs the package booktabs)."""
        note = "".join(f"% {sentence}\n" for sentence in self.sentences)
        return note + tabular(self.head, [[[escaped(cell) for cell in row] for row in self.rows]])


def section(tables: Tables, feedback: Feedback) -> Section | None:
    """Return the section of results of one delay and batch; None where there are too few datasets or agents."""
    analysis = analysed(tables)
    return None if analysis is None else Section(analysis, sentences(analysis), diagram(analysis, feedback))


def counts(pair: Pair) -> str:
    """Return wins, ties and losses, with the significant ones in brackets.

    Examples
    --------
    >>> counts(Pair("a", "b", 7, 1, 2, 5, 0, 0.03))
    '7 (5) / 1 / 2 (0)'
    """
    return f"{pair.wins} ({pair.clear_wins}) / {pair.ties} / {pair.losses} ({pair.clear_losses})"


def _interval(ends: tuple[float, float] | None, places: int) -> str:
    return "–" if ends is None else f"{number(ends[0], places)} to {number(ends[1], places)}"


def sentences(analysis: Analysis) -> list[str]:
    """Return what the numbers mean, in sentences."""
    k, n = len(analysis.places), len(analysis.problems)
    first = analysis.places[0]
    lines = [f"{n} datasets, {k} agents; a dataset is one observation. {first.agent} has the best mean rank."]
    test = analysis.friedman
    if test is not None:
        verdict = "the agents differ" if test.p < LEVEL else "no difference between the agents is shown"
        lines.append(
            f"Friedman's test: chi-squared {test.chi2:.2f}; Iman and Davenport's F({k - 1}, {(k - 1) * (n - 1)}) = "
            f"{test.f:.2f}, p {_p(test.p)}: {verdict}. Critical difference of mean ranks by Nemenyi's test: "
            f"{number(analysis.critical_difference, 2)}."
        )
    ps = {place.agent: analysis.pair(first.agent, place.agent).p for place in analysis.places[1:]}
    ahead = [agent for agent, p in ps.items() if p < LEVEL]
    rest = [f"{agent} (p {_p(p)})" for agent, p in ps.items() if p >= LEVEL]
    if ahead:
        lines.append(f"By Wilcoxon's signed-ranks test with Holm's correction it is better than {listed(ahead)}.")
    if rest:
        lines.append(f"By Wilcoxon's test its difference from {listed(rest)} is not significant.")
    pairs = k * (k - 1) // 2
    least = pairs * 2.0 ** (1 - n)
    if least >= LEVEL:
        lines.append(
            f"With {n} datasets and {pairs} pairs that test could not show any: the least p possible is {least:.2f}."
        )
    if analysis.left_out:
        lines.append(f"Not counted, as not every agent played every dataset: {listed(list(analysis.left_out))}.")
    return lines


def _p(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def diagram(analysis: Analysis, feedback: Feedback) -> Figure:
    """Draw the critical-difference diagram: mean ranks, and bars over agents that do not differ significantly."""
    bars = [(group, "-") for group in analysis.nemenyi] + [(group, (0, (1.6, 0.8))) for group in analysis.wilcoxon]
    k = len(analysis.places)
    rows = -(-k // 2)
    title = feedback.labelled("Critical difference")
    lines = 2.6 + 0.55 * len(bars) + 1.0 * rows + 1.6
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        room = 0.75 + 0.072 * max(len(place.agent) for place in analysis.places)  # inches for names at either side
        figure = Figure(figsize=(SPAN + 2 * room, STEP * lines + 0.3))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        inch = (k - 1) / SPAN
        axes.set_xlim(1 - room * inch, k + room * inch)
        axes.set_ylim(lines, -0.9)
        axes.text(0.02, 0.985, title, transform=axes.transAxes, va="top", fontsize=10, fontweight="bold")
        _axis(axes, analysis, 2.2)
        ranked = {place.agent: place.rank for place in analysis.places}
        for row, (group, line) in enumerate(bars):
            ends = [ranked[agent] for agent in group]
            y = 2.2 + 0.55 * (row + 1)
            colour = INK if line == "-" else OTHER
            axes.plot([min(ends) - 0.03, max(ends) + 0.03], [y, y], linestyle=line, color=colour, linewidth=3.5)
        _names(axes, analysis, 2.2, 2.2 + 0.55 * len(bars))
        kinds = ["solid: by Nemenyi’s test"] * bool(analysis.nemenyi)
        kinds += ["dashed: by Wilcoxon’s with Holm’s correction"] * bool(analysis.wilcoxon)
        note = f"Bars join what is not significantly different at 0.05\n({'; '.join(kinds)})."
        footnote = note if kinds else "All pairs differ significantly, by both tests."
        axes.text(0.5, 0.01, footnote, transform=axes.transAxes, ha="center", va="bottom", fontsize=7.5, color=FAINT)
    return figure


def _axis(axes: Axes, analysis: Analysis, y: float) -> None:
    """Draw the axis of ranks, and above it how long the critical difference is."""
    k = len(analysis.places)
    axes.plot([1, k], [y, y], color=INK, linewidth=1.0)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [y, y - 0.2], color=INK, linewidth=1.0)
        axes.text(rank, y - 0.3, str(rank), ha="center", va="bottom", fontsize=8.5, color=FAINT)
    distance = analysis.critical_difference
    if distance is not None:
        top = y - 1.25
        axes.errorbar([1 + distance / 2], [top], xerr=distance / 2, color=INK, capsize=3, linewidth=1.2)
        axes.text(1 + distance + 0.08, top, f"CD = {distance:.2f}", va="center", fontsize=8.5)


def _names(axes: Axes, analysis: Analysis, y: float, below: float) -> None:
    """Write the agents' names at both sides, each joined to its rank: the better half on the left."""
    k = len(analysis.places)
    half = -(-k // 2)
    for index, place in enumerate(analysis.places):
        left = index < half
        row = index if left else k - 1 - index
        at = below + 1.0 * (row + 1)
        edge = 1 - 0.05 * (k - 1) if left else k + 0.05 * (k - 1)
        axes.plot([place.rank, place.rank, edge], [y, at, at], color=FAINT, linewidth=0.8)
        axes.plot([place.rank], [y], "o", color=INK, markersize=4)
        text = f"{place.agent}  {place.rank:.2f}" if left else f"{place.rank:.2f}  {place.agent}"
        side = -1 if left else 1
        axes.text(edge + side * 0.02 * (k - 1), at, text, ha="right" if left else "left", va="center", fontsize=9)
