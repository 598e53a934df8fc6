"""A request and its answer, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")


class Address(NamedTuple):
    """Where a service is."""

    secure: bool
    host: str
    port: int
    prefix: str  # of all paths


class Request(NamedTuple):
    """What is sent."""

    method: str
    path: str
    content: bytes | None = None


class Answer(NamedTuple):
    """What has come back; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Call(NamedTuple, Generic[T]):
    """A request, and how its answer becomes a result.

    Parameters
    ----------
    request
        What is sent.
    result
        Makes the result of an answer with a status below 300.
    again
        Further statuses with which it is sent again.
    gone
        The status with which a repeated call says that an earlier try has done it; 0: there is none.
    """

    request: Request
    result: Callable[[bytes], T]
    again: tuple[int, ...] = ()
    gone: int = 0


def parsed(url: str) -> Address:
    """Return where a service is, or say what is wrong with its address.

    Parameters
    ----------
    url
        As ``lim2 serve`` prints it.

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
    """Return the headers of every request.

    Parameters
    ----------
    key
        Of the service.
    """
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError("key must be a key of the service, in printable ASCII; `lim2 serve` prints it")
    return {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json, application/octet-stream",
        "Content-Type": "application/json",
    }
