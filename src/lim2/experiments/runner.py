"""One run: one agent plays one draw of a problem, timed, with as little between its rounds as can be."""

from __future__ import annotations

import inspect
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lim2._blas import one_thread
from lim2.experiments import code, environment
from lim2.experiments.delayed import Delayed, check_arm, checked, limits_of
from lim2.experiments.dictionaries import PlaysDictionaries, make_for_dictionaries
from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.items import PlaysItems, check_arms, make_for_items
from lim2.experiments.names import Spec, data_of, is_table, maker_of, takes
from lim2.experiments.plan import FORMAT, Run, canonical
from lim2.problems import ItemProblem, Problem, from_csv, from_openml, load
from lim2.problems.registry import find, names

LOOKS = 64  # at the agent's memory
POINTS = 200  # of a curve in a run's file
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
# Code may be compiled and caches filled in the first rounds; they do not count towards the time of a round.
WARM_UP = 0.01
REAL = 2000  # rounds after a real change: a change that an agent reports by then is not false

Record = dict[str, Any]
Tick = Callable[[int, float], None]  # rounds so far, reward so far
Array = NDArray[np.int64]
Times = Sequence[int] | Array
Stretch = Callable[[int, int], tuple[list[int], Times, Times, Times]]


class Plays(Protocol):
    """Interface of an agent."""

    def act(self, context: Any) -> int:
        """Choose an arm."""
        ...

    def update(self, context: Any, arm: int, reward: float) -> object:
        """Learn from a reward."""
        ...


@dataclass(frozen=True, eq=False)
class Played:
    """Record of each round of a run."""

    arms: NDArray[np.int64]  # rows of the items, where arms are items
    act_ns: NDArray[np.int64]  # nanoseconds of every decision
    update_ns: NDArray[np.int64]  # of learning every reward that was learned, in the order of the calls
    learned_after: NDArray[np.int64]  # after which round each reward was learned
    memory_rounds: list[int]  # empty if the agent has no attribute nbytes
    memory_bytes: list[int]
    traces: Mapping[str, Sequence[float]]
    # rounds by which the agent had reported a change, one entry per change; None if it does not report them
    changes: list[int] | None = None
    cpu_seconds: float | None = None


def play(
    agent: Plays | PlaysItems | PlaysDictionaries,
    problem: Problem | ItemProblem,
    tick: Tick | None = None,
    feedback: Feedback = IMMEDIATE,
) -> Played:
    """Run an agent on a problem to its end.

    Parameters
    ----------
    agent
        Agent with methods ``act`` and ``update``, which take items if the problem has items; for a problem with
        dictionaries ``decide`` and ``update``, as `lim2.Bandit`.
    tick
        Function called from time to time with the progress.
    feedback
        Delay and batch of the rewards; default: each reward is learned after its decision. Delays of the problem
        are added.

    Examples
    --------
    >>> import lim2, lim2.problems
    >>> problem = lim2.problems.load("linear", rounds=100, seed=0)
    >>> play(lim2.LinearTS(problem.n_arms, problem.n_features, seed=0), problem).arms[:5]
    array([0, 1, 2, 3, 4])
    """
    n = problem.rounds
    arms = np.empty(n, dtype=np.int64)
    act_ns = np.empty(n, dtype=np.int64)
    update_ns: list[Times] = []
    learned_after: list[Times] = []
    rounds: list[int] = []
    sizes: list[int] = []
    changes: list[int] = []
    reported = None
    stretch = _stretch(agent, problem, feedback)
    limits = limits_of(problem)
    total, start, step = 0.0, 0, 16
    at = np.linspace(0, n, min(LOOKS, n) + 1).astype(int)[1:].tolist()
    looks = iter(sorted({feedback.block_end(count, n) for count in at}))
    look = next(looks)
    cpu = time.process_time()
    with one_thread:
        while start < n:
            stop = min(feedback.block_end(start + step, n), look)
            clock = time.perf_counter_ns()
            chosen, acts, updates, after = stretch(start, stop)
            took = time.perf_counter_ns() - clock
            arms[start:stop] = checked(chosen, start, limits[start:stop])
            act_ns[start:stop] = acts
            update_ns.append(updates)
            learned_after.append(after)
            if stop == look:
                look = next(looks, n)
                size = getattr(agent, "nbytes", None)
                if size is not None:
                    rounds.append(stop)
                    sizes.append(int(size))
                reported = _changes(agent)
                changes += [stop] * ((reported or 0) - len(changes))
            if tick is not None:
                total += float(problem.earned(arms[start:stop], start).sum())
                tick(stop, total)
            step = _next_step(step, took)
            start = stop
    traces: Mapping[str, Sequence[float]] = getattr(agent, "traces", {})
    return Played(
        arms,
        act_ns,
        np.concatenate(update_ns).astype(np.int64),
        np.concatenate(learned_after).astype(np.int64),
        rounds,
        sizes,
        traces,
        None if reported is None else changes,
        time.process_time() - cpu,
    )


