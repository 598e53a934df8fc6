"""The report as Markdown: the same tables, with figures beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lim2.experiments.feedback import Feedback
from lim2.experiments.report.content import Content
from lim2.experiments.report.texts import megabytes, microseconds, number, p_value, percent, plus_minus
from lim2.experiments.summary import Row
from lim2.experiments.tables import Tables

FIGURES = ("cumulative-regret", "regret-per-round", "reward-against-time", "memory")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    r"""Return the lines of a table.

    Examples
    --------
    >>> print(*table(["a", "b"], [["x|y", "1"]]), sep="\n")
    | a | b |
    |:--|--:|
    | x\|y | 1 |
    """
    marks = "|".join(":--" if i < left else "--:" for i in range(len(head)))
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in (head, *rows)]
    return [lines[0], f"|{marks}|", *lines[1:]]


def report(content: Content, slug: Callable[[str], str], over: Mapping[Feedback, list[str]]) -> str:
    """Return the report."""
    lines = ["# lim2 bench", "", f"{content.size}. {content.date}", "", content.headline, ""]
    lines += [f"> **Note:** {alert}" for alert in content.alerts]
    if content.problems:
        for feedback, part in content.tables.parts.items():
            late = f": {feedback.name}" if feedback.text or len(content.tables.parts) > 1 else ""
            meaning = [feedback.meaning, ""] if feedback.meaning else []
            figures = f"figures/{slug(feedback.labelled('all'))}"
            lines += ["", f"## Leaderboard{late}", "", *meaning, *_leaderboard(part), ""]
            lines += [f"![Scores]({figures}-scores.png) ![Score against time]({figures}-score-against-time.png)", ""]
            lines += [f"## Normalised score by problem{late}", "", *_scores(part), ""]
            if feedback in over:
                lines += [f"## Over many datasets{late}", "", *over[feedback], ""]
    if len(content.tables.parts) > 1:
        lines += ["## Reward by delay and batch", "", *_across(content.tables), ""]
        for problem in content.tables.across:
            lines.append(f"![reward by delay](figures/{slug(f'delays {problem}')}-reward-by-delay.png)")
        lines.append("")
    for about in content.problems:
        lines += [f"## {about.label}", "", f"`{about.text}`: {about.facts}.", ""]
        lines += [f"- {note}" for note in about.notes]
        head = ["agent", "reward", "normalised", "regret", "optimal", "time per round", "memory", "p against best"]
        rows = [
            [
                _bold(entry.row["agent"], entry.best),
                _bold(plus_minus(entry.row["reward_mean"], entry.row["reward_std"], about.places), entry.best),
                number(entry.row["normalized"], 3),
                _regret(entry.row),
                percent(entry.row["optimal_rate"]),
                microseconds(entry.row["us_per_round"]),
                megabytes(entry.row["peak_mb"]),
                "best" if entry.best else p_value(entry.p) + (" ≈" if entry.tied else ""),
            ]
            for entry in about.entries
        ]
        lines += [*table(head, rows), ""]
        lines += [f"![{name}](figures/{slug(about.label)}-{name}.png)" for name in FIGURES]
        lines.append("")
    lines += _repeating(content)
    return "\n".join(lines) + "\n"


def _leaderboard(tables: Tables) -> list[str]:
    head = ["#", "agent", "mean", "median", "mean rank", "p against first", "time per round", "memory"]
    rows = [
        [
            str(standing.rank),
            _bold(standing.agent, standing.rank == 1),
            _bold(number(standing.mean, 3), standing.rank == 1),
            number(standing.median, 3),
            number(standing.mean_rank, 1),
            "first" if standing.rank == 1 else p_value(standing.p) + (" ≈" if standing.tied else ""),
            microseconds(standing.us_per_round),
            megabytes(standing.peak_mb),
        ]
        for standing in tables.leaderboard
    ]
    return table(head, rows, left=2)


def _scores(tables: Tables) -> list[str]:
    board = tables.leaderboard
    rows = []
    for problem in tables.problems:
        scores = [standing.scores.get(problem) for standing in board]
        rows.append([problem, *(_bold(number(score, 3), score == 1.0) for score in scores)])
    rows.append(["**mean**", *(number(standing.mean, 3) for standing in board)])
    rows.append(["**median**", *(number(standing.median, 3) for standing in board)])
    return table(["problem", *(standing.agent for standing in board)], rows)


def _across(tables: Tables) -> list[str]:
    rows = []
    for problem, agents in tables.across.items():
        for agent, row in agents.items():
            means = [row[late]["reward_mean"] if late in row else None for late in tables.parts]
            rows.append([problem, agent, *map(number, means)])
    return table(["problem", "agent", *(late.name for late in tables.parts)], rows, left=2)


def _repeating(content: Content) -> list[str]:
    lines = ["## Repeat it", ""]
    for command in content.commands:
        lines += ["```", command, "```", ""]
    lines += table(["agent", "made as"], [[label, f"`{text}`"] for label, text in content.agents.items()], left=2)
    lines += ["", *table(["", ""], [[name, ", ".join(values)] for name, values in content.machine.items()], left=2)]
    for failure in content.failures:
        where = f"{failure['problem']} / {failure['agent']} / seed {failure['seed']}"
        lines += ["", f"### Failed: {where}", "", "```", failure["error"].rstrip(), "```"]
    for where, warning in content.warnings:
        lines += ["", f"- Warning of {where}: {warning}"]
    return lines


def _regret(row: Row) -> str:
    """Return the regret, with its share of the random policy's where that is known."""
    share = row.get("regret_share")
    return number(row["regret_mean"]) + ("" if share is None else f" ({percent(share)})")


def _bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text
