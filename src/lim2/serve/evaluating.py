"""What other policies would have earned."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from lim2.bandit import Bandit
from lim2.evaluation import evaluate
from lim2.evaluation.evaluate import Evaluation
from lim2.log import LoggedDecision, Table
from lim2.log.reading import make_table
from lim2.log.rules import FIRST
from lim2.serve import spec as specs
from lim2.serve import wire
from lim2.serve.bandits import DecidingBandit
from lim2.serve.errors import bad_request
from lim2.serve.history import complete, only, recent, too_few


def first(_: Any, candidates: Any) -> Any:
    """Return the first candidate: what the application would have chosen by itself."""
    return next(iter(candidates))


def any_of(_: Any, candidates: Any) -> list[float]:
    """Return equal probabilities."""
    return [1.0 / len(candidates)] * len(candidates)


def evaluated(hosted: DecidingBandit, request: wire.EvaluateRequest) -> wire.EvaluateResponse:
    """Return what a policy would have earned in place of a bandit's latest decisions."""
    if (request.policy == "algorithm") != (request.algorithm is not None):
        raise bad_request("algorithm goes with the policy 'algorithm'", "algorithm")
    decisions, limited = recent(hosted.log, request.last, features=request.policy in ("best", "algorithm"))
    known = complete(decisions, hosted.stored.spec.default_reward)
    table = table_of(known)
    if len(table) < 4:
        raise bad_request(too_few(len(table)))
    if request.policy == "baseline":
        result = evaluate(table, first)
    elif request.policy == "random":
        result = evaluate(table, any_of)
    else:
        result = trained(hosted, table, request.algorithm)[0]
    return wire.EvaluateResponse(
        policy=request.algorithm or request.policy,
        decisions=result.n,
        left_out=len(decisions) - len(known),
        effective_decisions=finite(result.effective_size),
        logged=estimate(result.logged),
        ips=estimate(result.ips),
        snips=estimate(result.snips),
        dr=estimate(result.dr),
        gain=estimate(result.gain),
        warnings=[*result.warnings, *([only(len(decisions))] if limited else ())],
    )


def proved(hosted: DecidingBandit, request: wire.ProofRequest) -> wire.ProofResponse:
    """Return whether a bandit is proved better than a rule."""
    spec = hosted.stored.spec
    ends = request.reward_range or spec.reward_range
    rule = request.against or (FIRST if spec.control is None else spec.control.rule)
    proof = hosted.log.proof(rule, reward_range=None if ends is None else (ends[0], ends[1]))
    return msgspec.convert(proof.to_dict(), wire.ProofResponse)


def trained(hosted: DecidingBandit, table: Table, algorithm: str | None) -> tuple[Evaluation, int]:
    """Return what a fresh bandit earns on the second half of a table after learning the first, and where it begins."""
    own = hosted.stored.spec
    half = len(table) // 2
    other = specs.made(own) if algorithm is None else of_algorithm(own, algorithm)
    table[:half].replay(other)
    return evaluate(table[half:], other.snapshot()), half


def of_algorithm(own: specs.BanditSpec, algorithm: str) -> Bandit:
    """Return a fresh bandit like another one, with another algorithm and its usual settings."""
    return specs.made(msgspec.structs.replace(own, algorithm=algorithm, settings={}))


def table_of(decisions: Sequence[LoggedDecision]) -> Table:
    """Return the table of those decisions that have a reward."""
    rewarded = [one for one in decisions if one.reward is not None]
    return make_table(rewarded, len(decisions) - len(rewarded))


def estimate(found: Any) -> wire.Estimate:
    """Return an estimate as JSON holds it."""
    return wire.Estimate(finite(found.value), finite(found.low), finite(found.high))


def finite(value: float) -> float | None:
    """Return a number as JSON holds it: None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None
