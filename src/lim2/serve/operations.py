"""One operation of the service: what it takes and returns, and the endpoint that runs it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from lim2.log import StoreUnavailableError
from lim2.log.errors import GoneLogError
from lim2.serve.catalog import NoBanditError, StaleError
from lim2.serve.errors import ApiError, not_found
from lim2.serve.keys import FULL, cookie_of
from lim2.serve.registry import PERSONALIZER
from lim2.serve.request_parts import check_version, decoded, query_of, read_body

if TYPE_CHECKING:
    from lim2.serve.service import Service

logger = logging.getLogger("lim2.serve")

JSON, OCTETS = b"application/json", b"application/octet-stream"
SAME = b"same-origin"
WHOLE = "lim2.whole"  # a key of a scope, set by a server that has all of the request: to read it takes no time
_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct):
    """An answer that is more than a value: headers, another status, or bytes."""

    content: Any = None
    status: int | None = None
    headers: dict[str, str] = {}
    media: bytes = JSON


@dataclass(slots=True)
class Call:
    """A request, read and checked.

    Parameters
    ----------
    service
        Who answers.
    path
        The parts of the path that have names.
    body
        Of the type that the operation takes; None if it takes none.
    query
        Of the type that the operation takes; None if it takes none.
    headers
        By name, in small letters.
    role
        What the key of the client allows; None for an operation that asks for no key.
    location
        The path of the request.
    size
        Bytes of the body.
    """

    service: "Service"
    path: dict[str, Any]
    body: Any
    query: Any
    headers: dict[bytes, bytes]
    role: str | None
    location: str
    size: int = 0


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What a route does.

    Parameters
    ----------
    name
        In metrics and in the OpenAPI document.
    method, path
        The route; names in braces.
    handler
        Returns a value of the type ``answer``, or a :class:`Reply`.
    summary
        What it does, for the document.
    tag
        The group it belongs to, for the document.
    body
        The type of the body; ``bytes``: as it comes; None: none is read.
    most
        Bytes that the body may have even if ``max_body`` is less.
    query
        The type of the query; None: it is not read.
    answer
        The type of the answer; ``bytes`` for a file; None: there is no content.
    status
        Of the answer.
    reads
        Whether a read-only key suffices.
    open
        Whether no key is asked for.
    version
        The ``api-version`` that a query may name; None: it is not looked at.
    plain_codes
        Whether errors have one of the three codes of Personalizer's first version.
    invalid
        The error code of a wrong request, where no other says more.
    errors
        Other statuses, for the document.
    """

    name: str
    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    body: Any = None
    most: int = 0
    query: Any = None
    answer: Any = None
    status: int = 200
    reads: bool = False
    open: bool = False
    version: str | None = None
    plain_codes: bool = False
    invalid: str = "BadRequest"
    errors: tuple[int, ...] = (400, 401, 403, 404, 408, 409, 413)


class Endpoint:
    """Runs an operation: key, body, handler, answer, counts. An ASGI application.

    Parameters
    ----------
    operation
        What to run.
    service
        For whom.
    """

    def __init__(self, operation: Operation, service: "Service") -> None:
        self.operation, self.service = operation, service
        own = operation.body
        self._decoder = None if own is None or own is bytes else msgspec.json.Decoder(own)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        began, operation = time.perf_counter(), self.operation
        try:
            reply = await self._answer(scope, receive)
        except ApiError as error:
            if error.code == "BadRequest":
                error.code = operation.invalid
            reply = refusal(error, operation.plain_codes)
            self.service.metrics.bad(error.code)
        except StoreUnavailableError as error:
            logger.debug("%s %s is refused: %s", operation.method, operation.name, error)
            reply = refusal(away(), operation.plain_codes)
            self.service.metrics.bad("ServiceUnavailable")
        except asyncio.CancelledError:
            if not self.service.ending.is_set():
                raise
            reply = refusal(ending(), operation.plain_codes)
        except Exception:
            logger.exception("%s %s failed", operation.method, operation.name)
            reply = refusal(ApiError(500, "InternalServerError", "the service failed; see its log"))
            self.service.metrics.bad("InternalServerError")
        if self.service.draining:  # the client's next request goes elsewhere
            reply.headers = {**reply.headers, "connection": "close"}
        if hasattr(reply.content, "__aiter__"):
            await stream(receive, send, reply)
        else:
            await respond(send, reply)
        status = reply.status or 200
        self.service.metrics.request(operation.name, status, time.perf_counter() - began)
        log_access(self.service, scope, status)

    async def _answer(self, scope: Any, receive: Any) -> Reply:
        operation, service = self.operation, self.service
        headers: dict[bytes, bytes] = dict(scope["headers"])
        role = None if operation.open else allowed(service, headers, operation.reads)
        if operation.version is not None:
            check_version(scope["query_string"], operation.version)
        body, size = None, 0
        if operation.body is not None:
            most = max(service.config.max_body, operation.most)
            patience = None if WHOLE in scope else service.config.body_timeout
            content = await read_body(headers, receive, most, patience)
            size = len(content)
            body = content if self._decoder is None else decoded(self._decoder, content)
        query = None if operation.query is None else query_of(scope["query_string"], operation.query)
        parts = scope.get("path_params") or {}
        result = await self._handled(Call(service, parts, body, query, headers, role, scope["path"], size))
        reply = result if isinstance(result, Reply) else Reply(result)
        if reply.status is None:
            reply.status = operation.status
        return reply

    async def _handled(self, call: Call) -> Any:
        """Run the handler; once more if another process has deleted or changed the bandit, or its log, meanwhile."""
        try:
            return await self.operation.handler(call)
        except (GoneLogError, NoBanditError, StaleError):
            await asyncio.to_thread(self.service.registry.renew, call.path.get("name", PERSONALIZER))
        try:
            return await self.operation.handler(call)
        except NoBanditError as error:
            raise not_found(str(error)) from error


