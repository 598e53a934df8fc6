"""A service that is asked to end while it works for a long time: it ends, and says so."""

import asyncio
import json
import threading
from typing import Any

import pytest
from helpers.waiting import PATIENCE

from lim2.serve.background import MAX_EVALUATIONS, BackgroundPool
from lim2.serve.operations import Call, Endpoint, Operation
from lim2.serve.service import Service


def test_long_work_keeps_neither_the_threads_of_requests_nor_the_end() -> None:
    begun, over = threading.Semaphore(0), threading.Event()

    def work() -> bool:
        begun.release()
        return over.wait(PATIENCE)

    async def ended() -> None:
        background = BackgroundPool()
        tasks = [asyncio.create_task(background.run(work)) for _ in range(MAX_EVALUATIONS + 1)]
        for _ in range(MAX_EVALUATIONS):
            assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
        assert not begun.acquire(blocking=False)  # the others wait
        for task in tasks:
            task.cancel()

    asyncio.run(ended())
    assert not over.is_set()
    over.set()


def test_an_error_of_long_work_is_that_of_the_caller() -> None:
    def work() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        asyncio.run(BackgroundPool().run(work))


def test_an_answer_that_is_cut_off_asks_to_come_again(service: Service) -> None:
    async def handler(_: Call) -> None:
        await asyncio.Event().wait()

    async def answered(ending: bool) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        own = Operation(name="x", method="GET", path="/x", handler=handler, summary="", tag="", open=True)
        scope = {"method": "GET", "path": "/x", "headers": [], "query_string": b""}
        task = asyncio.create_task(Endpoint(own, service)(scope, None, send))
        await asyncio.sleep(0)
        if ending:
            service.ending.set()
        task.cancel()
        await task
        return sent

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(answered(ending=False))
    start, body = asyncio.run(answered(ending=True))
    assert start["status"] == 503 and (b"retry-after", b"1") in start["headers"]
    assert "ending" in json.loads(body["body"])["error"]["message"]
    service.bandits.close()
