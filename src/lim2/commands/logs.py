"""`lim2 log`: inspect a decision log, evaluate and replay it, and delete from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table

from lim2.commands import evaluate as evaluating
from lim2.commands.errors import plain_errors
from lim2.commands.log_copy import copy
from lim2.commands.logged import Address, opened
from lim2.commands.screen import ERRORS, Json, console, facts, moment, note, number, print_json, show, span
from lim2.commands.warm_start import fresh
from lim2.loading import load
from lim2.log import DecisionLog, LoggedDecision
from lim2.log.learning import position_of
from lim2.log.reading import entries

app = typer.Typer(help="Decision logs: inspect, evaluate, replay, copy, prune, erase.", no_args_is_help=True)
app.command()(copy)

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command()
def state(address: Address, as_json: Json = False) -> None:
    """Show the counts, settings and size of a log."""
    with plain_errors(*ERRORS), opened(address) as log:
        counts, settings, model, now = log.state, log.settings, log.model(), log.clock()
        name, log_id = log.store.name, log.id
    published = None if model is None else {"version": model.version, "position": model.position, "time": model.time}
    if as_json:
        print_json({"log": name, "id": log_id, **asdict(counts), "settings": settings._asdict(), "model": published})
        return
    waits = f", the oldest for {span(counts.oldest_pending)}" if counts.oldest_pending is not None else ""
    expire, default = settings.expire_after, settings.default_reward
    rows = {
        "id": log_id,
        "waiting": f"{counts.pending:,} decisions{waits}",
        "rewarded": f"{counts.rewards:,}",
        "by default": f"{counts.defaults:,}",
        "dropped": f"{counts.dropped:,}",
        "discarded": f"{counts.discarded:,}",
        "erased": f"{counts.erased:,}",
        "late rewards": f"{counts.late:,}",
        "position": f"{counts.position:,}" + (f", deleted up to {counts.pruned:,}" if counts.pruned else ""),
        "expiry": "never" if expire is None else f"after {span(expire)}, then {_default(default)}",
        "several rewards": settings.aggregate or "an error",
        "published": None if model is None else f"version {model.version}, at position {model.position:,}, "
        f"{span(max(now - model.time, 0.0))} ago",
        "size": decimal(counts.nbytes),
    }  # fmt: skip
    show(name, facts(rows))


def _default(reward: float | None) -> str:
    return "dropped" if reward is None else f"a reward of {reward:g}"


@app.command()
def tail(
    address: Address,
    n: Annotated[int, typer.Option("-n", "--last", min=1, help="Number of decisions.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show the latest decisions with their rewards."""
    with plain_errors(*ERRORS), opened(address) as log:
        before = log.store.look(lambda tables: tables.newest(n))
        latest, name = list(entries(log.store, "all", before)), log.store.name
    if as_json:
        for one in latest:
            print_json(_row(one), indent=None)
        return
    table = Table()
    table.add_column("made (UTC)", min_width=8)
    table.add_column("decision", overflow="fold", min_width=10)
    table.add_column("arm", overflow="fold", min_width=4)
    table.add_column("propensity", justify="right", no_wrap=True)
    table.add_column("reward", no_wrap=True)
    for one in latest:
        table.add_row(moment(one.time), one.id, str(one.arm), number(one.propensity), _became(one))
    show(name, table)


def _became(one: LoggedDecision) -> str:
    """Return the reward of a decision, and its status if no reward was sent."""
    if one.status == "reward":
        return number(one.reward)
    return one.status if one.reward is None else f"{number(one.reward)} ({one.status})"


def _row(one: LoggedDecision) -> dict[str, Any]:
    return {
        "id": one.id, "time": one.time, "arm": one.arm, "propensity": one.propensity, "arms": one.arms,
        "propensities": one.propensities, "status": one.status, "reward": one.reward, "position": one.position,
        "exploit": one.exploit, "group": one.group, "active": one.active, "key": one.key, "context": one.context,
        "metadata": one.metadata,
    }  # fmt: skip


@app.command()
def evaluate(
    address: Address,
    policy: evaluating.Policy,
    last: evaluating.Last = None,
    level: evaluating.Level = 0.95,
    model: evaluating.Model = "ridge",
    reward_range: evaluating.RewardRange = None,
    as_json: Json = False,
) -> None:
    """Estimate what another policy would have earned; `lim2 evaluate` also reads tables.

    Example: lim2 log evaluate decisions.db always:spring
    """
    evaluating.evaluate_log(address, policy, last, level, model, reward_range, as_json)


