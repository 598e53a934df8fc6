"""The Starlette application: routes, and what happens when it starts and stops."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lim2.serve import demo, native, site
from lim2.serve.errors import ApiError
from lim2.serve.operations import Endpoint, Operation, refusal
from lim2.serve.personalizer.routes import DIALECTS, operations
from lim2.serve.scraping import MetricsServer
from lim2.serve.service import Service

OFTEN = ("rank", "reward", "decide")  # routes are tried in order


def all_operations() -> list[Operation]:
    """Return everything that the service does; what is asked for most often comes first."""
    made = [*native.OPERATIONS, *(own for dialect in DIALECTS for own in operations(dialect)), *site.OPERATIONS]
    return sorted(made, key=lambda own: own.name.rpartition(".")[2] not in OFTEN)


def application(service: Service) -> Starlette:
    """Return the application of a service.

    Parameters
    ----------
    service
        What answers.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        _heed_signals(service)
        metrics = MetricsServer(service)
        if service.config.demo:
            service.in_background(demo.shop(service))
        yield
        metrics.close()
        await service.stop()

    routes = [Route(own.path, Endpoint(own, service), methods=[own.method]) for own in all_operations()]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _unrouted})


def _heed_signals(service: Service) -> None:
    """Let answers that go on forever end when a signal comes; uvicorn would wait for them before it ends."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)

        def heed(number: int, frame: Any, before: Any = before) -> None:
            loop.call_soon_threadsafe(service.ending.set)
            if callable(before):
                before(number, frame)

        signal.signal(number, heed)


async def _unrouted(request: Request, error: Any) -> Response:
    """Answer a path or method that is not there, in the form of all errors."""
    codes = {404: "ResourceNotFound", 405: "BadRequest"}
    message = f"{request.method} {request.url.path[:200]}: {error.detail}; GET /openapi.json lists what there is"
    made = ApiError(error.status_code, codes.get(error.status_code, "BadRequest"), message)
    reply = refusal(made)
    headers = {**reply.headers, **(error.headers or {})}
    return Response(msgspec.json.encode(reply.content), error.status_code, headers, "application/json")
