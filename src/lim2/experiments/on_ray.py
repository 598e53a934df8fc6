"""Runs on a Ray cluster: ``pip install 'lim2[ray]'``, ``lim2 bench --on ray``."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from lim2.experiments.backend import ONE_THREAD, Died, Event, Finished, Ticked
from lim2.experiments.names import PlanError
from lim2.experiments.plan import Run
from lim2.experiments.runner import Record, Tick, run_once
from lim2.experiments.worker import EVERY


class Board:
    """Actor on the cluster to which runs report their progress."""

    def __init__(self) -> None:
        self.news: dict[str, tuple[int, float]] = {}

    def note(self, key: str, done: int, reward: float) -> None:
        """Record the progress of a run."""
        self.news[key] = (done, reward)

    def take(self) -> dict[str, tuple[int, float]]:
        """Return new progress."""
        news, self.news = self.news, {}
        return news


def _play(run: Run, path: list[str], board: Any) -> Record:
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    return run_once(run, _reporter(run.key, board))


def _reporter(key: str, board: Any) -> Tick:
    last = 0.0

    def report(done: int, reward: float) -> None:
        nonlocal last
        if time.monotonic() - last >= 5 * EVERY:
            last = time.monotonic()
            board.note.remote(key, done, reward)

    return report


class Ray:
    """A Ray cluster.

    Without an address, the cluster is a local one that ends with the call.
    """

    def __init__(self, jobs: int | None, address: str | None) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError as error:
            raise PlanError("--on ray needs Ray, which is not installed: pip install 'lim2[ray]'") from error
        self._ray = ray
        self._jobs = jobs
        self._mine = not ray.is_initialized()
        if self._mine:
            variables = {key: value for key, value in os.environ.items() if key.startswith("LIM2_")}
            options: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
            try:
                ray.init(
                    address=address,
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                    runtime_env={"env_vars": {**ONE_THREAD, **variables}},
                    **options,
                )
            except Exception as error:  # Ray has no class of its own for it
                what = f"the cluster {address} (RAY_ADDRESS) did not answer" if address else "Ray did not start"
                raise PlanError(f"{what}: {error}. Try again, or run without --on ray") from error
        self._task = ray.remote(num_cpus=1, max_retries=0)(_play)
        self._board: Any = ray.remote(num_cpus=0)(Board).remote()
        self._running: dict[Any, Run] = {}
        self._asked: Any = None  # the board's answer that is on its way

    @property
    def slots(self) -> int:
        """Largest number of concurrent runs: the current number of cores of the cluster."""
        return self._jobs or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def start(self, run: Run) -> None:
        """Submit a run."""
        self._running[self._task.remote(run, sys.path, self._board)] = run

    def events(self, timeout: float) -> Iterator[Event]:
        """Return finished runs, lost runs, and the progress of the others."""
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        for reference in done:
            run = self._running.pop(reference)
            try:
                record: Record = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                # Raised outside of `run_once`: the run could not even be unpacked there.
                yield Died(run, f"it failed on the cluster: {error}")
            except self._ray.exceptions.RayError as error:  # its process or machine is gone
                yield Died(run, f"it was lost on the cluster: {type(error).__name__}: {error}")
            else:
                yield Finished(run, record)
        yield from self._ticks()

    def _ticks(self) -> Iterator[Event]:
        if self._asked is None:
            self._asked = self._board.take.remote()
        if not self._ray.wait([self._asked], timeout=0)[0]:
            return
        news, self._asked = self._ray.get(self._asked), None
        by_key = {run.key: run for run in self._running.values()}
        for key, (done, reward) in news.items():
            if key in by_key:
                yield Ticked(by_key[key], done, reward)

    def close(self) -> None:
        """Stop what runs; leave a cluster that was there before."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._mine:
            self._ray.shutdown()
