"""What a log or an encoder refuses, as an answer to the client."""

import contextlib
import logging
from collections.abc import Iterator

from lim2.log import (
    ConflictingRewardError,
    LogError,
    LogFileError,
    StoreUnavailableError,
    UnknownDecisionError,
)
from lim2.log.errors import GoneLogError
from lim2.serve.errors import ApiError, bad_request, not_found

logger = logging.getLogger("lim2.serve")


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
