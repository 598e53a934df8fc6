"""The model and the log of the service: look at them, replace them, start anew."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from lim2.bandit import Bandit
from lim2.loading import from_bytes
from lim2.persistence import LoadError
from lim2.serve import spec as specs
from lim2.serve.errors import bad_request
from lim2.serve.history import span
from lim2.serve.hosted import Hosted
from lim2.serve.operations import OCTETS, Call, Reply
from lim2.serve.personalizer.times import time_of
from lim2.serve.personalizer.wire import DateRange, LogsProperties, ModelProperties
from lim2.serve.refusals import refusals
from lim2.serve.spec import START, Stored


async def get_model(call: Call) -> Reply:
    """Return the file of the model: ``lim2.load`` makes a bandit of it."""
    return Reply(await asyncio.to_thread(call.service.personalizer.model_file), media=OCTETS)


async def put_model(call: Call) -> Reply:
    """Replace the model by one that was downloaded; it goes on learning from what comes now."""
    hosted = call.service.personalizer
    await asyncio.to_thread(_import, hosted, call.body)
    await call.service.stepped(hosted)
    return Reply(status=204)


async def delete_model(call: Call) -> Reply:
    """Start with a fresh model, which learns from what comes now."""
    hosted = call.service.personalizer
    await asyncio.to_thread(_restart, hosted, None)
    await call.service.stepped(hosted)
    return Reply(status=204)


async def model_properties(call: Call) -> ModelProperties:
    """Return when the model was made, and when it last learned."""
    hosted = call.service.personalizer
    created = hosted.stored.renewed or hosted.stored.created
    return ModelProperties(time_of(created), time_of(max(created, hosted.modified)))


def _import(hosted: Hosted, content: bytes) -> None:
    try:
        made = from_bytes(content)
    except LoadError as error:
        raise bad_request(f"this is no model of lim2: {error}", "body", "InvalidModelImportFormat") from error
    if not isinstance(made, Bandit) or made.arms is not None:
        message = "the model must be a lim2.Bandit whose items come with every call, as GET model returns it"
        raise bad_request(message, "body", "InvalidModelImportFormat")
    _restart(hosted, content)


def _restart(hosted: Hosted, content: bytes | None) -> None:
    _begin(hosted, content, lambda _: {"start": hosted.log.position, "renewed": specs.now()})


def _begin(hosted: Hosted, content: bytes | None, more: Callable[[int], dict[str, Any]]) -> Stored:
    """Begin a new revision with a model, or a fresh one, and return the description before."""
    before: list[Stored] = []
    starts = hosted.catalog.documents(hosted.name, START)

    def begun(stored: Stored) -> Stored:
        before.append(stored)
        revision = stored.revision + 1
        start = None
        if content is not None:
            start = f"start-{revision}.lim2"
            starts.put(start, content)
        return msgspec.structs.replace(stored, revision=revision, start_file=start, **more(revision))

    with refusals("a model"):
        hosted.change(begun)
    if before[0].start_file is not None:
        starts.delete(before[0].start_file)
    return before[0]


async def log_properties(call: Call) -> LogsProperties:
    """Return of when the logged decisions are."""
    found = await asyncio.to_thread(span, call.service.personalizer.log)
    if found is None:
        return LogsProperties(DateRange())
    return LogsProperties(DateRange(time_of(found[0]), time_of(found[1])))


async def delete_logs(call: Call) -> Reply:
    """Delete all decisions and rewards; the model stays."""
    hosted, service = call.service.personalizer, call.service
    old = await asyncio.to_thread(_new_log, hosted)
    await service.stepped(hosted)
    if service.config.workers > 1 or hosted.catalog.shared:
        await asyncio.sleep(2 * service.config.poll)  # until all processes have let go of the old one
    await asyncio.to_thread(hosted.catalog.delete_log, hosted.name, old)
    return Reply(status=204)


async def refuse_binary_logs(_: Call) -> Reply:
    """Refuse the logs that the inference SDK of Vowpal Wabbit writes; to accept them would be to lose them."""
    raise bad_request(
        "binary logs of Vowpal Wabbit's inference SDK are not read: send rank, reward and activate instead", "body"
    )


def _new_log(hosted: Hosted) -> str:
    def empty(revision: int) -> dict[str, Any]:
        return {"log": hosted.catalog.log_name(hosted.name, revision), "start": 0}

    return _begin(hosted, hosted.model_file(), empty).log
