"""Progress of a bench: bars on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from lim2.experiments.plan import Run
from lim2.experiments.runner import Record


class Progress:
    """Keep count, and show nothing."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.total, self.done, self.failed, self.retried = len(runs), 0, 0, 0
        self._left = {run.key: run for run in runs}
        self._running: dict[str, float] = {}  # key of a run: rounds so far
        self._seconds: dict[tuple[str, str], float] = {}  # what runs of a (problem, agent) take
        self._most = 1  # runs at a time
        self._rounds = 0  # of finished runs
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    # What happens to runs

    def started(self, run: Run) -> None:
        """Report that a run has started."""
        self._running[run.key] = 0
        self._most = max(self._most, len(self._running))

    def ticked(self, run: Run, done: int, reward: float) -> None:  # noqa: ARG002
        """Report the progress of a run."""
        self._running[run.key] = done

    def finished(self, run: Run, record: Record) -> None:
        """Report that a run has ended."""
        self._end(run)
        self.failed += record["status"] != "ok"
        self._rounds += record.get("rounds") or 0
        self._seconds[run.problem.label, run.agent.label] = record["seconds"]

    def found(self, run: Run) -> None:
        """Report that another process has finished a run."""
        self._end(run)

    def died(self, run: Run, why: str) -> None:  # noqa: ARG002
        """Report that the process of a run died; the run is repeated."""
        self._running.pop(run.key, None)
        self.retried += 1

    def waited(self) -> None:
        """Report that time has passed."""

    def _end(self, run: Run) -> None:
        self._running.pop(run.key, None)
        self._left.pop(run.key, None)
        self.done += 1

    # What is known from that

    @property
    def speed(self) -> float:
        """Rounds a second, over all processes, since the start."""
        return (self._rounds + sum(self._running.values())) / max(time.monotonic() - self._began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """A guess from what runs of each kind took; None before the first has ended."""
        if not self._seconds:
            return None
        typical = sum(self._seconds.values()) / len(self._seconds)
        left = 0.0
        for run in self._left.values():
            seconds = self._seconds.get((run.problem.label, run.agent.label), typical)
            done = self._running.get(run.key, 0) / run.rounds if isinstance(run.rounds, int) else 0.0
            left += seconds * (1.0 - done)
        return left / self._most


def duration(seconds: float | None) -> str:
    """Return a time as a person reads it.

    Examples
    --------
    >>> duration(None), duration(42.4), duration(150), duration(7320)
    ('?', '42 s', '2 min 30 s', '2 h 2 min')
    """
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


class Lines(Progress):
    """A line a finished run, for logs."""

    def __init__(self, runs: Sequence[Run], console: Console) -> None:
        super().__init__(runs)
        self.console = console

    def finished(self, run: Run, record: Record) -> None:
        """Print the outcome."""
        super().finished(run, record)
        self._say(run, outcome(record))

    def found(self, run: Run) -> None:
        """Print that the run is finished."""
        super().found(run)
        self._say(run, "done by another process")

    def died(self, run: Run, why: str) -> None:
        """Print why."""
        super().died(run, why)
        self._say(run, f"{why.splitlines()[0]}; trying again")

    def _say(self, run: Run, what: str) -> None:
        pace = f"{self.speed:,.0f} rounds/s, {duration(self.seconds_left)} left"
        self.console.print(f"[{self.done}/{self.total}] {run}: {what} ({pace})", markup=False, soft_wrap=True)


class Rich(Progress):
    """A bar for the whole, one for each run under way, and lines for what went wrong."""

    def __init__(self, runs: Sequence[Run], console: Console) -> None:
        super().__init__(runs)
        self.console = console
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            console=console,
            transient=True,
        )
        self._whole = self._bars.add_task("[bold]runs", total=self.total, note="")
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def started(self, run: Run) -> None:
        """Add a bar."""
        super().started(run)
        total = run.rounds if isinstance(run.rounds, int) else None
        self._tasks[run.key] = self._bars.add_task(str(run), total=total, note="")

    def ticked(self, run: Run, done: int, reward: float) -> None:
        """Move a bar."""
        super().ticked(run, done, reward)
        self._bars.update(self._tasks[run.key], completed=done, note=f"mean reward {reward / done:.3f}")
        self.waited()

    def finished(self, run: Run, record: Record) -> None:
        """Remove a bar; a failure leaves a line."""
        super().finished(run, record)
        self._drop(run)
        if record["status"] != "ok":
            self.console.print(f"{run}: {outcome(record)}", style="red", markup=False)

    def found(self, run: Run) -> None:
        """Count it."""
        super().found(run)
        self.waited()

    def died(self, run: Run, why: str) -> None:
        """Remove a bar, and print the reason."""
        super().died(run, why)
        self._drop(run)
        self.console.print(f"{run}: {why.splitlines()[0]}; trying again", style="yellow", markup=False)

    def waited(self) -> None:
        """Show the pace of now."""
        note = f"{self.speed:,.0f} rounds/s, {duration(self.seconds_left)} left"
        self._bars.update(self._whole, completed=self.done, note=note)

    def _drop(self, run: Run) -> None:
        self._bars.remove_task(self._tasks.pop(run.key))
        self.waited()


def outcome(record: Record) -> str:
    """Return the outcome of a run in a few words."""
    if record["status"] != "ok":
        return f"failed: {record['error'].strip().splitlines()[-1]}"
    return f"reward {record['reward']:,.1f}, {record['us_per_round']:,.0f} µs per round"


def progress_for(runs: Sequence[Run], console: Console, *, quiet: bool) -> Progress:
    """Return the progress that suits where it is shown."""
    if quiet:
        return Progress(runs)
    return Rich(runs, console) if console.is_terminal else Lines(runs, console)
