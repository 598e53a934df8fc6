"""`lim2 evaluate`: estimate from logged decisions what another policy would have earned."""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from lim2.commands.errors import plain_errors
from lim2.commands.logged import Arm, Context, Raw, Reward, is_log, logged, opened
from lim2.commands.screen import ERRORS, Json, note, number, print_json, show
from lim2.evaluation import evaluate as estimated
from lim2.evaluation.evaluate import Evaluation, OverlapWarning
from lim2.loading import load
from lim2.log.rules import written
from lim2.log.table import Table

LABELS = {"logged": "logged policy", "ips": "IPS", "snips": "SNIPS", "dr": "doubly robust", "gain": "gain (DR)"}

Policy = Annotated[
    str,
    typer.Argument(
        metavar="POLICY",
        help="Policy to evaluate: file of a saved agent, module:function, always:ARM, uniform, or first.",
    ),
]
Last = Annotated[int | None, typer.Option("--last", metavar="N", help="Use only the newest N decisions. Default: all.")]
Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]
Model = Annotated[
    str, typer.Option("--model", metavar="ridge|logged", help="Reward model of the doubly robust estimate.")
]
RewardRange = Annotated[
    str | None,
    typer.Option(
        "--reward-range",
        metavar="LOW,HIGH",
        help="Smallest and largest possible reward: gives intervals valid for any number of decisions.",
    ),
]


def evaluate(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Address of a log, or a CSV or Parquet file with one row per decision."),
    ],
    policy: Policy,
    arm_column: Arm = None,
    reward_column: Reward = None,
    context: Context = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            "--propensity", metavar="COLUMN", help="Column of the propensity of the arm played; not for a log."
        ),
    ] = None,
    raw: Raw = False,
    last: Last = None,
    level: Level = 0.95,
    model: Model = "ridge",
    reward_range: RewardRange = None,
    as_json: Json = False,
) -> None:
    """Estimate what a policy would have earned, from decisions logged with their propensities.

    Example: lim2 evaluate decisions.db agent.lim2
    """
    with plain_errors(*ERRORS):
        if not is_log(data) and propensity is None:
            raise ValueError("evaluation needs the propensity of the arm played: name its column with --propensity")
        table = logged(data, arm_column, reward_column, context, propensity, raw, last=last)
        log_id = _id_of(data) if is_log(data) else None
        _carry_out(table, policy, log_id, level, model, reward_range, as_json)


def evaluate_log(address: str, policy: str, last: int | None, level: float, model: str, reward_range: str | None,
                 as_json: bool) -> None:  # fmt: skip
    """Evaluate a policy on a log; see :func:`evaluate`."""
    with plain_errors(*ERRORS):
        with opened(address) as log:
            table, log_id = log.table(last), log.id
        _carry_out(table, policy, log_id, level, model, reward_range, as_json)


def _id_of(address: str) -> str:
    with opened(address) as log:
        return log.id


def _carry_out(
    table: Table, policy: str, log_id: str | None, level: float, model: str, reward_range: str | None, as_json: bool
) -> None:
    chooser = policy_named(policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # they are in the result
        evaluation = estimated(table, chooser, level=level, model=model, reward_range=range_of(reward_range))
    remarks = list(evaluation.warnings)
    if log_id is not None and getattr(chooser, "metadata", {}).get("log_id") == log_id:
        remarks.append("the agent has learned from this log: it looks better than it is. Replay one part of the log, "
                       "and evaluate on another")  # fmt: skip
    if as_json:
        print_json({**asdict(evaluation), "policy": policy, "warnings": remarks})
        return
    show(
        f"What {policy} would have earned per decision",
        shown(evaluation),
        f"{evaluation.n:,} decisions, effective sample size {evaluation.effective_size:,.0f}; weights: mean "
        f"{number(evaluation.mean_weight)}, largest {number(evaluation.max_weight)}",
    )
    for text in remarks:
        note(f"warning: {text}")


def policy_named(word: str) -> Any:
    """Return the policy named on the command line.

    It is the file of a saved agent, ``module:function``, or in the grammar of `lim2.log.rules`.
    """
    rule = written(word)
    if rule is not None:
        return rule
    kind, colon, name = word.partition(":")
    if Path(word).is_file():
        return load(word)
    if not colon or not name.isidentifier():
        raise ValueError(
            f"POLICY must be the file of a saved agent, module:function, always:ARM, uniform or first, got {word!r}"
        )
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        return getattr(importlib.import_module(kind), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no policy {word!r}: {error}") from error


def range_of(text: str | None) -> tuple[float, float] | None:
    """Return the smallest and the largest reward, from the text LOW,HIGH."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError as error:
        raise ValueError(f"--reward-range must be LOW,HIGH, such as 0,1, got {text!r}") from error
    return low, high


def shown(evaluation: Evaluation) -> Grid:
    """Return an evaluation as a table."""
    table = Grid()
    table.add_column("", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for end in ("from", "to"):
        table.add_column(f"{100 * evaluation.level:.4g}% {end}", justify="right", no_wrap=True)
    for name, label in LABELS.items():
        one = getattr(evaluation, name)
        table.add_row(label, *map(number, (one.value, one.low, one.high)))
    return table