@app.command()
def proof(
    address: Address,
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE",
            help="Rule to compare with: always:ARM, uniform, first (the first candidate), module:function, or the file "
            "of a saved agent.",
        ),
    ],
    level: evaluating.Level = 0.95,
    reward_range: Annotated[
        str | None,
        typer.Option("--reward-range", metavar="LOW,HIGH", help="Smallest and largest reward. Default: 0,1."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show whether the bandit is proved better than a rule; you may look as often as you like.

    The interval is valid at every look, over all decisions up to the first that still waits for its reward.

    Example: lim2 log proof decisions.db always:spring
    """
    with plain_errors(*ERRORS), opened(address) as log:
        proof_of_log = log.proof(
            evaluating.policy_named(rule), reward_range=evaluating.range_of(reward_range), level=level
        )
    if as_json:
        print_json(proof_of_log.to_dict())
        return
    first, *rest = str(proof_of_log).splitlines()
    console().print(first, soft_wrap=True, markup=False)
    for text in rest:
        note(text)


@app.command()
def replay(
    address: Address,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to save the agent to.")],
    like: Annotated[
        Path | None,
        typer.Option("--like", metavar="FILE", help="File of a saved agent whose settings and seed are used."),
    ] = None,
    agent: Annotated[
        str, typer.Option("--agent", help="Without --like: name of the agent, such as LinearTS.")
    ] = "AdaptiveTS",
    seed: Annotated[int | None, typer.Option("--seed", help="Without --like: seed of the agent.")] = None,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Repeat the decisions as well, and compare them.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Replay the rest if the beginning of the log was deleted.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a new agent on the whole log from the beginning, and save it.

    With --like, the new agent equals the saved one bit for bit.

    Example: lim2 log replay decisions.db --like agent.lim2 --out again.lim2
    """
    with plain_errors(*ERRORS), opened(address) as log:
        pruned = log.state.pruned
        if pruned and not partial:
            raise ValueError(
                f"{log.store.name} begins after position {pruned:,}: earlier events were deleted. Give --partial to "
                "learn from the rest, which gives a different agent"
            )
        learner = load(like).clone() if like is not None else fresh(log.table(), agent, seed)
        with console().status("learning"):
            learned = log.replay(learner, decisions=decisions, allow_partial=partial)
        learner.save(out)
    if as_json:
        print_json({"learned": learned, "rounds": learner.rounds, "position": position_of(learner), "file": str(out)})
        return
    text = f"{learned:,} rewards learned, up to position {position_of(learner):,}: {out}"
    console().print(text, soft_wrap=True, markup=False)
    if decisions:
        console().print("Every decision was made again, and is the same as in the log.")


@app.command()
def prune(
    address: Address,
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="N|TIME",
            help="Settled decisions to keep: a number such as 100000, or a time such as 30d, 12h, 90m.",
        ),
    ],
    learned: Annotated[
        str | None,
        typer.Option(
            "--learned",
            metavar="FILE|POSITION",
            help="File of a saved agent, or a position: nothing after it is deleted. Default: the published agent's.",
        ),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete old settled decisions that have been learned.

    Changes of arms are kept. A replay from the beginning is no longer possible afterwards.

    Example: lim2 log prune decisions.db --keep 30d --learned agent.lim2
    """
    with plain_errors(*ERRORS), _changed(address) as log:
        age, upto = _keep(keep), _learned(log, learned)
        _ask(f"Delete settled decisions from {log.store.name} up to position {upto:,}, except the last {keep}?", yes)
        deleted = log.prune(age, upto)
        left, name = log.position - log.state.pruned, log.store.name
    if as_json:
        print_json({"deleted": deleted, "left": left})
        return
    console().print(f"{deleted:,} events deleted, {left:,} are left: {name}", soft_wrap=True, markup=False)


@app.command()
def erase(
    address: Address,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key of the person, as given with the decisions.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete all decisions of a person permanently: contexts, candidates, metadata and rewards.

    Saved agents and backups do not change. `lim2 log replay` makes an agent that was never trained on these decisions.
    """
    with plain_errors(*ERRORS), _changed(address) as log:
        _ask(f"Delete all decisions of {key!r} from {log.store.name} permanently?", yes)
        erased, name = log.erase(key), log.store.name
    if as_json:
        print_json({"erased": erased})
        return
    console().print(f"{erased:,} decisions of {key!r} erased: {name}", soft_wrap=True, markup=False)


@contextmanager
def _changed(address: str) -> Iterator[DecisionLog]:
    """Open an existing log for writing."""
    with opened(address, write=True) as log:
        yield log


def _ask(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True, err=True)


def _keep(text: str) -> int | timedelta:
    match = re.fullmatch(r"(\d+)([smhd]?)", text)
    if match is None:
        raise ValueError(f"--keep must be a number of decisions, or a time such as 30d, 12h, 90m or 45s, got {text!r}")
    amount = int(match[1])
    return timedelta(seconds=amount * UNITS[match[2]]) if match[2] else amount


def _learned(log: DecisionLog, position: str | None) -> int:
    """Return the position up to which all agents have learned."""
    if position is None:
        model = log.model()
        if model is None:
            raise ValueError(
                "the log has no published agent, so it is unknown what has been learned: give --learned agent.lim2, a "
                "saved agent of this log, or --learned POSITION"
            )
        return model.position
    if position.isdecimal():
        return int(position)
    agent = load(position)
    if agent.metadata.get("log_id") != log.id:
        raise ValueError(f"{position} has not learned from this log: give an agent that has, or a position")
    return position_of(agent)
