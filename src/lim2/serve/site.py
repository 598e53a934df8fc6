"""What is neither Personalizer's nor a bandit's: the page, the documents, health, metrics, login, live events."""

import asyncio
import base64
import contextlib
import hashlib
import re
import time
from collections.abc import AsyncIterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from lim2.log import LogError, StoreUnavailableError
from lim2.log.errors import GoneLogError
from lim2.serve import openapi, wire
from lim2.serve.errors import ApiError, not_found
from lim2.serve.keys import SESSION, Access, cookie_name
from lim2.serve.metrics import CONTENT_TYPE
from lim2.serve.operations import SMALL, Call, Operation, Reply, authenticated, authorize
from lim2.serve.overview import info_of
from lim2.serve.service import Service

ALWAYS = ("healthz", "readyz", "metrics")  # what a service offers that only learns
HTML = b"text/html; charset=utf-8"
LINKS = b'<a href="/docs">Try the API</a><a href="/openapi.json">OpenAPI</a>'  # of the dashboard
SECOND = 1.0  # between live events
# Pages load nothing from elsewhere, and are shown in no other page.
ALONE = "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@cache
def page(name: str) -> bytes:
    """Return a file of the page."""
    return (files("lim2.serve") / "page" / name).read_bytes()


@cache
def guarded(name: str) -> dict[str, str]:
    """Return headers that let the scripts and styles of a file run, no others, and no text become HTML."""
    scripts, styles = (inline(page(name), tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; require-trusted-types-for 'script'; {ALONE}"
    )
    return {**SAFE, "content-security-policy": policy}


def inline(content: bytes, tag: str) -> str:
    """Return the hashes of what stands between tags, as a Content-Security-Policy names them.

    Examples
    --------
    >>> inline(b"<script>open()</script>", "script")
    "'sha256-o9okiD4Rx/KB+t3VShbksHfrZ7XxcLzccIzXgr0qtQA='"
    """
    parts = re.findall(f"<{tag}>(.*?)</{tag}>".encode(), content, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(part).digest()).decode() for part in parts]  # fmt: skip
    return " ".join(f"'sha256-{own}'" for own in hashes) or "'none'"


async def index(call: Call) -> Reply:
    """Return the dashboard."""
    whole = page("index.html")
    shown = whole if call.service.config.docs else whole.replace(LINKS, b"")
    return Reply(shown, headers=guarded("index.html"), media=HTML)


async def docs(call: Call) -> Reply:
    """Return a page from which every call can be tried."""
    _documented(call)
    return Reply(page("docs.html"), headers=guarded("docs.html"), media=HTML)


def description(name: str, path: str, operations: Sequence[Operation], text: str) -> Operation:
    """Return the operation that returns the OpenAPI document of some operations."""

    async def handler(call: Call) -> Reply:
        _documented(call)
        return Reply(msgspec.json.encode(openapi.document(operations, text)), headers={"cache-control": "no-cache"})

    handler.__doc__ = "Return the OpenAPI document."
    return _operation(name, path, handler, answer=dict, open=True, errors=(404,))


def _documented(call: Call) -> None:
    if not call.service.config.docs:
        raise not_found("documents are switched off (docs = false)")


async def health(_: Call) -> wire.Health:
    """Report that the process runs; the database is not used."""
    return wire.Health()


async def readiness(call: Call) -> Reply:
    """Report whether requests should be sent to this process."""
    service = call.service
    since, failed = service.catalog.outage.since, dict(service.failures)
    found = wire.Readiness(
        ready=service.ready,
        degraded=bool(failed) or since is not None or not service.learner_answers,
        role=service.config.role,
        bandits=len(service.bandits.open if service.learner is None else service.learner.opened),
        failures={name: reason.partition(":")[0] for name, reason in failed.items()},  # anybody may read this
        draining=service.draining,
        database_unreachable=None if since is None else max(time.time() - since, 0.0),
    )
    return Reply(found, 200 if found.ready else 503)


async def metrics(call: Call) -> Reply:
    """Return the metrics for Prometheus."""
    service = call.service
    if service.config.metrics == "off":
        raise not_found("metrics are switched off (metrics = 'off')")
    if service.config.metrics == "key":
        call.access = authenticated(service, call.headers, ("read",))
        authorize(call.access, ("read",))
        _check_all(call)
    return Reply(await asyncio.to_thread(scraped, service), media=CONTENT_TYPE.encode())


def _check_all(call: Call) -> None:
    """Refuse a key for named bandits: the answer is about all of them."""
    if call.access is not None and call.access.bandits is not None:
        raise ApiError(403, "OperationNotAllowed", "this key is for some bandits: use one for all of them")


