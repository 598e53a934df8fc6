"""Tune an agent: search its settings on one part of a suite, and test the best of them on the other part.

Every run is a separate file and every trial a row of an SQLite database, so that the same call continues after a kill.
The settings of a trial depend only on the trials before it: an interrupted search ends with the same settings as an
uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import lim2
from lim2.experiments.backend import Backend, cores
from lim2.experiments.benchmark import carried_out, check_data
from lim2.experiments.local import Local
from lim2.experiments.names import PlanError, Spec, is_table
from lim2.experiments.plan import Plan, Run, canonical
from lim2.experiments.progress import Progress
from lim2.experiments.ranks import wilcoxon_p
from lim2.experiments.schedule import carry_out
from lim2.experiments.space import Range, Space, space_of
from lim2.experiments.stats import pooled_interval
from lim2.experiments.store import Store, read, writable, write
from lim2.experiments.suite import Suite
from lim2.experiments.tuned import Judged, Tuned

if TYPE_CHECKING:
    import optuna

RUNS, SEED = 2, 100_000  # of the tuning part, where the suite's file doesn't say
UNIFORM = Spec("Uniform", "Uniform")
SETTINGS, FAILED = "settings", "failed"  # what is noted of a trial

Said = Callable[[str], None]


def tune(
    agent: str,
    suite: Suite,
    *,
    trials: int = 50,
    out: Path | str = "tuning",
    jobs: int | None = None,
    seed: int = 0,
    report: bool = True,
    say: Said | None = None,
    command: Sequence[str] = (),
) -> Tuned:
    """Search an agent's settings on the tuning part of a suite, and test the best on the evaluation part.

    Parameters
    ----------
    agent
        Name of an agent, or of a variant in the suite.
    suite
        Suite with a part ``[tune]``. Its other problems and seeds are the evaluation part.
    trials
        Number of settings to try, including those of earlier calls.
    out
        Folder for the results: ``trials.sqlite``, ``tuning``, ``evaluation``, ``tuned.json``.
    jobs
        Number of processes. None: one per core.
    seed
        Seed of the search.
    report
        Whether to write the report of the evaluation, in addition to its results.
    say
        Function called with one line per trial.
    command
        Command line, for the report of the evaluation.
    """
    if trials < 1:
        raise PlanError(f"trials must be at least 1, got {trials}")
    base = suite.agent(agent)
    tuning, evaluation = parts(suite, base)
    own = suite.tune.space.get(base.label) if suite.tune else None
    space = space_of(base, own)
    for plan in (tuning, evaluation):
        check_data(plan)
    folder = writable(out)
    with _alone(folder), closing(Local(jobs or cores())) as backend:
        search = _Search(tuning, base, space, Store(folder / "tuning"), backend, seed, trials, say or (lambda _: None))
        default = search.score({})
        study = _study(folder, search)
        best, settings = search.run(study, default)
    judged = None
    if settings:
        judged = _judge(evaluation, base, settings, folder / "evaluation", jobs, report, command)
    found = Tuned(base.label, settings, trials, default, max(best, default), judged)
    write(folder / "tuned.json", (json.dumps(asdict(found), indent=1) + "\n").encode())
    return found


def parts(suite: Suite, agent: Spec) -> tuple[Plan, Plan]:
    """Return the tuning part and the evaluation part of a suite for one agent; they must be disjoint.

    Parameters
    ----------
    suite
        The suite.
    agent
        The agent.
    """
    if suite.tune is None or not suite.tune.problems:
        raise PlanError(f'{suite.path} has no problems to tune on; add [tune] with problems = ["..."]')
    if not suite.problems:
        raise PlanError(f"{suite.path} has no problems for the evaluation: add problems outside of [tune]")
    one = suite.tune
    tuning = _part(suite, agent, one.problems, one.rounds or suite.rounds, one.runs or RUNS, _or(one.seed, SEED))
    evaluation = _part(suite, agent, suite.problems, suite.rounds, suite.runs or 5, suite.seed or 0)
    _check_apart(suite, tuning, evaluation)
    return tuning, evaluation


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _part(suite: Suite, agent: Spec, words: Sequence[str], rounds: int | None, runs: int, seed: int) -> Plan:
    problems = tuple(suite.problems_of(words))
    return Plan(problems, (agent, UNIFORM), tuple(range(seed, seed + runs)), rounds)


def _check_apart(suite: Suite, tuning: Plan, evaluation: Plan) -> None:
    """Raise a `PlanError` if the two parts share a dataset or a seed."""
    judged = {_data(problem): problem.label for problem in evaluation.problems}
    for problem in tuning.problems:
        if _data(problem) in judged:
            raise PlanError(
                f"{suite.path}: {problem.label!r} of [tune] and {judged[_data(problem)]!r} of the evaluation part have "
                "the same data; settings tuned on a dataset cannot be tested on it. Remove it from one of the parts"
            )
    seeds = sorted(set(tuning.seeds) & set(evaluation.seeds))
    if seeds:
        raise PlanError(
            f"{suite.path}: seed {seeds[0]} is in the tuning part ({_span(tuning)}) and in the evaluation part "
            f"({_span(evaluation)}); give [tune] another seed"
        )


def _data(problem: Spec) -> str:
    """Return a key that is equal for problems with the same data: a fingerprint of the table, or the source."""
    return problem.fingerprint if is_table(problem.source) else problem.source


def _span(plan: Plan) -> str:
    return f"seeds {plan.seeds[0]} to {plan.seeds[-1]}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock of the folder, which the system releases when the process ends."""
    with closing(sqlite3.connect(folder / "lock.sqlite", timeout=0, isolation_level=None)) as held:
        try:
            held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise PlanError(f"another `lim2 tune` is running in {folder}: wait, or give another --out") from error
        yield


