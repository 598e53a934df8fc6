"""Requests that are under way at the same time are decided together; each gets its own answer, or its own error."""

import asyncio
from typing import Any

import pytest

from lim2.deciding import Decider
from lim2.log.microbatching import MAX_DECISIONS, DecisionBatcher
from lim2.serve.deciding import decide
from lim2.serve.errors import ApiError
from lim2.serve.service import Service

ITEMS = {"a": {"kind": "x", "price": 1}, "b": {"kind": "y", "price": 2}, "c": {"kind": "x", "price": 3}}


def answered(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many decisions are made as one, as they are made."""
    sizes: list[int] = []
    answer = Decider.decide_many

    def counted(decider: Decider, questions: Any) -> Any:
        sizes.append(len(questions))
        return answer(decider, questions)

    monkeypatch.setattr(Decider, "decide_many", counted)
    return sizes


def test_concurrent_decisions_are_made_and_written_together(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted, sizes = service.personalizer, answered(service, monkeypatch)
    wrong = {"a": {"price": [[1]]}}

    async def main() -> list[Any]:
        asked = [
            decide(hosted, {"n": place}, wrong if place == 3 else ITEMS, None, id=f"d{place}")
            for place in range(MAX_DECISIONS + 4)
        ]
        return await asyncio.gather(*asked, return_exceptions=True)

    made = asyncio.run(main())
    assert sizes == [MAX_DECISIONS, 3]
    assert isinstance(made.pop(3), ApiError)
    for one in made:
        kept = hosted.log.get(one.id)
        assert (kept.arm, kept.raw, kept.raw_items) == (one.arm, {"n": int(one.id[1:])}, ITEMS)
        assert kept.propensities.sum() == pytest.approx(1.0)
        assert kept.propensity == one.propensities[one.arms.index(one.arm)]
    service.bandits.close()


def test_a_snapshot_that_comes_in_between_decides_only_what_was_asked_of_it(service: Service) -> None:
    hosted = service.personalizer
    batcher, old = DecisionBatcher(), hosted.decider

    class Other(Decider):
        """A snapshot that would answer everything wrongly."""

        def decide_many(self, questions: Any) -> Any:
            raise ValueError(f"asked {len(questions)} questions")

    new = Other()

    async def main() -> list[Any]:
        question = old.question({"n": 1}, ITEMS)
        gone = asyncio.ensure_future(batcher.decide(new, question))
        asked = [asyncio.ensure_future(batcher.decide(decider, question)) for decider in (old.core, new, old.core)]
        await asyncio.sleep(0)
        gone.cancel()
        return await asyncio.gather(*asked, gone, return_exceptions=True)

    first, second, third, cancelled = asyncio.run(main())
    assert first.arm in ITEMS and third.arm in ITEMS
    assert isinstance(second, ValueError) and "asked 1 questions" in str(second)
    assert isinstance(cancelled, asyncio.CancelledError)
    service.bandits.close()
