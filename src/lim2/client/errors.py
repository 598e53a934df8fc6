"""Errors of the clients: the service refused a call, or did not answer in time."""

from __future__ import annotations

import json

from lim2.client.exchange import Answer

MAX_TEXT_CHARACTERS = 300  # of an answer that is not in the format of the service


class ClientError(Exception):
    """A call failed."""


class UnreachableError(ClientError):
    """The service did not answer before the deadline. It may or may not have received the call."""


class RefusedError(ClientError):
    """The service refused the call and gave a reason.

    Parameters
    ----------
    code
        Error code of the service, such as ``"ResourceNotFound"``; empty if a proxy answered.
    target
        Part of the request that was wrong; None if unknown.
    """

    def __init__(self, status: int, code: str, message: str, target: str | None = None) -> None:
        where = f" (at {target})" if target else ""
        super().__init__(f"the service answered {status}{' ' + code if code else ''}: {message}{where}")
        self.status, self.code, self.message, self.target = status, code, message, target

    def __reduce__(self) -> tuple[type[RefusedError], tuple[int, str, str, str | None]]:
        return type(self), (self.status, self.code, self.message, self.target)


def refused(answer: Answer) -> RefusedError:
    """Return the error described by an answer.

    Examples
    --------
    >>> body = b'{"error": {"code": "BadRequest", "message": "actions is empty", "target": "actions"}}'
    >>> print(refused(Answer(400, {}, body)))
    the service answered 400 BadRequest: actions is empty (at actions)
    >>> print(refused(Answer(502, {}, b"<h1>Bad Gateway</h1>")))
    the service answered 502: <h1>Bad Gateway</h1>
    """
    try:
        error = json.loads(answer.content)["error"]
        return RefusedError(answer.status, str(error["code"]), str(error["message"]), error.get("target"))
    except (ValueError, TypeError, KeyError, AttributeError):  # the answer of a proxy
        text = answer.content[:MAX_TEXT_CHARACTERS].decode("utf-8", "replace").strip()
        return RefusedError(answer.status, "", text or "the answer is empty")
