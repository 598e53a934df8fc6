"""The id of a request, in its answer and in every log line that it causes; a trace of the caller is continued."""

import logging
import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple

SENT_ID = re.compile(rb"[!-~]{1,128}")
TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")


class Trace(NamedTuple):
    """The ids of a request; ``trace`` and ``flags`` are empty if the caller has sent no ``traceparent``."""

    request: str
    trace: str = ""
    flags: str = ""

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer; this service is a new span of the trace."""
        headers = [(b"x-request-id", self.request.encode())]
        if self.trace:
            headers.append((b"traceparent", f"00-{self.trace}-{secrets.token_hex(8)}-{self.flags}".encode()))
        return headers


NO_REQUEST = Trace("")
current: ContextVar[Trace] = ContextVar("lim2_request", default=NO_REQUEST)


def trace_of(headers: Mapping[bytes, bytes]) -> Trace:
    """Return the ids of a request: those that it brings, or new ones.

    Examples
    --------
    >>> trace_of({b"x-request-id": b"abc", b"traceparent": b"00-" + b"a" * 32 + b"-00f067aa0ba902b7-01"}).request
    'abc'
    """
    sent, parent = headers.get(b"x-request-id"), headers.get(b"traceparent")
    match = None if parent is None else TRACEPARENT.fullmatch(parent)
    trace, flags = ("", "") if match is None else (match[1].decode(), match[2].decode())
    known = sent is not None and SENT_ID.fullmatch(sent)
    return Trace(sent.decode() if sent is not None and known else trace or secrets.token_hex(8), trace, flags)


class WithRequest(logging.Filter):
    """Adds the ids of the request to the fields of a log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record."""
        request = current.get()
        if request.request:
            fields = {"request_id": request.request} | ({"trace_id": request.trace} if request.trace else {})
            record.fields = getattr(record, "fields", {}) | fields
        return True
