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
from starlette.types import ASGIApp, Receive, Scope, Send

from lim2.serve import demo, native, site
from lim2.serve.errors import ApiError
from lim2.serve.operations import Endpoint, Operation, log_access, refusal
from lim2.serve.personalizer.routes import DIALECTS, operations, removed
from lim2.serve.scraping import MetricsServer
from lim2.serve.service import Service
from lim2.serve.tracing import current, trace_of

OFTEN = ("rank", "reward", "decide")  # routes are tried in order


NATIVE = [*native.OPERATIONS, *site.OPERATIONS]
NATIVE.append(site.description("openapi", "/openapi.json", NATIVE, "Decisions that learn: the native protocol."))
PERSONALIZER = [operation for dialect in DIALECTS for operation in operations(dialect)]
PERSONALIZER.append(
    site.description(
        "personalizer.openapi", "/personalizer/openapi.json", PERSONALIZER,
        "Decisions that learn: rank, reward and activate of Azure Personalizer, in its three published versions.",
    )
)  # fmt: skip


def all_operations() -> list[Operation]:
    """Return everything that the service does; what is asked for most often comes first."""
    return sorted([*NATIVE, *PERSONALIZER], key=lambda operation: operation.name.rpartition(".")[2] not in OFTEN)


def operations_of(role: str) -> list[Operation]:
    """Return what a service does: one that only learns says how it is, and nothing else."""
    return [operation for operation in all_operations() if role != "learn" or operation.name in site.ALWAYS]


def application(service: Service) -> ASGIApp:
    """Return the application of a service.

    Paths that are always the same are looked up, without the layers around Starlette's routes: an `Endpoint` answers
    whatever goes wrong itself.
    """
    learns = service.config.role == "learn"
    gone = [] if learns else [operation for dialect in DIALECTS for operation in removed(dialect)]

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

    endpoints = [
        (operation, Endpoint(operation, service)) for operation in (*operations_of(service.config.role), *gone)
    ]
    routes = [Route(operation.path, endpoint, methods=[operation.method]) for operation, endpoint in endpoints]
    routed = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _unrouted(service)})
    routed.router.redirect_slashes = False  # behind a proxy with TLS a redirect would be to plain HTTP, with the key
    direct = {(one.method, one.path): endpoint for one, endpoint in endpoints if "{" not in one.path}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = None
        if scope["type"] == "http":
            current.set(trace_of(dict(scope["headers"])))
            endpoint = direct.get((scope["method"], scope["path"]))
        await (routed if endpoint is None else endpoint)(scope, receive, send)

    return answer


def _heed_signals(service: Service) -> None:
    """Let answers that go on forever end when a signal comes; uvicorn would wait for them before it ends.

    By SIGTERM, the service first says that it is not ready, and goes on answering until balancers have noticed. A
    second signal ends it at once.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    drain = 0.0 if service.config.role == "learn" else service.config.drain
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)

        def heed(number: int, frame: Any, before: Any = before) -> None:
            loop.call_soon_threadsafe(service.ending.set)
            if not callable(before):
                return
            if number == signal.SIGTERM and drain and not service.draining:
                service.draining = True
                loop.call_soon_threadsafe(loop.call_later, drain, before, number, None)
            else:
                before(number, frame)

        signal.signal(number, heed)


def _unrouted(service: Service) -> Any:
    """Return what answers a path or method that is not there, in the form of all errors."""
    codes = {404: "ResourceNotFound", 405: "BadRequest"}

    async def answer(request: Request, error: Any) -> Response:
        path = request.url.path[:200]
        message = f"{request.method} {path}: {error.detail}; GET {_document(path)} lists what there is"
        answered = ApiError(error.status_code, codes.get(error.status_code, "BadRequest"), message)
        reply = refusal(answered)
        service.metrics.bad(answered.code)
        log_access(service, request.scope, error.status_code)
        ids = {name.decode(): value.decode() for name, value in current.get().headers()}
        headers = {**reply.headers, **(error.headers or {}), **ids}
        return Response(msgspec.json.encode(reply.content), error.status_code, headers, "application/json")

    return answer


def _document(path: str) -> str:
    return "/personalizer/openapi.json" if path.startswith("/personalizer") else "/openapi.json"