def _changes(agent: Any) -> int | None:
    """Return the number of changes that an agent has reported; None if it does not report changes."""
    changes: int | None = getattr(getattr(agent, "info", None), "changes", None)
    return changes


def _stretch(agent: Any, problem: Any, feedback: Feedback) -> Stretch:
    """Return a function that plays some rounds and returns arms, nanoseconds, and when each reward was learned."""
    if feedback != IMMEDIATE or problem.delays is not None or problem.form == "dictionaries":
        return Delayed(agent, problem, feedback)
    return partial(_play_items if isinstance(problem, ItemProblem) else _play_arms, agent, problem)


def _play_arms(agent: Any, problem: Any, start: int, stop: int) -> tuple[list[int], Array, Array, Array]:
    """Play some rounds of a problem with arms, learning each reward after its decision."""
    act, update, clock = agent.act, agent.update, time.perf_counter_ns
    chosen: list[int] = []
    note_arm = chosen.append
    stamps = [clock()]
    stamp = stamps.append
    arm: Any = 0
    try:
        for context, rewards in zip(problem.contexts[start:stop], problem.rewards[start:stop], strict=True):
            arm = act(context)
            stamp(clock())
            update(context, arm, float(rewards[arm]))
            stamp(clock())
            note_arm(arm)
    except Exception:
        check_arm(arm, start + len(chosen) + 1, problem.n_arms)  # what is no arm may fail anywhere
        raise
    times = np.diff(stamps)
    return chosen, times[::2], times[1::2], np.arange(start + 1, stop + 1)


def _play_items(agent: Any, problem: Any, start: int, stop: int) -> tuple[list[int], Array, Array, Array]:
    """Play some rounds of a problem with items, and return arms and nanoseconds."""
    act, update, clock = agent.act, agent.update, time.perf_counter_ns
    chosen: list[int] = []
    edges = problem.offsets[start : stop + 1]
    candidates, rewards = np.split(problem.candidates, edges)[1:-1], np.split(problem.rewards, edges)[1:-1]
    stamps = [clock()]
    stamp = stamps.append
    row: Any = 0
    try:
        for context, items, pays in zip(problem.contexts[start:stop], candidates, rewards, strict=True):
            row = act(context, items)
            stamp(clock())
            update(context, items[row], float(pays[row]))
            stamp(clock())
            chosen.append(row)
    except Exception:
        check_arm(row, start + len(chosen) + 1, len(candidates[len(chosen)]))
        raise
    times = np.diff(stamps)
    return chosen, times[::2], times[1::2], np.arange(start + 1, stop + 1)


