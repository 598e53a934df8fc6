"""Requests that are under way at the same time are decided together: one pass over the model's matrices serves all."""

import asyncio
from typing import NamedTuple

from lim2.bandit import RawDecider
from lim2.decision import Decision
from lim2.item_deciding import Question
from lim2.log.gathering import Gathering

MOST = 32  # decisions at once: more would let the disk, and other requests, wait


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
        try:
            decisions = group[0].decider.answer([one.question for one in group])
        except Exception as error:  # noqa: BLE001 (raised where the requests wait)
            for one in group:
                one.made.set_exception(error)
        else:
            for one, decision in zip(group, decisions, strict=True):
                one.made.set_result(decision)
