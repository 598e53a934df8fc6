"""Tables for papers (needs the package booktabs)."""

from __future__ import annotations

from collections.abc import Sequence

from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.report.texts import decimals
from lim2.experiments.tables import Tables

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
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
    """Return the paper's two tables: normalised scores, and rewards with their standard deviations.

    Parameters
    ----------
    content
        The numbers, of one delay and batch.
    feedback
        Which; it is said in a comment, and the problems' labels have it.
    """
    late = f"% {feedback.text}\n" if feedback.text else ""
    return {"normalized": late + _normalized(content), "rewards": late + _rewards(content)}


def _normalized(content: Tables) -> str:
    board = [standing for standing in content.leaderboard if standing.agent not in content.references]
    lines = [
        [escaped(problem), *_best_in_bold([standing.scores.get(problem) for standing in board])]
        for problem in content.problems
    ]
    foot = [
        ["Average", *_best_in_bold([standing.mean for standing in board])],
        ["Median", *_best_in_bold([standing.median for standing in board])],
    ]
    return _tabular([standing.agent for standing in board], lines, foot)


def _best_in_bold(scores: Sequence[float | None]) -> list[str]:
    best = max((score for score in scores if score is not None), default=None)
    return ["--" if s is None else _bold(f"{s:.3f}", s == best) for s in scores]


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
            cells.append(_bold(f"{mean:.{places}f}", entry.best) + spread + mark)
        lines.append([escaped(problem), *cells])
    note = r"% bold: best; \approx: not significantly different from the best (paired t-test, Holm)"
    return f"{note}\n{_tabular(agents, lines, [])}"


def _tabular(agents: Sequence[str], lines: Sequence[Sequence[str]], foot: Sequence[Sequence[str]]) -> str:
    head = ["", *(escaped(agent) for agent in agents)]
    groups = [[head], lines, *([foot] if foot else [])]
    body = "\n\\midrule\n".join("\n".join(r" & ".join(cells) + r" \\" for cells in group) for group in groups)
    return f"\\begin{{tabular}}{{l{'r' * len(agents)}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"


def _bold(text: str, wanted: bool) -> str:
    return rf"\textbf{{{text}}}" if wanted else text