def shares(runs: pl.DataFrame, agent: str) -> pl.DataFrame:
    """Return the normalised score of an agent by problem and seed: 0 is the random policy, 1 the best arm every round.

    Parameters
    ----------
    runs
        Table of runs, including those of the random policy.
    agent
        Label of the agent.

    Examples
    --------
    >>> runs = pl.DataFrame({"problem": ["p", "p"], "agent": ["a", "Uniform"], "seed": [0, 0], "reward": [8.0, 4.0],
    ...                      "best_reward": [10.0, 10.0]})
    >>> shares(runs, "a")["share"].to_list()
    [0.6666666666666666]
    """
    keys = ["problem", "seed"]
    random = runs.filter(pl.col("agent") == UNIFORM.label).select(*keys, random="reward")
    joined = runs.filter(pl.col("agent") == agent).join(random, on=keys)
    # The denominator is that of the problem, not of a shuffle: a mean over seeds, as of rewards.
    span = (pl.col("best_reward") - pl.col("random")).mean().over("problem")
    gain = pl.col("reward") - pl.col("random")
    return joined.select(*keys, share=pl.when(span > 0).then(gain / span).otherwise(0.0)).sort(keys)


@dataclass(frozen=True)
class _Search:
    """A search: its plan, space and store."""

    plan: Plan
    agent: Spec
    space: Space
    store: Store
    backend: Backend
    seed: int
    trials: int
    say: Said

    @property
    def name(self) -> str:
        """Identity of the search: everything that determines its settings, except the number of trials."""
        decisive = {
            "version": lim2.__version__,
            "runs": [run.key for run in self.plan],
            "space": {name: repr(dimension) for name, dimension in self.space.items()},
            "seed": self.seed,
        }
        return hashlib.sha256(canonical(decisive).encode()).hexdigest()[:16]

    def score(self, settings: Mapping[str, Any]) -> float:
        """Run an agent with some settings on all problems and seeds, and return its mean score."""
        wanted = replace(self.plan, agents=(self.agent.with_settings(settings), UNIFORM))
        runs = list(wanted)
        todo = [run for run in runs if not self.store.has(run)]
        if todo:
            carry_out(todo, self.backend, self.store.put, Progress(todo), self.store.has)
        failed = [run for run in runs if not self.store.has(run)]
        if failed:
            raise TrialError(self._why(failed[0]))
        found = shares(self._read(runs), self.agent.label)
        return float(found.group_by("problem").agg(pl.col("share").mean())["share"].mean())  # type: ignore[arg-type]

    def _read(self, runs: Sequence[Run]) -> pl.DataFrame:
        """Return the results of runs under the current labels, which may differ from those in the files."""
        frames = [
            read([self.store.folder / "runs" / run.file]).with_columns(
                problem=pl.lit(run.label), agent=pl.lit(run.agent.label)
            )
            for run in runs
        ]
        return pl.concat(frames)

    def _why(self, run: Run) -> str:
        trace = read([self.store.folder / "failures" / run.file])["error"][0]
        return f"{run}: {trace.strip().splitlines()[-1]}"

    def run(self, study: optuna.Study, default: float) -> tuple[float, dict[str, Any]]:
        """Try settings until the number of trials is reached; return the best score and its settings."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        for trial in study.get_trials(deepcopy=False):
            if not trial.state.is_finished():  # its process was killed; what it tried is tried again
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        done = [t for t in study.get_trials(deepcopy=False) if t.value is not None or FAILED in t.user_attrs]
        best, settings = default, dict[str, Any]()
        for trial in done[: self.trials]:
            if trial.value is not None and trial.value > best:
                best, settings = trial.value, trial.user_attrs[SETTINGS]
        self.say(f"defaults: {default:.4f}" + (f"; {len(done)} trials are here already" if done else ""))
        for number in range(len(done), self.trials):
            study.sampler = optuna.samplers.TPESampler(seed=self.seed + number)
            asked = study.ask()
            tried = _suggested(asked, self.space)
            asked.set_user_attr(SETTINGS, tried)
            said = ", ".join(f"{key}={_short(value)}" for key, value in tried.items())
            try:
                score = self.score(tried)
            except TrialError as error:
                asked.set_user_attr(FAILED, str(error))
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
                self.say(f"trial {number + 1} of {self.trials}: failed with {said}: {error}")
                continue
            study.tell(asked, score)
            if score > best:
                best, settings = score, tried
            self.say(f"trial {number + 1} of {self.trials}: {score:.4f} (best {best:.4f}) {said}")
        return best, settings


class TrialError(RuntimeError):
    """An agent failed with the settings of a trial."""


def _study(folder: Path, search: _Search) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        study_name=f"{search.agent.label}-{search.name}",
        storage=f"sqlite:///{(folder / 'trials.sqlite').resolve()}",
        direction="maximize",
        load_if_exists=True,
    )


def _suggested(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Return the settings of a trial."""
    settings: dict[str, Any] = {}
    for name, dimension in space.items():
        if not isinstance(dimension, Range):
            texts = [json.dumps(value) for value in dimension.values]  # Optuna's choices are texts and numbers only
            settings[name] = json.loads(trial.suggest_categorical(name, texts))
        elif dimension.whole:
            settings[name] = trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log)
        else:
            number = trial.suggest_float(name, float(dimension.low), float(dimension.high), log=dimension.log)
            settings[name] = float(f"{number:.3g}")  # what is pasted is what was tried
    return settings


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _judge(
    plan: Plan,
    base: Spec,
    settings: Mapping[str, Any],
    out: Path,
    jobs: int | None,
    report: bool,
    command: Sequence[str],
) -> Judged:
    """Run the evaluation part with the default and the best settings, and compare them in pairs."""
    tuned = replace(base.with_settings(settings), label=f"{base.label} tuned")
    wanted = replace(plan, agents=(base, tuned, UNIFORM))
    results = carried_out(wanted, out, jobs=jobs, quiet=True, report=report, command=command)
    if len(results.failures):
        last = results.failures["error"][0].strip().splitlines()[-1]
        raise PlanError(f"{len(results.failures)} runs of the evaluation in {out} failed, the first with: {last}")
    keys = ["problem", "seed"]
    both = shares(results.runs, base.label).join(shares(results.runs, tuned.label), on=keys, suffix="_tuned")
    by_problem = both.partition_by("problem", maintain_order=True)
    differences = [(part["share_tuned"] - part["share"]).to_numpy() for part in by_problem]
    gaps = np.array([part.mean() for part in differences])
    difference, half = pooled_interval(differences)
    means = [[float(part[name].mean()) for part in by_problem] for name in ("share", "share_tuned")]  # type: ignore[arg-type]
    return Judged(
        problems=len(by_problem),
        runs=len(plan.seeds),
        default=float(np.mean(means[0])),
        tuned=float(np.mean(means[1])),
        difference=difference,
        half=half,
        better=int((gaps > 0).sum()),
        worse=int((gaps < 0).sum()),
        p=wilcoxon_p(means[1], means[0]),
    )
