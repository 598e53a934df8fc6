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
from lim2.serve.bandits import PERSONALIZER
from lim2.serve.catalog import NoBanditError, StaleError
from lim2.serve.config import Role
from lim2.serve.errors import ApiError, not_found
from lim2.serve.keys import ADMIN, Access, cookie_of
from lim2.serve.request_parts import check_version, decoded, query_of, read_body
from lim2.serve.tracing import current

if TYPE_CHECKING:
    from lim2.serve.service import Service

logger = logging.getLogger("lim2.serve")

JSON, OCTETS = b"application/json", b"application/octet-stream"
SAME = b"same-origin"
SMALL = 16_384  # bytes of a body that has a few fields of limited length
AUTHENTICATED = "lim2.authenticated"  # a key of a scope: whether its connection has sent a key
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

    ``body`` and ``query`` are of the types that the operation takes, ``size`` is that of the body in bytes. Handlers
    add to ``details`` what the audit log shows.
    """

    service: "Service"
    path: dict[str, Any]
    body: Any
    query: Any
    headers: dict[bytes, bytes]
    access: Access | None
    size: int
    details: dict[str, Any]


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What a route does.

    The answer is of the type ``answer``, ``bytes`` for a file; a body of ``bytes`` is taken as it comes, with up to
    ``most`` bytes in place of ``max_body``. ``roles`` suffice besides admin; ``open`` asks for no key. ``audit``
    names the event for the audit log. ``version`` is the ``api-version`` that a query may name, ``invalid`` the error
    code of a wrong request where no other says more, and with ``plain_codes`` errors have one of the three codes of
    Personalizer's first version.
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
    roles: tuple[Role, ...] = ()
    open: bool = False
    bandit: str | None = None  # None: the one that the path names, if it names one
    audit: str | None = None
    version: str | None = None
    plain_codes: bool = False
    invalid: str = "BadRequest"
    errors: tuple[int, ...] = ()  # for the document, beside those that follow from the rest


class Endpoint:
    """Runs an operation: key, body, handler, answer, counts. An ASGI application."""

    def __init__(self, operation: Operation, service: "Service") -> None:
        self.operation, self.service = operation, service
        self._decoder = None if operation.body in (None, bytes) else msgspec.json.Decoder(operation.body)
        most, usual = operation.most, service.config.max_body
        self._most = min(most or usual, usual) if most <= SMALL else most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        began, operation, service = time.perf_counter(), self.operation, self.service
        call = Call(service, scope.get("path_params") or {}, None, None, dict(scope["headers"]), None, 0, {})
        try:
            reply = await self._answer(call, scope, receive)
        except ApiError as error:
            if error.code == "BadRequest":
                error.code = operation.invalid
            reply = refusal(error, operation.plain_codes)
            service.metrics.bad(error.code)
            if error.status in (401, 403):
                path = f"{scope['method']} {quote(scope['path'][:200])}"
                key = None if call.access is None else call.access.name
                service.audit.record("refused", status=error.status, key=key, call=path)
        except StoreUnavailableError as error:
            logger.debug("%s %s is refused: %s", operation.method, operation.name, error)
            reply = refusal(away(), operation.plain_codes)
            service.metrics.bad("ServiceUnavailable")
        except asyncio.CancelledError:
            if not service.ending.is_set():
                raise
            reply = refusal(ending(), operation.plain_codes)
        except Exception:
            logger.exception("%s %s failed", operation.method, operation.name)
            reply = refusal(ApiError(500, "InternalServerError", "the service failed; see its log"))
            service.metrics.bad("InternalServerError")
        if service.draining:  # the client's next request goes elsewhere
            reply.headers = {**reply.headers, "connection": "close"}
        if hasattr(reply.content, "__aiter__"):
            await stream(receive, send, reply)
        else:
            await respond(send, reply)
        status = reply.status or 200
        service.metrics.request(operation.name, status, time.perf_counter() - began)
        log_access(service, scope, status, call.access)

    async def _answer(self, call: Call, scope: Any, receive: Any) -> Reply:
        operation, service = self.operation, self.service
        bandit = operation.bandit or call.path.get("name")
        if not operation.open:
            call.access = authenticated(service, call.headers, operation.roles)
            scope[AUTHENTICATED] = True
            authorize(call.access, operation.roles, bandit)
        if operation.version is not None:
            check_version(scope["query_string"], operation.version)
        if operation.body is not None:
            patience = None if WHOLE in scope else service.config.body_timeout
            content = await read_body(call.headers, receive, self._most, patience)
            if "name" in call.path and operation.audit != "created":  # a body that is refused is not decoded
                await service.bandits.get(call.path["name"])
            call.size = len(content)
            call.body = content if self._decoder is None else decoded(self._decoder, content)
        if operation.query is not None:
            call.query = query_of(scope["query_string"], operation.query)
        result = await self._handled(call)
        reply = result if isinstance(result, Reply) else Reply(result)
        if reply.status is None:
            reply.status = operation.status
        if operation.audit is not None and reply.status == operation.status:  # not one that was there already
            key = None if call.access is None else call.access.name
            service.audit.record(operation.audit, key=key, bandit=bandit, details=call.details)
        return reply

    async def _handled(self, call: Call) -> Any:
        """Run the handler; once more if another process has deleted or changed the bandit, or its log, meanwhile."""
        try:
            return await self.operation.handler(call)
        except (GoneLogError, NoBanditError, StaleError):
            await asyncio.to_thread(self.service.bandits.renew, call.path.get("name", PERSONALIZER))
        try:
            return await self.operation.handler(call)
        except NoBanditError as error:
            raise not_found(str(error)) from error


def log_access(service: "Service", scope: Any, status: int, access: Access | None = None) -> None:
    """Log a request that was answered, if the settings ask for it."""
    if service.config.access_log:
        fields = {} if access is None else {"key": access.name}
        path = quote(scope["path"])  # a path may have line breaks
        logger.info("%s %s %d", scope["method"], path, status, extra={"fields": fields})


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


def authenticated(service: "Service", headers: Mapping[bytes, bytes], roles: tuple[Role, ...]) -> Access:
    """Return what the key of a request allows; an ApiError if it has none, or a wrong one."""
    access, sent = None, headers.get(b"ocp-apim-subscription-key")
    if sent is not None:
        access = service.keys.access(sent.decode("latin-1"))
    elif (header := headers.get(b"authorization")) is not None:
        kind, _, key = header.decode("latin-1").partition(" ")
        access = service.keys.access(key.strip()) if kind.lower() == "bearer" else None
    elif (session := cookie_of(headers)) is not None:
        access = service.keys.access_of_session(session)
        if "read" not in roles and headers.get(b"sec-fetch-site", SAME) != SAME:  # cookies come from other ports, too
            raise ApiError(403, "OperationNotAllowed", "a page of another origin may not use the dashboard's login")
    if access is None:
        message = "a key is missing or wrong: send it as Ocp-Apim-Subscription-Key, or as Authorization: Bearer"
        raise ApiError(401, "401", message, headers={"www-authenticate": "Bearer"})
    return access


def authorize(access: Access, roles: tuple[Role, ...], bandit: str | None = None) -> None:
    """Raise an ApiError if a key may not do this, or not with this bandit."""
    if access.role != ADMIN and access.role not in roles:
        wanted = " or ".join((*roles, ADMIN))
        raise ApiError(403, "OperationNotAllowed", f"this key has the role {access.role}: use one with {wanted}")
    if not access.covers(bandit):
        raise ApiError(403, "OperationNotAllowed", f"this key is not for the bandit {bandit!r}: use another key")


def refusal(error: ApiError, plain_codes: bool = False) -> Reply:
    """Return the answer that an error becomes."""
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
    """Send an answer."""
    status, content = reply.status or 200, reply.content
    body = b"" if status == 204 else content if isinstance(content, bytes) else _encode(content)
    headers = [] if status == 204 else [(b"content-length", str(len(body)).encode()), (b"content-type", reply.media)]
    headers += current.get().headers()
    headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def stream(receive: Any, send: Any, reply: Reply) -> None:
    """Send the parts of an answer, an asynchronous iterator of bytes, until the client goes."""
    headers = [(b"content-type", reply.media), *current.get().headers()]
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
