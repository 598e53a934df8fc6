"""The load of `benchmarks.serve` reaches the service, and its figures follow from the blocks."""

import asyncio
import itertools
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from serve.running import KEY, Running

import lim2
from benchmarks import serve
from benchmarks.bare import PATH
from benchmarks.load import closed_loop, open_loop, post


def test_every_request_is_answered_and_rewarded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Running(tmp_path / "data", api_key=serve.KEY) as server, serve.Server("benchmarks.bare") as bare:
        messages = itertools.cycle([post(PATH, body, serve.KEY) for body in serve.bodies(rng)])
        assert {one.status for one in asyncio.run(closed_loop(server.port, messages, 30, 4))} == {201}
        served = asyncio.run(open_loop(server.port, messages, 20, 500.0, lambda body: serve.rewarded(rng, body)))
        assert len(serve.good(served)) == 20
        with lim2.Client(server.url, serve.KEY, bandit="personalizer") as client:
            assert (client.info()["decisions"], client.info()["rewards"]) == (50, 20)
        assert len(serve.good(asyncio.run(closed_loop(bare.port, messages, 30, 4)))) == 30
        assert bare.cpu() > 0
        wrong = itertools.cycle([post(PATH, b"{}", KEY)])
        with pytest.raises(RuntimeError, match="401"):
            serve.good(asyncio.run(closed_loop(server.port, wrong, 1, 1)))


def test_the_table_has_medians_and_quartiles() -> None:
    figures = {"ratio": serve.spread([3.0, 1.0, 2.0]), "by load": {"1 connection": serve.spread([4.0])}, "rate": 7.0}
    assert serve.report(figures).splitlines()[2:] == [
        "| ratio | 2 | 1.5 to 2.5 |",
        "| by load, 1 connection | 4 | 4 to 4 |",
        "| rate | 7 |  |",
    ]
