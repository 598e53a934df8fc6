"""The spaces in which settings are searched."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lim2.algorithms import ALGORITHMS
from lim2.experiments.names import GIVEN, PlanError, agent_named, maker_of
from lim2.experiments.space import FIXED, RANGES, Choice, Range, defaults_of, space_of

TUNED = [name for name in ALGORITHMS if name not in ("Uniform",)]


@pytest.mark.parametrize("name", TUNED)
def test_every_setting_is_searched_or_said_not_to_be(name: str) -> None:
    agent = agent_named(name)
    space = space_of(agent)
    fields = {field.name for field in dataclasses.fields(ALGORITHMS[name])} - set(GIVEN["agent"])
    assert set(space) <= fields
    assert fields - set(space) <= set(FIXED)
    for setting, dimension in space.items():
        for value in dimension.examples:
            maker_of(agent)(3, 2, **{setting: value})
        default = defaults_of(agent)[setting]
        if isinstance(dimension, Range) and default:
            assert dimension.low <= default <= dimension.high, setting


def test_what_an_agent_was_given_is_not_searched() -> None:
    plain = agent_named("LinearTS")
    partly = plain.with_settings({"a0": 2.0, "initial_pulls": 3})
    assert {"prior_precision", "a0", "b0", "initial_pulls"} <= set(space_of(plain))
    assert set(space_of(plain)) - set(space_of(partly)) == {"a0", "initial_pulls"}


def test_vowpal_wabbit_and_agents_of_your_own(outside: Any) -> None:
    assert space_of(agent_named("outside_agents:Cycle")) == {"step": Range(1, 4, log=True)}
    pytest.importorskip("vowpalwabbit")
    assert set(space_of(agent_named("vw:squarecb"))) == {
        "gamma_scale", "gamma_exponent", "learning_rate", "interactions",
    }  # fmt: skip


def test_a_space_of_your_own() -> None:
    agent = agent_named("LiM2")
    own = {"steps": {"low": 1, "high": 3}, "learning_rate": {"low": 0.01, "high": 1, "log": True}}
    space = space_of(agent, {**own, "hidden": {"choices": [[50], [100, 50]]}})
    assert space == {
        "steps": Range(1, 3),
        "learning_rate": Range(0.01, 1, log=True),
        "hidden": Choice(([50], [100, 50])),
    }
    assert (Range(1, 3).whole, Range(0.5, 3).whole) == (True, False)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"stpes": {"low": 1, "high": 3}}, "has no setting 'stpes'; did you mean 'steps'"),
        ({"steps": 3}, r"\[tune.space.LiM2\] steps must be \{ low"),
        ({"steps": {"low": 3}}, "must be"),
        ({"steps": {"low": 3, "high": 1}}, "low must be below high, not 3 and 1"),
        ({"steps": {"low": 0, "high": 1, "log": True}}, "low must be above 0 with log = true"),
        ({"steps": {"low": "a", "high": "b"}}, "low and high must be numbers"),
        ({"steps": {"low": 1, "high": 3, "lgo": True}}, "unknown entry 'lgo'; did you mean"),
        ({"steps": {"choices": [1]}}, "choices must be at least two values"),
        ({}, "LiM2 has no settings to tune"),
    ],
)
def test_a_wrong_space_is_told(own: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        space_of(agent_named("LiM2"), own)
    with pytest.raises(PlanError, match="has the setting steps already"):
        space_of(agent_named("LiM2").with_settings({"steps": 2}), {"steps": {"low": 1, "high": 3}})
    with pytest.raises(PlanError, match="Uniform has no settings to tune"):
        space_of(agent_named("Uniform").with_settings({"initial_pulls": 1}))


def test_the_tables_do_not_contradict_each_other() -> None:
    assert not set(RANGES) & set(FIXED)
