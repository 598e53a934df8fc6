"""Execute runs: choose the next one, repeat failed ones, store results."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from lim2.experiments import environment
from lim2.experiments.backend import Backend, Died, Finished, Ticked
from lim2.experiments.plan import Run
from lim2.experiments.progress import Progress
from lim2.experiments.runner import Record, identity

ATTEMPTS = 3  # of a run whose process dies
TIMEOUT = 0.25  # seconds between looks at the clock while nothing happens


def carry_out(
    runs: Iterable[Run],
    backend: Backend,
    put: Callable[[Run, Record], None],
    progress: Progress,
    is_there: Callable[[Run], bool] | None = None,
) -> None:
    """Carry out runs on a backend."""
    waiting = deque(runs)
    attempts: Counter[str] = Counter()
    costs = Costs()
    busy = 0
    while waiting or busy:
        while waiting and busy < backend.slots:
            run = costs.next_of(waiting)
            if is_there is not None and is_there(run):
                progress.found(run)
                continue
            attempts[run.key] += 1
            progress.started(run)
            backend.start(run)
            busy += 1
        for event in backend.events(TIMEOUT):
            if isinstance(event, Ticked):
                progress.ticked(event.run, event.done, event.reward)
                continue
            busy -= 1
            run = event.run
            if isinstance(event, Died) and attempts[run.key] < ATTEMPTS:
                progress.died(run, event.why)
                waiting.appendleft(run)
                continue
            record = event.record if isinstance(event, Finished) else _dead(run, event.why)
            record["attempts"] = attempts[run.key]
            put(run, record)
            costs.learn(run, record)
            progress.finished(run, record)
        progress.waited()


class Costs:
    """Schedule: the longest runs of a seed go first, so that all cores finish together."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], float] = {}

    def learn(self, run: Run, record: Record) -> None:
        """Remember how long a run took."""
        self._seconds[run.problem.label, run.agent.label] = record["seconds"]

    def next_of(self, waiting: deque[Run]) -> Run:
        """Remove and return the next run: the longest of the first seed; unknown durations count as long."""
        seed = waiting[0].seed
        same = [run for run in waiting if run.seed == seed]
        chosen = max(same, key=lambda run: self._seconds.get((run.problem.label, run.agent.label), float("inf")))
        waiting.remove(chosen)
        return chosen


def _dead(run: Run, why: str) -> Record:
    return {
        **identity(run),
        **environment.here(),
        "started": datetime.now(UTC),
        "status": "failed",
        "error": f"tried {ATTEMPTS} times, and each time {why}",
        "warnings": [],
        "seconds": 0.0,
    }
