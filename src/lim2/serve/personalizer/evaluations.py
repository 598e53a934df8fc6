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

from lim2.evaluation.estimators import student
from lim2.evaluation.policies import probabilities
from lim2.log import LoggedDecision, Table
from lim2.log.ids import new_id
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
POINTS = 300  # of a series, unless it lasts longer
INTERVALS = (5, 60, 360, 720, 1440)  # minutes between points, as Personalizer has them
LEVEL = 0.95
OTHERS = ("AdaptiveTS", "LinearTS")  # what is tried where offline experimentation is asked for


class Window(msgspec.Struct, rename="camel"):
    """Which part of the series is wanted, in 2022."""

    start_time: Annotated[str, Meta(max_length=64)] | None = None
    end_time: Annotated[str, Meta(max_length=64)] | None = None
    interval_in_minutes: Literal[5, 60, 360, 720, 1440] | None = None
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
    window: Window = call.query
    job = await _job(call)
    interval, rolling = max(window.interval_in_minutes or 0, _interval_of(job)), window.window == "Rolling"
    if rolling or interval > _interval_of(job):
        for result in job.policy_results:
            result.summary = windows_of(result.summary, interval, rolling)
    if window.start_time is not None and window.end_time is not None:
        begins, ends = span_of(window.start_time, window.end_time, "InvalidEvaluationContract")
        for result in job.policy_results:
            result.summary = [one for one in result.summary if begins <= _moment(one) <= ends]
    return form_of_2022(job, interval)


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
        for one in complete(
            recent(hosted.log, MOST_DECISIONS, features=True).decisions, hosted.stored.spec.default_reward
        )
        if begins <= one.time <= ends and one.reward is not None and one.propensity > 0
    ]
    if len(decisions) < 4:
        raise bad_request(too_few(len(decisions)))
    lasted = decisions[-1].time - decisions[0].time  # the span that was asked for may be years longer
    interval = next((one for one in INTERVALS if lasted <= 60 * one * POINTS), INTERVALS[-1])
    table, half = table_of(decisions), len(decisions) // 2
    own = own_of(hosted.stored)

    def weights_of(policy: Any, part: Table = table) -> Array:
        weights: Array = probabilities(policy, part)[part.played] / part.propensity
        return weights

    found: list[tuple[str, str, Any, Array]] = [
        (own.policy_name, own.policy_arguments, "Online", np.ones(len(decisions))),
        ("Baseline", "", "Baseline", weights_of(first)),
        ("Random", "", "Random", weights_of(any_of)),
    ]
    tried = [(policy, "Custom") for policy in given.policies or ()]
    if given.enable_offline_experimentation or given.enable_policy_optimization:
        tried += [(wire.PolicyContract(name, f"{OPTION} {name}"), "OfflineExperimentation") for name in OTHERS]
    for policy, source in tried:
        other = of_algorithm(hosted.stored.spec, algorithm_of(policy) or hosted.stored.spec.algorithm)
        table[:half].replay(other)
        found.append((policy.name, policy.arguments, source, weights_of(other.snapshot(), table[half:])))
    results = [
        wire.PolicyResult(name, arguments, source, series, series[-1])
        for name, arguments, source, weights in found
        for series in [_series(decisions[len(decisions) - len(weights) :], weights, interval)]
    ]
    best = optimal([weights for *_, weights in found], np.array([one.reward for one in decisions]))
    return msgspec.structs.replace(job, status="Succeeded", policy_results=results, optimal_policy=found[best][0])


def optimal(weights: Sequence[Array], rewards: Array) -> int:
    """Return which policy earns most, all of them on the decisions that none was trained on; the first of equals.

    Parameters
    ----------
    weights
        Importance weights of each policy for the latest decisions, as many as it has.
    rewards
        Rewards of all decisions.

    Examples
    --------
    >>> optimal([np.ones(4), np.array([1.5, 0.5])], np.array([0.0, 0.0, 1.0, 1.0]))  # the trained one is no better
    0
    """
    least = min(map(len, weights))
    earned = [float(own[-least:] @ rewards[-least:]) for own in weights]
    counted = [float(own[-least:].sum()) for own in weights]
    return int(np.argmax([value / n if n else -math.inf for value, n in zip(earned, counted, strict=True)]))


