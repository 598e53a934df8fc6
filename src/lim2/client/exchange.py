"""Requests and answers as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")


class Address(NamedTuple):
    """Address of a service."""

    secure: bool
    host: str
    port: int
    prefix: str  # of all paths


class Request(NamedTuple):
    """An HTTP request."""

    method: str
    path: str
    content: bytes | None = None


class Answer(NamedTuple):
    """An HTTP answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Call(NamedTuple, Generic[T]):
    """A request, and a function from its answer to the result."""

    request: Request
    result: Callable[[bytes], T]  # of the content of an answer with a status below 300
    retried_statuses: tuple[int, ...] = ()  # beside those that are always retried
    done_status: int = 0  # of a retry whose earlier attempt succeeded; 0: none


def parsed(url: str) -> Address:
    """Return the parsed address of a service; raise a ValueError if it is invalid.

    Examples
    --------
    >>> parsed("https://bandits.example/shop/")
    Address(secure=True, host='bandits.example', port=443, prefix='/shop')
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"url must be the address of a service, such as http://127.0.0.1:8300, got {url!r}")
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, parts.port or (443 if secure else 80), parts.path.rstrip("/"))


def headers_of(key: str) -> dict[str, str]:
    """Return the headers of every request."""
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError("key must be an API key of the service, in printable ASCII, as `lim2 serve` prints it")
    return {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json, application/octet-stream",
        "Content-Type": "application/json",
    }
