"""An algorithm of one's own is benched like an agent of lim2: the class itself, or what makes agents of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lim2.agent import Agent
from lim2.agents import agent_of
from lim2.algorithms import LinearTS
from lim2.experiments import bench
from lim2.experiments.names import PlanError, agent_named, given, maker_of

OWN = '''
from dataclasses import dataclass

from lim2.agent import Agent
from lim2.agents import agent_of
from lim2.algorithms import LinearTS


@dataclass(frozen=True, kw_only=True, eq=False)
class Curious(LinearTS):
    """LinearTS that starts from less."""

    prior_precision: float = 0.01


make = agent_of(Curious)
'''


@pytest.fixture
def own(outside: Path) -> Iterator[Path]:
    path = outside / "own_algorithm.py"
    path.write_text(OWN)
    yield path
    sys.modules.pop("own_algorithm", None)


@pytest.mark.parametrize("name", ["Curious", "make"])
def test_an_algorithm_in_a_file_plays(own: Path, name: str) -> None:
    variants = {"own": (f"own_algorithm:{name}", {"initial_pulls": 3}), "LinearTS": ("LinearTS", {})}
    results = bench(["wheel"], variants, rounds=60, runs=1, jobs=1, quiet=True, report=False, out=own.parent / "out")
    assert set(results.runs["agent"]) == {"own", "LinearTS", "Uniform"}
    assert not len(results.failures)
    agent = maker_of(agent_named(f"own_algorithm:{name}"))(2, 3, seed=0)
    assert isinstance(agent, Agent)
    assert (agent.name, agent.get_params()["prior_precision"]) == ("Curious", 0.01)


def test_its_settings_are_checked(own: Path) -> None:
    variants = {"own": ("own_algorithm:Curious", {"prior_precison": 1.0})}
    with pytest.raises(PlanError, match="did you mean 'prior_precision'"):
        bench(["wheel"], variants, rounds=60, runs=1, quiet=True, out=own.parent / "out")


def test_it_is_known_by_the_file_that_defines_it(own: Path) -> None:
    before = [agent_named(f"own_algorithm:{name}").fingerprint for name in ("Curious", "make")]
    assert before[0] == before[1]
    own.write_text(OWN.replace("0.01", "0.02"))
    assert agent_named("own_algorithm:make").fingerprint != before[1]


def test_what_makes_agents_is_named_after_its_algorithm() -> None:
    class Own(LinearTS):
        pass

    for thing in (Own, agent_of(Own)):
        spec = given(thing)
        assert spec.source == f"{__name__}:{Own.__qualname__}"
        assert isinstance(maker_of(spec)(2, 3, seed=0), Agent)
