"""The model and the log of the service: look at them, replace them, start anew."""

import asyncio

import msgspec

from lim2.bandit import Bandit
from lim2.opening import from_bytes
from lim2.persistence import LoadError
from lim2.serve import spec as specs
from lim2.serve.errors import ApiError, bad_request
from lim2.serve.history import span
from lim2.serve.hosted import Hosted
from lim2.serve.operations import OCTETS, Call, Reply
from lim2.serve.personalizer.times import time_of
from lim2.serve.personalizer.wire import DateRange, LogsProperties, ModelProperties


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
    return ModelProperties(time_of(hosted.stored.created), time_of(hosted.modified))


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
    with specs.exclusive(hosted.folder):
        stored = specs.read(hosted.folder)
        revision = stored.revision + 1
        name = None if content is None else f"start-{revision}.lim2"
        if content is not None and name is not None:
            specs.replace_file(hosted.folder / name, content)
        position = hosted.log.position
        new = msgspec.structs.replace(stored, revision=revision, start=position, start_file=name)
        specs.write(hosted.folder, new)
        _remove(hosted, stored.start_file, name)


def _remove(hosted: Hosted, old: str | None, new: str | None) -> None:
    if old is not None and old != new:
        (hosted.folder / old).unlink(missing_ok=True)


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
    if service.config.workers > 1:
        await asyncio.sleep(2 * service.config.poll)  # until all processes have let go of the old one
    for suffix in ("", "-wal", "-shm", "-leader", "-leader-journal"):
        (hosted.folder / f"{old}{suffix}").unlink(missing_ok=True)
    return Reply(status=204)


def _new_log(hosted: Hosted) -> str:
    content = hosted.model_file()
    with specs.exclusive(hosted.folder):
        stored = specs.read(hosted.folder)
        revision = stored.revision + 1
        name, start = f"log-{revision}.db", f"start-{revision}.lim2"
        if (hosted.folder / name).exists():
            raise ApiError(409, "OperationNotAllowed", "the log is being deleted already")
        specs.replace_file(hosted.folder / start, content)
        specs.write(
            hosted.folder,
            msgspec.structs.replace(stored, log=name, revision=revision, start=0, start_file=start),
        )
        _remove(hosted, stored.start_file, start)
    return stored.log
