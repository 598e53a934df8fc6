"""What a client is answered when something is wrong, or a log or an encoder refuses: one form, that of Personalizer."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from lim2.log import (
    ConflictingRewardError,
    LogError,
    LogFileError,
    StoreUnavailableError,
    UnknownDecisionError,
)
from lim2.log.errors import GoneLogError

logger = logging.getLogger("lim2.serve")


class InnerError(msgspec.Struct, omit_defaults=True):
    """More about an error, as Personalizer nests it."""

    code: str
    innererror: "InnerError | None" = None


class ErrorBody(msgspec.Struct, rename="camel"):
    """What was wrong, and where."""

    code: str
    message: str
    target: str | None = None
    details: list["ErrorBody"] = []
    inner_error: InnerError | None = None


class ErrorResponse(msgspec.Struct):
    """The body of every answer with a status of 400 and above."""

    error: ErrorBody


class ApiError(Exception):
    """Something that the client did, or that the service cannot do; it becomes an answer."""

    def __init__(
        self, status: int, code: str, message: str, target: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.target = status, code, message, target
        self.headers = headers or {}

    def body(self) -> ErrorResponse:
        """Return the body of the answer."""
        return ErrorResponse(ErrorBody(self.code, self.message, self.target))


def bad_request(message: str, target: str | None = None, code: str = "BadRequest") -> ApiError:
    """Return the error of a request that cannot be understood.

    Examples
    --------
    >>> msgspec.json.encode(bad_request("actions is empty", "actions").body()).decode()
    '{"error":{"code":"BadRequest","message":"actions is empty","target":"actions","details":[],"innerError":null}}'
    """
    return ApiError(400, code, message, target)


def not_found(message: str, code: str = "ResourceNotFound") -> ApiError:
    """Return the error of a request for what is not there."""
    return ApiError(404, code, message)


def shortened(value: Any, most: int = 80) -> str:
    """Return a value for a message, cut where it is long: what a client sends may be of any length."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


@contextlib.contextmanager
def refusals(what: str) -> Iterator[None]:
    """Answer what a log or an encoder refuses as an error of the client, and a broken file as one of the service."""
    try:
        yield
    except (ApiError, StoreUnavailableError, GoneLogError):  # others answer these
        raise
    except LogFileError as error:
        logger.error("%s failed: %s", what, error)
        raise ApiError(500, "InternalServerError", f"{what} could not be written or read; see the log") from error
    except UnknownDecisionError as error:
        raise not_found(str(error)) from error
    except ConflictingRewardError as error:
        raise ApiError(409, "InvalidRewardRequest", str(error)) from error
    except (LogError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise bad_request(str(error)) from error
