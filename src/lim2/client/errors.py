"""What a client raises: the service has refused something, or gave no answer in time."""

from __future__ import annotations

import json

from lim2.client.exchange import Answer

LONGEST = 300  # characters of an answer that is not the service's own


class ClientError(Exception):
    """A call has failed."""


class UnreachableError(ClientError):
    """There was no answer until the deadline. What was sent may or may not have been received."""


class RefusedError(ClientError):
    """The service has answered, and said what was wrong.

    Parameters
    ----------
    status
        Of HTTP.
    code
        The service's own, such as ``"ResourceNotFound"``; empty if something between has answered.
    message
        What was wrong.
    target
        The part of the request that was wrong; None if it was not named.
    """

    def __init__(self, status: int, code: str, message: str, target: str | None = None) -> None:
        where = f" (at {target})" if target else ""
        super().__init__(f"the service answered {status}{' ' + code if code else ''}: {message}{where}")
        self.status, self.code, self.message, self.target = status, code, message, target

    def __reduce__(self) -> tuple[type[RefusedError], tuple[int, str, str, str | None]]:
        return type(self), (self.status, self.code, self.message, self.target)


def refused(answer: Answer) -> RefusedError:
    """Return the error that an answer is.

    Parameters
    ----------
    answer
        With a status of 300 and above.

    Examples
    --------
    >>> body = b'{"error": {"code": "BadRequest", "message": "actions is empty", "target": "actions"}}'
    >>> print(refused(Answer(400, {}, body)))
    the service answered 400 BadRequest: actions is empty (at actions)
    >>> print(refused(Answer(502, {}, b"<h1>Bad Gateway</h1>")))
    the service answered 502: <h1>Bad Gateway</h1>
    """
    try:
        own = json.loads(answer.content)["error"]
        return RefusedError(answer.status, str(own["code"]), str(own["message"]), own.get("target"))
    except (ValueError, TypeError, KeyError, AttributeError):  # of a proxy, say
        text = answer.content[:LONGEST].decode("utf-8", "replace").strip()
        return RefusedError(answer.status, "", text or "the answer is empty")
