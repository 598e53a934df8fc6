"""Tables for papers (needs the package booktabs)."""

from __future__ import annotations

from collections.abc import Sequence

from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.report.texts import decimals
from lim2.experiments.tables import Tables

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": "$-$", "–": "--", "≈": r"$\approx$",
}  # fmt: skip


def escaped(text: str) -> str:
    r"""Return text as LaTeX prints it.

    Examples
    --------
    >>> print(escaped("my_agent & 50%"))
    my\_agent \& 50\%
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def tables(content: Tables, feedback: Feedback = IMMEDIATE) -> dict[str, str]:
    """Return the paper's two tables: normalised scores, and rewards with their standard deviations."""
    late = f"% {feedback.text}\n" if feedback.text else ""
    return {"normalized": late + _normalized(content), "rewards": late + _rewards(content)}


def _normalized(content: Tables) -> str:
    board = [standing for standing in content.leaderboard if standing.agent not in content.references]
    lines = [
        [escaped(problem), *_best_inbold([standing.scores.get(problem) for standing in board])]
        for problem in content.problems
    ]
    foot = [
        ["Average", *_best_inbold([standing.mean for standing in board])],
        ["Median", *_best_inbold([standing.median for standing in board])],
    ]
    return tabular(["", *(standing.agent for standing in board)], [lines, foot])


def _best_inbold(scores: Sequence[float | None]) -> list[str]:
    best = max((score for score in scores if score is not None), default=None)
    return ["--" if s is None else bold(_number(s, 3), s == best) for s in scores]


def _number(value: float, places: int) -> str:
    """Return a number with a minus that LaTeX prints as one.

    Examples
    --------
    >>> _number(-1.046, 1)
    '$-$1.0'
    """
    return f"{value:.{places}f}".replace("-", "$-$")


def _rewards(content: Tables) -> str:
    agents = [standing.agent for standing in content.leaderboard]
    lines = []
    for problem in content.problems:
        entries = {entry.row["agent"]: entry for entry in content.of(problem)}
        places = decimals(max(abs(entry.row["reward_mean"]) for entry in entries.values()))
        cells = []
        for agent in agents:
            entry = entries.get(agent)
            if entry is None:
                cells.append("--")
                continue
            mean, std = entry.row["reward_mean"], entry.row["reward_std"]
            spread = "" if std is None else rf" $\pm$ {std:.{places}f}"
            mark = r"$^{\approx}$" if entry.tied else ""
            cells.append(bold(_number(mean, places), entry.best) + spread + mark)
        lines.append([escaped(problem), *cells])
    note = r"% bold: best; \approx: not significantly different from the best (paired t-test, Holm)"
    return f"{note}\n{tabular(['', *agents], [lines])}"


def tabular(head: Sequence[str], groups: Sequence[Sequence[Sequence[str]]], left: int = 1) -> str:
    """Return a table, with a rule between groups of rows."""
    parts = [[[escaped(name) for name in head]], *groups]
    body = "\n\\midrule\n".join("\n".join(r" & ".join(cells) + r" \\" for cells in part) for part in parts)
    columns = "l" * left + "r" * (len(head) - left)
    return f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"


def bold(text: str, is_bold: bool) -> str:
    """Return LaTeX in bold, where that is wanted."""
    return rf"\textbf{{{text}}}" if is_bold else text