def _series(decisions: Sequence[LoggedDecision], weights: Array, interval: int) -> list[wire.Measured]:
    """Return what a policy earns, up to the last decision of each interval."""
    r, w = np.array([one.reward for one in decisions]), weights
    sums = np.cumsum(np.stack([np.ones(len(r)), w != 0, w, w * r, w * w, w * w * r, (w * r) ** 2], axis=1), axis=0)
    intervals = np.array([one.time // (60 * interval) for one in decisions])
    last = [*np.flatnonzero(np.diff(intervals)), len(decisions) - 1]
    return [measured(sums[place], decisions[place].time, interval) for place in last]


def measured(sums: Array, moment: float, interval: int) -> wire.Measured:
    """Return what a policy earns, by self-normalised scores.

    Parameters
    ----------
    sums
        (7,), over decisions of weight w and reward r: of 1, of 1 where w is not 0, of w, wr, ww, wwr and wwrr.
    moment
        Time of the last decision.
    interval
        Minutes between two points of a series.
    """
    n, used, weight, earned, ww, wwr, squares = map(float, sums)
    value, half = (earned / weight if weight else 0.0), 0.0
    if used > 1:
        variance = max(squares - 2 * value * wwr + value * value * ww, 0.0) / (n * (n - 1))
        found = student(value, n / weight * math.sqrt(variance), int(n), LEVEL)
        half = (found.high - found.low) / 2
    return wire.Measured(
        time_stamp=time_of(moment),
        ips_estimator_numerator=earned,
        ips_estimator_denominator=n,
        snips_estimator_denominator=weight,
        aggregate_time_window=duration_of(60 * interval),
        non_zero_probability=used,
        sum_of_squares=squares,
        confidence_interval=half,
        average_reward=value,
        sum_of_squared_weights=ww,
        sum_of_squared_weights_times_reward=wwr,
    )


def windows_of(series: Sequence[wire.Measured], interval: int, rolling: bool) -> list[wire.Measured]:
    """Return a series with one point per interval: of all decisions up to it or, rolling, of those in the interval.

    Parameters
    ----------
    series
        Points of all decisions up to each.
    interval
        In minutes, not shorter than that of the series.
    rolling
        Whether a point leaves out what was before its interval.
    """
    last = list({_moment(one) // (60 * interval): one for one in series}.values())
    sums = [np.zeros(7), *(_sums(one) for one in last)]
    begins = sums[:-1] if rolling else [sums[0]] * len(last)
    return [
        measured(end - begin, _moment(one), interval) for begin, end, one in zip(begins, sums[1:], last, strict=True)
    ]


def _sums(one: wire.Measured) -> Array:
    weights = (one.ips_estimator_denominator, one.non_zero_probability, one.snips_estimator_denominator)
    squares = (one.sum_of_squared_weights, one.sum_of_squared_weights_times_reward, one.sum_of_squares)
    return np.array([*weights, one.ips_estimator_numerator, *squares])


def _moment(one: wire.Measured) -> float:
    return moment_of(one.time_stamp) or 0.0


def form_of_2022(job: wire.Evaluation, interval: int = INTERVALS[0]) -> wire.Evaluation2022:
    """Return an evaluation in the form of 2022.

    Parameters
    ----------
    job
        The job, in the form of the other dialects.
    interval
        Minutes between two points of its series.
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
        content = wire.EvaluationResult(job.start_time, job.end_time, interval, values)
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
    return round((seconds_of(totals[0].aggregate_time_window) or 0.0) / 60) if totals else INTERVALS[0]


def _summary(found: wire.Measured, with_time: bool = True) -> wire.Summary:
    value, half = found.average_reward, found.confidence_interval
    return wire.Summary(value, [value - half, value + half], found.time_stamp if with_time else None)