def _next_step(step: int, nanoseconds: int) -> int:
    """Return the number of rounds before the next tick, for one to four ticks per second."""
    if nanoseconds < 0.25e9:
        return 2 * step
    return step if nanoseconds < 1e9 else max(1, step // 4)


def run_once(run: Run, tick: Tick | None = None) -> Record:
    """Make the problem and the agent, play, and return a row for the results; a failure is a row, too.

    Parameters
    ----------
    tick
        Function called from time to time with the progress.
    """
    began = datetime.now(UTC)
    clock = time.perf_counter()
    record: Record = {**identity(run), **environment.here(), "started": began}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            before = made_of(run)
            problem = draw(run.problem, run.rounds, run.seed)
            run.feedback.check(problem.rounds, run.problem.label)
            memory = environment.PeakMemory()
            agent = make(run.agent, problem, run.seed)
            played = play(agent, problem, tick, run.feedback)
            after = made_of(run, problem)
            if after["data"] != before["data"] or any(part not in after["modules"] for part in before["modules"]):
                raise code.ChangedError("code or data were edited while the run was under way; run again")
            record |= {"status": "ok", **after, **measured(problem, played), "process_mb": memory.growth_mb()}
        except Exception:  # noqa: BLE001  # an agent may raise anything; it is recorded with its traceback
            record |= {"status": "failed", "error": traceback.format_exc()}
    messages = dict.fromkeys(f"{w.category.__name__}: {w.message} ({Path(w.filename).name}:{w.lineno})" for w in caught)
    return record | {"warnings": list(messages), "seconds": time.perf_counter() - clock}


def made_of(run: Run, problem: Problem | ItemProblem | None = None) -> Record:
    """Return the fields of a row that identify the code and the data of a run, as they are now.

    Raises a `ChangedError` if they are no longer those of the plan.
    """
    roots: list[Callable[..., Any] | str] = [maker_of(run.agent)]
    if run.agent.source.startswith("vw:"):
        roots.append("lim2.experiments.peers")
    if run.problem.source in names():
        roots.append(find(run.problem.source).module)
    elif not is_table(run.problem.source):
        roots.append(maker_of(run.problem))
    if isinstance(problem, ItemProblem):
        roots += ["lim2.experiments.items", "lim2.items"]
    if problem is not None and problem.form == "dictionaries":
        roots.append("lim2.experiments.dictionaries")
    modules = code.of_run(*roots)
    data = data_of(run.problem)
    planned = run.problem.fingerprint
    if planned and data and data != planned:
        raise code.ChangedError(f"the files of {run.problem.label} changed since the plan was made; run again")
    for spec in (run.agent, run.problem):
        outside = ":" in spec.source and not is_table(spec.source) and not spec.source.startswith("vw:")
        if outside and spec.fingerprint and code.fingerprint(maker_of(spec)) != spec.fingerprint:
            raise code.ChangedError(f"the code of {spec.source} changed since the plan was made; run again")
    parts = [{"name": name, "digest": digest} for name, digest in modules.items()]
    return {"data": data, "code": code.digest_of(modules), "modules": parts}


def identity(run: Run) -> Record:
    """Return the fields of a row that identify the run."""
    return {
        "format": FORMAT,
        "key": run.key,
        "problem": run.label,
        "problem_source": run.problem.source,
        "problem_settings": canonical(dict(run.problem.settings)),
        "agent": run.agent.label,
        "agent_source": run.agent.source,
        "agent_settings": canonical(dict(run.agent.settings)),
        "seed": run.seed,
        **run.feedback.changes,
    }


def draw(spec: Spec, rounds: int | str, seed: int) -> Problem | ItemProblem:
    """Draw a problem."""
    if spec.maker is not None or (":" in spec.source and not is_table(spec.source)):
        problem = maker_of(spec)(rounds=rounds, seed=seed, **spec.settings)
        if not isinstance(problem, Problem | ItemProblem):
            raise TypeError(
                f"{spec.source} returned {type(problem).__name__}, but a lim2.problems.Problem or ItemProblem is needed"
            )
        return problem
    key = f"{spec.source} {canonical(dict(spec.settings))} {rounds} {seed}"
    if key not in _latest_draw:
        _latest_draw.clear()
        _latest_draw[key] = _loaded(spec, rounds, seed)
    return _latest_draw[key]


_latest_draw: dict[str, Problem | ItemProblem] = {}  # the last draw: agents of one seed follow one another


def _loaded(spec: Spec, rounds: Any, seed: int) -> Problem | ItemProblem:
    if spec.source.startswith("csv:"):
        return from_csv(spec.source.removeprefix("csv:"), rounds=rounds, seed=seed, **spec.settings)
    if spec.source.startswith("openml:"):
        return from_openml(int(spec.source.removeprefix("openml:")), rounds=rounds, seed=seed, **spec.settings)
    return load(spec.source, rounds, seed, **spec.settings)


def make(spec: Spec, problem: Problem | ItemProblem, seed: int) -> Plays | PlaysItems | PlaysDictionaries:
    """Make an agent for a problem."""
    agent: Any
    if problem.form == "dictionaries":
        agent = make_for_dictionaries(spec, problem, seed)
    elif isinstance(problem, ItemProblem):
        agent = make_for_items(spec, problem, seed)
    else:
        agent = _make(spec, problem, seed)
    for method in ("decide" if problem.form == "dictionaries" else "act", "update"):
        if not callable(getattr(agent, method, None)):
            raise TypeError(f"{spec.source} made a {type(agent).__name__} without the method {method!r}")
    playing: Plays | PlaysItems | PlaysDictionaries = agent
    return playing


def _make(spec: Spec, problem: Problem, seed: int) -> Any:
    maker = maker_of(spec)
    check_arms(spec, maker, problem.name)
    seeded: dict[str, Any] = {"seed": seed} if takes(maker, "seed") else {}
    if "usual_rewards" in inspect.signature(maker).parameters:
        seeded["usual_rewards"] = problem.usual_rewards
    reads = {}
    if problem.n_tokens is not None and "representation" not in spec.settings and takes(maker, "representation"):
        reads["representation"] = _text_network(problem.n_tokens)
    return maker(problem.n_arms, problem.n_features, **seeded, **reads, **spec.settings)


def _text_network(n_tokens: int) -> Any:
    """Return the paper's network for texts: an agent that learns a representation reads token ids with it."""
    from lim2.representation import TextCNN, Torch  # PyTorch, only where it is needed

    return Torch(partial(TextCNN, n_tokens))


def _sizes(problem: Problem | ItemProblem) -> Record:
    if isinstance(problem, ItemProblem):
        mean = float(problem.n_candidates.mean())
        return {"n_features": problem.n_features, "n_item_features": problem.n_item_features, "n_candidates": mean}
    return {"n_features": problem.n_features, "n_arms": problem.n_arms}


def measured(problem: Problem | ItemProblem, played: Played) -> Record:
    """Return the fields of a row that measure the agent."""
    n = problem.rounds
    rewards, expected = problem.earned(played.arms), problem.expected(played.arms)
    regrets = problem.best_rewards - expected
    optimal = expected == problem.best_rewards
    at = np.unique(np.linspace(1, n, min(POINTS, n)).round().astype(int))
    cumulative = rewards.cumsum()
    record: Record = {
        "rounds": n,
        **_sizes(problem),
        "reward": float(cumulative[-1]),
        "regret": float(regrets.sum()),
        "best_reward": float(problem.best_rewards.sum()),
        "random_regret": float(problem.best_rewards.sum() - n * problem.uniform_reward),
        "optimal_rate": float(optimal.mean()),
        "curve_round": at.tolist(),
        "curve_reward": cumulative[at - 1].tolist(),
        "curve_regret": regrets.cumsum()[at - 1].tolist(),
        "curve_optimal": optimal.cumsum()[at - 1].tolist(),
        "traces": [{"name": name, "values": list(map(float, values))} for name, values in played.traces.items()],
        "memory_round": played.memory_rounds,
        "memory_mb": [size / 1e6 for size in played.memory_bytes],
        "agent_mb": max(played.memory_bytes) / 1e6 if played.memory_bytes else None,
        "notes": list(problem.notes),
        "changes": None if played.changes is None else len(played.changes),
        "false_changes": None if played.changes is None else false_changes(played.changes, problem.changes),
        "cpu_seconds": played.cpu_seconds,
    }
    spent = played.act_ns.copy()
    np.add.at(spent, played.learned_after - 1, played.update_ns)
    record["curve_seconds"] = (spent.cumsum()[at - 1] / 1e9).tolist()
    for word, times in (("act", played.act_ns), ("update", played.update_ns)):
        steady = times[int(WARM_UP * len(times)) :] if len(times) else np.zeros(1)  # all rewards may be too late
        record[f"{word}_us_mean"] = float(steady.mean()) / 1e3
        for name, quantile in QUANTILES.items():
            record[f"{word}_us_{name}"] = float(np.quantile(steady, quantile)) / 1e3
    record["us_per_round"] = record["act_us_mean"] + record["update_us_mean"]
    return record


def false_changes(reported: Sequence[int], real: Sequence[int]) -> int:
    """Return the number of reported changes that follow no real change within 2,000 rounds.

    Examples
    --------
    >>> false_changes([900, 1100, 2900, 3200], [1000])
    2
    """
    return sum(not any(0 < report - change <= REAL for change in real) for report in reported)
