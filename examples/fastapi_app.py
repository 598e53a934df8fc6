"""A FastAPI application with several worker processes and one bandit: `python examples/fastapi_app.py`.

All workers make decisions and receive rewards through one SQLite log. The worker that holds the lease learns and
publishes the model, and the others load it. If that worker dies, another one gets the lease. Needs
`pip install lim2 fastapi uvicorn`.

To run it as a server: `BANDIT_LOG=shop.db uvicorn fastapi_app:app --workers 4`.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import lim2
from lim2.log import Lease, LogError, UnknownDecisionError

BANNERS = ["spring", "shoes", "gift card"]
PAUSE = 0.2  # seconds between two checks of the log


def new_bandit() -> lim2.Bandit:
    """Return a new bandit. It has no seed, so that every worker draws its own random numbers."""
    return lim2.Bandit(arms=BANNERS, epsilon=0.15)


class Worker:
    """The state of one process: the log, and a snapshot of the model that makes the decisions."""

    def __init__(self, path: str) -> None:
        self.log = lim2.DecisionLog(path, expire_after=3600, default_reward=0.0, aggregate="first")
        model = self.log.model()
        self.version = 0 if model is None else model.version
        self.bandit = new_bandit() if model is None else lim2.from_bytes(model.data)
        self.snapshot = self.bandit.snapshot()
        self.lease: Lease | None = None

    def learn(self) -> None:
        """Learn new rewards and publish the model, or load the model that another worker has published."""
        if self.lease is None or not self.lease.held:
            self.lease = self.log.lead()
        if self.lease is not None:
            if self.log.apply(self.bandit, batch="auto", lease=self.lease):
                self.log.publish(self.bandit, lease=self.lease)
                self.snapshot = self.bandit.snapshot()
        elif (model := self.log.model(after=self.version)) is not None:
            self.version, self.bandit = model.version, lim2.from_bytes(model.data)
            self.snapshot = self.bandit.snapshot()

    async def learn_on(self) -> None:
        """Learn in a thread, beside the requests, until the worker stops."""
        while True:
            try:
                await asyncio.to_thread(self.learn)
            except LogError:  # the disk may be full: decisions go on, and learning is tried again
                logging.getLogger(__name__).exception("learning failed")
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.worker = worker = Worker(os.environ["BANDIT_LOG"])  # made after the fork
    learning = asyncio.create_task(worker.learn_on())
    yield
    learning.cancel()
    worker.log.close()


app = FastAPI(lifespan=lifespan)


class Reward(BaseModel):
    """The reward of a decision."""

    id: str
    reward: float


@app.post("/decide")
async def decide(visitor: dict[str, Any]) -> dict[str, Any]:
    worker: Worker = app.state.worker
    decision = await worker.log.adecide(worker.snapshot, visitor)  # does not block the event loop
    return {"id": decision.id, "banner": decision.arm, "worker": os.getpid()}


@app.post("/reward")
async def reward(given: Reward) -> dict[str, str]:
    try:
        return {"status": await app.state.worker.log.areward(given.id, given.reward)}
    except UnknownDecisionError as error:
        raise HTTPException(404, str(error)) from error


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.URLError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"{url} does not answer")


def main() -> None:
    """Start two workers, send them visitors, and print the click rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=400)
    visitors = parser.parse_args().visitors
    rng = random.Random(0)
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        where = {**os.environ, "BANDIT_LOG": f"{folder}/shop.db"}
        command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--workers", "2", "--port", str(port)]
        server = subprocess.Popen([*command, "--log-level", "warning"], env=where, cwd=Path(__file__).parent)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/openapi.json")
            clicks, workers = [], set()
            for _ in range(visitors):
                person = {"country": rng.choice(["AT", "DE"]), "age": rng.randint(18, 80)}
                answer = post(f"{url}/decide", person)
                liked = "shoes" if person["country"] == "DE" else "spring"
                clicks.append(rng.random() < (0.7 if answer["banner"] == liked else 0.1))
                post(f"{url}/reward", {"id": answer["id"], "reward": float(clicks[-1])})
                workers.add(answer["worker"])
            quarter = visitors // 4
            print(f"{len(workers)} workers answered {visitors} visitors")
            print(f"clicks per visitor: {sum(clicks[:quarter]) / quarter:.2f} at first, ", end="")
            print(f"{sum(clicks[-quarter:]) / quarter:.2f} at the end; a random banner gets 0.30, the right one 0.70")
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