def log_access(service: "Service", scope: Any, status: int) -> None:
    """Log a request that was answered, if the settings ask for it.

    Parameters
    ----------
    service
        Who has answered.
    scope
        Of the request.
    status
        Of the answer.
    """
    if service.config.access_log:
        logger.info("%s %s %d", scope["method"], quote(scope["path"]), status)  # a path may have line breaks


def away() -> ApiError:
    """Return what is answered while the database is unreachable."""
    message = (
        "the database is unreachable, and nothing was done; or it was lost while it wrote: send the same request again"
    )
    return ApiError(503, "ServiceUnavailable", message, headers={"retry-after": "1"})


def ending() -> ApiError:
    """Return what is answered when the service ends before the answer is there."""
    message = "the service is ending, and had no time to finish this: send the same request again"
    return ApiError(503, "ServiceUnavailable", message, headers={"retry-after": "1", "connection": "close"})


def allowed(service: "Service", headers: Mapping[bytes, bytes], reads: bool) -> str:
    """Return what the client's key allows; an ApiError if it has none, or one that may not do this.

    Parameters
    ----------
    service
        Whose keys.
    headers
        Of the request.
    reads
        Whether a read-only key suffices.
    """
    role, sent = None, headers.get(b"ocp-apim-subscription-key")
    if sent is not None:
        role = service.keys.role(sent.decode("latin-1"))
    elif (given := headers.get(b"authorization")) is not None:
        kind, _, key = given.decode("latin-1").partition(" ")
        role = service.keys.role(key.strip()) if kind.lower() == "bearer" else None
    elif (session := cookie_of(headers)) is not None:
        role = service.keys.role_of_session(session)
        if not reads and headers.get(b"sec-fetch-site", SAME) != SAME:  # its cookie comes along from other ports, too
            raise ApiError(403, "OperationNotAllowed", "a page of another origin may not use the dashboard's login")
    if role is None:
        message = "a key is missing or wrong: send it as Ocp-Apim-Subscription-Key, or as Authorization: Bearer"
        raise ApiError(401, "401", message, headers={"www-authenticate": "Bearer"})
    if role != FULL and not reads:
        raise ApiError(403, "OperationNotAllowed", "this key may only look: use one that may do everything")
    return role


def refusal(error: ApiError, plain_codes: bool = False) -> Reply:
    """Return the answer that an error becomes.

    Parameters
    ----------
    error
        What went wrong.
    plain_codes
        As for :class:`Operation`.
    """
    body = error.body()
    headers = dict(error.headers)
    if plain_codes and error.status not in (401, 403):
        plain = {404: "ResourceNotFound"}.get(
            error.status, "BadRequest" if error.status < 500 else "InternalServerError"
        )
        body.error.code = plain
    else:
        headers["x-ms-error-code"] = error.code
    return Reply(body, error.status, headers)


async def respond(send: Any, reply: Reply) -> None:
    """Send an answer.

    Parameters
    ----------
    send
        To the server.
    reply
        The answer.
    """
    status, content = reply.status or 200, reply.content
    body = b"" if status == 204 else content if isinstance(content, bytes) else _encode(content)
    headers = [] if status == 204 else [(b"content-length", str(len(body)).encode()), (b"content-type", reply.media)]
    headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def stream(receive: Any, send: Any, reply: Reply) -> None:
    """Send parts of an answer as they come, until the client goes.

    Parameters
    ----------
    receive, send
        From and to the server.
    reply
        Its content is an asynchronous iterator of bytes.
    """
    headers = [(b"content-type", reply.media)]
    headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status or 200, "headers": headers})

    async def parts() -> None:
        async for part in reply.content:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    sending = asyncio.ensure_future(parts())
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _left(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
