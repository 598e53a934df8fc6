"""Off-policy evaluations, in the forms of Personalizer's dialects."""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from lim2.evaluation.estimators import mean_of, snips
from lim2.evaluation.policies import probabilities
from lim2.log import LoggedDecision
from lim2.log.entries import new_id
from lim2.serve.errors import bad_request, not_found
from lim2.serve.evaluating import any_of, first, of_algorithm, table_of
from lim2.serve.history import complete, recent, too_few
from lim2.serve.hosted import Hosted
from lim2.serve.operations import Call, Reply
from lim2.serve.personalizer import wire
from lim2.serve.personalizer.configuration import OPTION, algorithm_of, apply_policy, own_of
from lim2.serve.personalizer.jobs import Jobs, span_of
from lim2.serve.personalizer.listing import page
from lim2.serve.personalizer.times import duration_of, moment_of, seconds_of, time_of

Array = NDArray[np.float64]

JOBS: Jobs[wire.Evaluation] = Jobs(wire.Evaluation, "evaluations", "Evaluation")
MOST_DECISIONS = 20_000  # the latest
POINTS = 300  # of a series, at most
INTERVAL = 5  # minutes between points, at least
LEVEL = 0.95
OTHERS = ("AdaptiveTS", "LinearTS")  # what is tried where offline experimentation is asked for


class Window(msgspec.Struct, rename="camel"):
    """Which part of the series is wanted, in 2022."""

    start_time: Annotated[str, Meta(max_length=64)] | None = None
    end_time: Annotated[str, Meta(max_length=64)] | None = None
    interval_in_minutes: Annotated[int, Meta(ge=1, le=1440)] | None = None
    window: Literal["Expanding", "Rolling"] | None = None


# Operations


async def create(call: Call) -> Reply:
    """Evaluate online, baseline, random and other policies on logged decisions; 201 with the place of the result."""
    job = await _begin(call, new_id(time.time()))
    place = f"{call.location}/{job.id}"
    return Reply(job, headers={"location": place})


async def put(call: Call) -> wire.Evaluation2022:
    """Evaluate online, baseline, random and other policies on logged decisions, under an id of one's own."""
    return form_of_2022(await _begin(call, _id(call)))


async def get(call: Call) -> wire.Evaluation:
    """Return an evaluation."""
    return await _job(call)


async def get_2022(call: Call) -> wire.Evaluation2022:
    """Return an evaluation."""
    window = call.query
    job = await _job(call)
    if window.start_time is not None and window.end_time is not None:
        begins, ends = span_of(window.start_time, window.end_time, "InvalidEvaluationContract")
        for result in job.policy_results:
            result.summary = [one for one in result.summary if begins <= (moment_of(one.time_stamp) or 0.0) <= ends]
    return form_of_2022(job)


async def listed(call: Call) -> list[wire.Evaluation]:
    """Return all evaluations."""
    return await asyncio.to_thread(JOBS.all, call.service.personalizer)


async def listed_2022(call: Call) -> wire.Evaluations:
    """Return all evaluations, a page at a time."""
    found = await asyncio.to_thread(JOBS.all, call.service.personalizer)
    return wire.Evaluations(*page(found, call.query, wire.EvaluationDetails, "evaluations"))


async def delete(call: Call) -> Reply:
    """Remove an evaluation."""
    await asyncio.to_thread(JOBS.delete, call.service.personalizer, _id(call))
    return Reply(status=204)


async def apply(call: Call) -> Reply:
    """Let a policy of an evaluation learn from now on."""
    wanted: wire.PolicyReference = call.body
    job = await asyncio.to_thread(JOBS.get, call.service.personalizer, wanted.evaluation_id)
    for result in job.policy_results:
        if result.name == wanted.policy_name and result.policy_source not in ("Baseline", "Random"):
            await apply_policy(call, wire.PolicyContract(result.name, result.arguments))
            return Reply(status=204)
    raise not_found("the evaluation has no policy of this name that can learn", "LearningSettingsNotFound")


def _id(call: Call) -> str:
    id: str = call.path["id"]
    if len(id) > 256:
        raise bad_request("an id has at most 256 characters", "evaluationId", "InvalidEvaluationContract")
    return id


async def _job(call: Call) -> wire.Evaluation:
    return await asyncio.to_thread(JOBS.get, call.service.personalizer, _id(call))


# The work


async def _begin(call: Call, id: str) -> wire.Evaluation:
    given: wire.EvaluationContract = call.body
    begins, ends = span_of(given.start_time, given.end_time, "InvalidEvaluationContract")
    names = [policy.name for policy in given.policies or ()]
    if len(set(names)) < len(names):
        raise bad_request("the names of policies must be unique", "policies", "DuplicateCustomPolicyNames")
    for policy in given.policies or ():
        algorithm_of(policy)
    job = wire.Evaluation(
        id=id,
        name=given.name,
        start_time=given.start_time,
        end_time=given.end_time,
        creation_time=time_of(time.time()),
        status="Running",
        job_id=id,
    )
    hosted = call.service.personalizer
    await JOBS.run(call.service, hosted, job, lambda: evaluated(hosted, job, given, begins, ends))
    return job


