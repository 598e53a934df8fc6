"""Requests that are under way at the same time are decided together: one pass over the model's matrices serves all."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from lim2.bandit import RawDecider
from lim2.decision import Decision
from lim2.item_deciding import Question
from lim2.log.microbatching import Gathering

MOST = 32  # decisions at once: more would let the disk, and other requests, wait
LARGE = 64_000  # values of questions: from here on their decisions take milliseconds


class _Asked(NamedTuple):
    """A decision that somebody waits for."""

    decider: RawDecider
    question: Question
    made: "asyncio.Future[Decision]"


class Together:
    """Makes the decisions that requests ask for in one pass of the event loop."""

    def __init__(self) -> None:
        self._gathering = Gathering(_answer, MOST)

    async def decide(self, decider: RawDecider, question: Question) -> Decision:
        """Return a decision, made with those of others.

        Parameters
        ----------
        decider
            Who decides.
        question
            What its `ask` has returned.
        """
        loop = asyncio.get_running_loop()
        made: asyncio.Future[Decision] = loop.create_future()
        self._gathering.add(_Asked(decider, question, made), loop)
        return await made


def _answer(asked: list[_Asked]) -> None:
    by_decider: dict[int, list[_Asked]] = {}  # a new snapshot may have come in between
    for one in asked:
        if not one.made.done():  # cancelled: the client has gone
            by_decider.setdefault(id(one.decider), []).append(one)
    for group in by_decider.values():
        decide = partial(group[0].decider.answer, [one.question for one in group])
        if sum(one.question.rows.size for one in group) < LARGE:
            _settle(group, decide)
        else:  # others are answered meanwhile
            deciding = asyncio.get_running_loop().run_in_executor(None, decide)
            deciding.add_done_callback(partial(_settle_done, group))


def _settle_done(group: list[_Asked], deciding: "asyncio.Future[list[Decision]]") -> None:
    _settle(group, deciding.result)


def _settle(group: list[_Asked], decide: Callable[[], list[Decision]]) -> None:
    """Give everybody in a group their decision, or what has gone wrong."""
    try:
        made: list[Any] = decide()
    except Exception as error:  # noqa: BLE001 (raised where the requests wait)
        made = [error] * len(group)
    for one, decision in zip(group, made, strict=True):
        if one.made.done():  # cancelled meanwhile
            continue
        if isinstance(decision, Exception):
            one.made.set_exception(decision)
        else:
            one.made.set_result(decision)
