"""Feature importances: how much each feature of contexts and actions counts for the model."""

import asyncio
import time

import msgspec

from lim2.serve.errors import bad_request
from lim2.serve.history import recent
from lim2.serve.hosted import Hosted
from lim2.serve.operations import Call, Reply
from lim2.serve.overview import learned
from lim2.serve.personalizer import wire
from lim2.serve.personalizer.jobs import Jobs, span_of
from lim2.serve.personalizer.listing import page
from lim2.serve.personalizer.times import time_of

JOBS: Jobs[wire.FeatureImportance] = Jobs(wire.FeatureImportance, "importances", "FeatureImportance")
MOST = 1000  # decisions that are explained


async def put(call: Call) -> wire.FeatureImportance:
    """Weigh the features of logged decisions."""
    given: wire.FeatureImportanceContract = call.body
    begins, ends = span_of(given.start_time, given.end_time, "InvalidContract")
    if len(call.path["id"]) > 256:
        raise bad_request("an id has at most 256 characters", "featureImportanceId", "InvalidContract")
    job = wire.FeatureImportance(
        id=call.path["id"],
        name=given.name,
        start_time=given.start_time,
        end_time=given.end_time,
        creation_time=time_of(time.time()),
        status="Running",
    )
    hosted = call.service.personalizer
    await JOBS.run(call.service, hosted, job, lambda: weighed(hosted, job, begins, ends))
    return job


async def get(call: Call) -> wire.FeatureImportance:
    """Return the weights of features."""
    return await asyncio.to_thread(JOBS.get, call.service.personalizer, call.path["id"])


async def listed(call: Call) -> wire.FeatureImportances:
    """Return all, a page at a time."""
    found = await asyncio.to_thread(JOBS.all, call.service.personalizer)
    return wire.FeatureImportances(*page(found, call.query, wire.FeatureImportanceDetails, "featureImportances"))


async def delete(call: Call) -> Reply:
    """Remove one."""
    await asyncio.to_thread(JOBS.delete, call.service.personalizer, call.path["id"])
    return Reply(status=204)


def weighed(hosted: Hosted, job: wire.FeatureImportance, begins: float, ends: float) -> wire.FeatureImportance:
    """Return a job with its result: mean absolute contributions to the score of what was chosen, the largest as 1.

    Parameters
    ----------
    hosted
        The bandit.
    job
        The job.
    begins, ends
        Times between which the decisions were made.
    """
    decisions = [one for one in recent(hosted.log, 20 * MOST, features=True).decisions if begins <= one.time <= ends][
        -MOST:
    ]
    found = learned(hosted, decisions)
    most = max((one.mean_absolute for one in found), default=0.0) or 1.0
    scores = []
    for one in found:
        space, _, name = one.key.rpartition(".")
        scores.append(
            wire.FeatureScore(space or ("actionFeatures" if one.source == "item" else "contextFeatures"), name,
                              one.mean_absolute / most)
        )  # fmt: skip
    return msgspec.structs.replace(job, status="Succeeded", feature_scores=scores)