def scraped(service: Service) -> bytes:
    """Return the metrics of now."""
    service.metrics.look_at_outage(service.catalog.outage)
    service.metrics.look_at_learner(service.learner_answers, len(service.failures))
    for name, own in ({} if service.learner is None else dict(service.learner.opened)).items():
        service.metrics.look_at_lease(name, own.leads)
    for hosted in service.bandits.open:
        with contextlib.suppress(StoreUnavailableError, GoneLogError):  # the metrics say the first
            service.metrics.look(hosted)
    names = None
    with contextlib.suppress(StoreUnavailableError):
        names = service.catalog.names()
    return service.metrics.text(names)


async def login(call: Call) -> Reply:
    """Exchange a key for a cookie that scripts cannot read."""
    keys, key = call.service.keys, call.body.key
    call.access = keys.access(key)
    if call.access is None:
        raise ApiError(401, "401", "this key is wrong")
    authorize(call.access, ("read",))
    cookie = {"set-cookie": _cookie(call, keys.session(key), SESSION)}
    return Reply(_login(call.access), headers=cookie)


def _login(access: Access) -> wire.LoginResponse:
    bandits = None if access.bandits is None else sorted(access.bandits)
    return wire.LoginResponse(role=access.role, name=access.name, bandits=bandits)


async def logout(call: Call) -> Reply:
    """Delete the cookie."""
    return Reply(status=204, headers={"set-cookie": _cookie(call, "", 0)})


def _cookie(call: Call, value: str, seconds: int) -> str:
    secure = "; Secure" if call.service.config.secure_cookie else ""
    return f"{cookie_name(call.headers)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


async def who(call: Call) -> wire.LoginResponse:
    """Return what the key or the login of this request may do; null without one."""
    sent = {b"ocp-apim-subscription-key", b"authorization"}.intersection(call.headers)
    try:
        call.access = authenticated(call.service, call.headers, ("read",))
    except ApiError:
        if sent:
            raise
        return wire.LoginResponse(role=None, name=None, bandits=None)
    return _login(call.access)


async def audit(call: Call) -> wire.AuditEntries:
    """Return the newest entries of the audit log: changes, and refused requests."""
    _check_all(call)
    return wire.AuditEntries(await asyncio.to_thread(call.service.audit.latest, call.query.limit))


async def events(call: Call) -> Reply:
    """Send the counts of a bandit once a second, as server-sent events."""
    hosted = await call.service.bandits.get(call.path["name"])
    assert call.access is not None
    events = _live(call.service, hosted.name, call.access.bandits)
    return Reply(events, headers={"cache-control": "no-store"}, media=b"text/event-stream")


async def _live(service: Service, name: str, bandits: frozenset[str] | None) -> AsyncIterator[bytes]:
    """Return the events of a bandit, until it is closed or deleted, or the service ends; the page then asks again."""
    while not service.ending.is_set() and name in service.bandits.opened:
        try:
            yield b"data: " + msgspec.json.encode(await asyncio.to_thread(live, service, name, bandits)) + b"\n\n"
        except StoreUnavailableError:
            yield b": the database is unreachable\n\n"  # a comment: the page shows what it has
        except (KeyError, LogError):  # closed meanwhile
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(service.ending.wait(), SECOND)


def live(service: Service, name: str, bandits: frozenset[str] | None = None) -> wire.Live:
    """Return what the page updates once a second, about a bandit that is open in this process."""
    info = info_of(service.bandits.opened[name])
    total = service.catalog.count() if bandits is None else len(bandits.intersection(service.bandits.opened))
    return wire.Live(info, total)


def _operation(name: str, path: str, handler: Any, method: str = "GET", **rest: Any) -> Operation:
    summary = (handler.__doc__ or "").split("\n")[0]
    return Operation(name=name, method=method, path=path, handler=handler, summary=summary, tag="Service", **rest)


OPERATIONS = [
    _operation("healthz", "/healthz", health, answer=wire.Health, open=True),
    _operation("readyz", "/readyz", readiness, answer=wire.Readiness, open=True),
    _operation("metrics", "/metrics", metrics, answer=str, open=True, errors=(401, 403, 404)),
    _operation("events", "/v1/bandits/{name}/events", events, answer=str, roles=("read",)),
    _operation("whoami", "/v1/whoami", who, answer=wire.LoginResponse, open=True, errors=(401,)),
    _operation("audit", "/v1/audit", audit, query=wire.Latest, answer=wire.AuditEntries),
    _operation("login", "/login", login, "POST", body=wire.Login, most=SMALL, answer=wire.LoginResponse, open=True,
               errors=(401, 403)),
    _operation("logout", "/logout", logout, "POST", status=204, open=True),
    _operation("docs", "/docs", docs, answer=str, open=True, errors=(404,)),
    _operation("index", "/", index, answer=str, open=True),
]  # fmt: skip
