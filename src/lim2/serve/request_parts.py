"""What a request brings, read and checked: its body, its query, and the version of the protocol that it names."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from lim2.serve.errors import ApiError, bad_request, shortened

FORMER = {"exploration": "epsilon", "min_propensity": "epsilon"}  # fields of earlier versions, and their names now
UNKNOWN = "Object contains unknown field "


async def read_body(headers: Mapping[bytes, bytes], receive: Any, most: int, patience: float | None) -> bytes:
    """Return the body of a request; an ApiError if it is too long, or comes too slowly; ``patience`` in seconds."""
    announced = headers.get(b"content-length")
    if announced is not None and announced.isdigit() and int(announced[:20]) > most:
        raise _too_long(most)
    if patience is None:
        return await _parts(receive, most)
    try:
        async with asyncio.timeout(patience):
            return await _parts(receive, most)
    except TimeoutError as error:
        close = {"connection": "close"}
        raise ApiError(408, "RequestTimeout", f"the body did not come within {patience} s", headers=close) from error


async def _parts(receive: Any, most: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client has gone")
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_long(most)
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(most: int) -> ApiError:
    message = f"the body may have at most {most} bytes: send less, or raise the setting max_body"
    return ApiError(413, "PayloadSizeExceeded", message, headers={"connection": "close"})


def decoded(decoder: Any, content: bytes) -> Any:
    """Return the value of a JSON body; an ApiError that names the place if it is not of the type."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise mistake(error, decoder.type) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"the body is not JSON: {error}" if content else "the body is empty: send JSON"
        raise bad_request(message) from error
    except RecursionError as error:
        raise bad_request("the body is nested too deeply") from error


def query_of(text: bytes, kind: Any) -> Any:
    """Return the value of a query string."""
    try:
        return msgspec.convert(_pairs(text), kind, strict=False)
    except msgspec.ValidationError as error:
        raise mistake(error, kind) from error
    except OverflowError as error:
        raise bad_request(f"the query is wrong: {error}") from error


def check_version(text: bytes, version: str) -> None:
    """Refuse a query that names another version of the protocol: its answers may have another form."""
    sent = _pairs(text).get("api-version", version) if text else version
    if sent != version:
        message = f"the api-version {shortened(sent)} is not supported: use {version}, or a path with /v1.0"
        raise bad_request(message, "api-version", "UnsupportedApiVersion")


def _pairs(text: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=50))
    except ValueError as error:
        raise bad_request(f"the query is wrong: {error}") from error


def mistake(error: msgspec.ValidationError, kind: Any) -> ApiError:
    """Return the answer to a body or a query that is not of its type: what is wrong, and where."""
    message, _, where = str(error).partition(" - at ")
    target = where.strip("`").removeprefix("$").removeprefix(".") or None
    if message.startswith("Invalid enum value"):
        fields = getattr(msgspec.inspect.type_info(kind), "fields", ())
        kinds = [field.type for field in fields if field.encode_name == target]
        types = [one for kind in kinds for one in getattr(kind, "types", (kind,))]
        allowed = [str(value) for one in types for value in getattr(one, "values", ())]
        message = f"{message}: use {', '.join(allowed)}" if allowed else message
    if message.startswith(UNKNOWN) and (name := message.removeprefix(UNKNOWN).strip("`")) in FORMER:
        message = f"{name} was renamed: use {FORMER[name]}"
    return bad_request(message, target)
