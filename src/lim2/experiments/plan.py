"""Plans: problems x agents x seeds, with delays and batches. A run is identified by all that determines its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.names import PlanError, Spec, check_settings, is_table, with_data
from lim2.problems.registry import find

FORMAT = 2  # of a run's file; a change makes all runs new


@dataclass(frozen=True)
class Run:
    """One agent on one draw of one problem.

    Parameters
    ----------
    rounds
        Number of rounds; ``"all"``: every row of a table.
    seed
        Seed of the problem and the agent; all agents with the same seed play the same shuffle.
    feedback
        Delay and batch of the rewards.
    """

    problem: Spec
    agent: Spec
    rounds: int | str
    seed: int
    feedback: Feedback = IMMEDIATE

    @cached_property
    def key(self) -> str:
        """Digest of everything that determines the result, and of nothing else: labels may change."""
        decisive = {
            "format": FORMAT,
            "problem": _decisive(self.problem),
            "agent": _decisive(self.agent),
            "rounds": self.rounds,
            "seed": self.seed,
            **self.feedback.changes,  # nothing where every reward is learned at once: runs from before it still count
        }
        return hashlib.sha256(canonical(decisive).encode()).hexdigest()[:16]

    @property
    def file(self) -> str:
        """Name of the run's file: readable parts, and the key."""
        late = [short(self.feedback.text)] if self.feedback.text else []
        words = (short(self.problem.source), *late, short(self.agent.source), str(self.seed), self.key)
        return f"{'_'.join(words)}.parquet"

    @property
    def label(self) -> str:
        """Label of the problem with delay and batch, which tables and figures never mix."""
        return self.feedback.labelled(self.problem.label)

    def __str__(self) -> str:
        return f"{self.label} / {self.agent.label} / seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Problems x agents x seeds, once for each way of learning rewards.

    Parameters
    ----------
    rounds
        Number of rounds of each problem, in order; None: its own number.
    feedbacks
        Delays and batches of the rewards; several to compare.
    skipped
        Labels of problems and agents that are not combined.
    """

    problems: tuple[Spec, ...]
    agents: tuple[Spec, ...]
    seeds: tuple[int, ...]
    rounds: int | None = None
    feedbacks: tuple[Feedback, ...] = (IMMEDIATE,)
    skipped: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "problems", tuple(map(with_data, self.problems)))
        for kind, specs in (("problem", self.problems), ("agent", self.agents)):
            if not specs:
                raise PlanError(f"no {kind} to run; name at least one")
            labels = [spec.label for spec in specs]
            for label in labels:
                if labels.count(label) > 1:
                    raise PlanError(f"two {kind}s have the name {label!r}; give each variant a distinct name")
            for spec in specs:
                check_settings(spec, kind)
        if not self.seeds:
            raise PlanError("runs must be at least 1")
        if min(self.seeds) < 0:
            raise PlanError(f"the seed must be at least 0, got {min(self.seeds)}")
        if self.rounds is not None and self.rounds < 1:
            raise PlanError(f"rounds must be at least 1, got {self.rounds}")
        played = [feedback.labelled(problem.label) for problem in self.problems for feedback in self.feedbacks]
        for label in played:
            if played.count(label) > 1:
                raise PlanError(f"two problems would have the name {label!r}, with delay and batch; rename the variant")
        for feedback in self.feedbacks:
            for problem in self.problems if feedback != IMMEDIATE else ():
                rounds = rounds_of(problem, self.rounds)
                if isinstance(rounds, int):  # else it is known when the table is read
                    feedback.check(rounds, problem.label)

    def part(self, problems: Sequence[str], agents: Sequence[str]) -> Plan | None:
        """Return the part with some problems and agents, and the random policy; an empty list means all.

        None: the plan has none of them.
        """
        some = tuple(problem for problem in self.problems if not problems or problem.label in problems)
        players = tuple(agent for agent in self.agents if not agents or agent.label in agents)
        if not some or not players:
            return None
        random = tuple(agent for agent in self.agents if agent.source == "Uniform" and agent not in players)
        return replace(self, problems=some, agents=(*players, *random))

    @property
    def shorter(self) -> dict[str, int]:
        """Problems with fewer rounds than given, by label, and their numbers of rounds."""
        found = {problem.label: rounds_of(problem, self.rounds) for problem in self.problems if self.rounds is not None}
        return {label: rounds for label, rounds in found.items() if isinstance(rounds, int) and rounds != self.rounds}

    def __len__(self) -> int:
        pairs = sum((problem.label, agent.label) not in self.skipped for problem, agent in self._pairs())
        return pairs * len(self.seeds) * len(self.feedbacks)

    def _pairs(self) -> Iterator[tuple[Spec, Spec]]:
        return product(self.problems, self.agents)

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs seed by seed, so that partial results are comparable."""
        for seed in self.seeds:
            for problem in self.problems:
                for feedback in self.feedbacks:
                    for agent in self.agents:
                        if (problem.label, agent.label) in self.skipped:
                            continue
                        yield Run(problem, agent, rounds_of(problem, self.rounds), seed, feedback)


def rounds_of(problem: Spec, asked: int | None) -> int | str:
    """Return the number of rounds to play: as given, but no more than a dataset has rows."""
    most = most_rounds(problem)
    if asked is not None:
        return asked if most is None else min(asked, most)
    if is_table(problem.source):
        return "all"
    if ":" in problem.source:
        raise PlanError(f"{problem.label!r} has no default number of rounds: give --rounds")
    return find(problem.source).rounds


def most_rounds(problem: Spec) -> int | None:
    """Return the number of rounds of a problem; None if it is unlimited or unknown."""
    if problem.rows is not None or ":" in problem.source or problem.settings.get("replace"):
        return problem.rows
    facts = find(problem.source).facts
    return facts.most_rounds if facts else None


def with_uniform(agents: Sequence[Spec]) -> tuple[Spec, ...]:
    """Return the agents with Uniform among them: the normalised score needs it."""
    if any(agent.source == "Uniform" for agent in agents):
        return tuple(agents)
    return (*agents, Spec("Uniform", "Uniform"))


def canonical(value: Any) -> str:
    """Return one text for equal settings: sorted JSON, tuples as lists.

    Examples
    --------
    >>> canonical({"b": (1, 2), "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_described)


def short(source: str) -> str:
    """Return a source as a part of a file's name.

    Examples
    --------
    >>> short("csv:/home/me/My table.csv"), short("vw:squarecb")
    ('My-table', 'vw-squarecb')
    """
    if source.startswith("csv:"):
        source = re.split(r"[/\\]", source)[-1].rpartition(".")[0]
    return re.sub(r"[^A-Za-z0-9.-]+", "-", source).strip("-")


def _decisive(spec: Spec) -> Mapping[str, Any]:
    # Data are known by what is in their files, wherever they lie.
    source = "csv" if spec.source.startswith("csv:") else spec.source
    settings = {key: value for key, value in spec.settings.items() if key != "data"}
    return {"source": source, "settings": settings, "fingerprint": spec.fingerprint}


def _described(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    text = repr(value)
    if " at 0x" in text:
        raise PlanError(
            f"the setting {text} has no stable repr, so its results could not be found again; "
            "give its class a __repr__ that names its own settings"
        )
    return {"repr": text}