def evaluated(
    hosted: Hosted, job: wire.Evaluation, given: wire.EvaluationContract, begins: float, ends: float
) -> wire.Evaluation:
    """Return an evaluation with its results.

    Parameters
    ----------
    hosted
        The bandit.
    job
        The evaluation.
    given
        What was asked for.
    begins, ends
        Times between which the decisions were made.
    """
    decisions = [
        one
        for one in complete(recent(hosted.log, MOST_DECISIONS), hosted.stored.spec.default_reward)
        if begins <= one.time <= ends and one.reward is not None and one.propensity > 0
    ]
    if len(decisions) < 4:
        raise bad_request(too_few(len(decisions)))
    lasted = decisions[-1].time - decisions[0].time  # the span that was asked for may be years longer
    interval = max(INTERVAL, math.ceil(lasted / 60 / POINTS))
    table = table_of(decisions)
    own = own_of(hosted.stored)

    def weights_of(policy: Any) -> Array:
        weights: Array = probabilities(policy, table)[table.played] / table.propensity
        return weights

    results = [
        _result(own.policy_name, own.policy_arguments, "Online", decisions, np.ones(len(decisions)), interval),
        _result(
            "Baseline",
            "",
            "Baseline",
            decisions,
            weights_of(first),
            interval,
        ),
        _result("Random", "", "Random", decisions, weights_of(any_of), interval),
    ]
    tried = [(policy, "Custom") for policy in given.policies or ()]
    if given.enable_offline_experimentation or given.enable_policy_optimization:
        tried += [(wire.PolicyContract(name, f"{OPTION} {name}"), "OfflineExperimentation") for name in OTHERS]
    half = len(table) // 2
    for policy, source in tried:
        other = of_algorithm(hosted.stored.spec, algorithm_of(policy) or hosted.stored.spec.algorithm)
        table[:half].replay(other)
        rest = table[half:]
        weights = probabilities(other.snapshot(), rest)[rest.played] / rest.propensity
        results.append(_result(policy.name, policy.arguments, source, decisions[half:], weights, interval))
    best = max(results, key=lambda one: one.total_summary.average_reward if one.total_summary else -math.inf)
    return msgspec.structs.replace(job, status="Succeeded", policy_results=results, optimal_policy=best.name)


def _result(
    name: str, arguments: str, source: Any, decisions: Sequence[LoggedDecision], weights: Array, interval: int
) -> wire.PolicyResult:
    rewards = np.array([one.reward for one in decisions])
    windows = np.array([one.time // (60 * interval) for one in decisions])
    ends = [*np.flatnonzero(np.diff(windows)) + 1, len(decisions)]
    series = [measured(weights[:end], rewards[:end], decisions[end - 1].time, interval) for end in ends]
    return wire.PolicyResult(name, arguments, source, series, series[-1])


def measured(weights: Array, rewards: Array, moment: float, interval: int) -> wire.Measured:
    """Return what a policy earns, from importance weights; by self-normalised scores.

    Parameters
    ----------
    weights
        Importance weights of the decisions.
    rewards
        Rewards of the decisions.
    moment
        Time of the last decision.
    interval
        Minutes between two points of a series.
    """
    terms = weights * rewards
    if len(rewards) < 2 or np.count_nonzero(weights) < 2:
        value, half = (float(terms.sum() / weights.sum()) if weights.sum() else 0.0), 0.0
    else:
        found = mean_of(rewards, LEVEL) if (weights == 1).all() else snips(weights, rewards, LEVEL)
        value, half = found.value, (found.high - found.low) / 2
    return wire.Measured(
        time_stamp=time_of(moment),
        ips_estimator_numerator=float(terms.sum()),
        ips_estimator_denominator=float(len(rewards)),
        snips_estimator_denominator=float(weights.sum()),
        aggregate_time_window=duration_of(60 * interval),
        non_zero_probability=float(np.count_nonzero(weights)),
        sum_of_squares=float(np.sum(terms**2)),
        confidence_interval=half if math.isfinite(half) else 0.0,
        average_reward=value,
    )


def form_of_2022(job: wire.Evaluation) -> wire.Evaluation2022:
    """Return an evaluation in the form of 2022.

    Parameters
    ----------
    job
        The job, in the form of the other dialects.
    """
    content = None
    if job.policy_results:
        values = [
            wire.SeriesOfPolicy(
                one.name,
                one.arguments,
                one.policy_source,
                None if one.total_summary is None else _summary(one.total_summary, with_time=False),
                wire.TimeSeries([_summary(part) for part in one.summary]),
            )
            for one in job.policy_results
        ]
        content = wire.EvaluationResult(job.start_time, job.end_time, _interval_of(job), values)
    return wire.Evaluation2022(
        id=job.id,
        name=job.name,
        start_time=job.start_time,
        end_time=job.end_time,
        creation_time=job.creation_time,
        status=job.status,
        evaluation_type=job.evaluation_type,
        optimal_policy=job.optimal_policy or None,
        content=content,
        description=job.description or None,
    )


def _interval_of(job: wire.Evaluation) -> int:
    """Return the minutes between two points of the series of an evaluation."""
    totals = [one.total_summary for one in job.policy_results if one.total_summary is not None]
    return round((seconds_of(totals[0].aggregate_time_window) or 0.0) / 60) if totals else INTERVAL


def _summary(found: wire.Measured, with_time: bool = True) -> wire.Summary:
    value, half = found.average_reward, found.confidence_interval
    return wire.Summary(value, [value - half, value + half], found.time_stamp if with_time else None)
