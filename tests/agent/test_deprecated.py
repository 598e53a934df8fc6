"""TransportTS, a name that is kept for one version: it makes an AdaptiveTS, and its files and settings are refused."""

from typing import Any

import pytest

import lim2
from lim2.agents import _GONE, _INSTEAD
from lim2.experiments.benchmark import planned
from lim2.experiments.names import PlanError
from lim2.loading import dump, parse
from lim2.persistence.container import pack, unpack


def test_the_name_makes_an_adaptive_agent_and_warns() -> None:
    message = "TransportTS was replaced by AdaptiveTS, and the name will be removed in 0.3"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        agent = lim2.TransportTS(3, 4, hidden=(6,), change_threshold=2.0, seed=0)
    assert caught[0].filename == __file__
    assert agent.name == "AdaptiveTS"
    assert agent.get_params() == lim2.AdaptiveTS(3, 4, hidden=(6,), change_threshold=2.0, seed=0).get_params()


@pytest.mark.parametrize("name", _GONE)
def test_settings_that_went_with_it_are_refused(name: str) -> None:
    instead = _INSTEAD.get(name, "AdaptiveTS has no counterpart").split(" (")[0]
    with pytest.raises(TypeError, match=f"the setting '{name}' was removed together with TransportTS: .*{instead}"):
        lim2.TransportTS(3, 4, **{name: 1})
    assert name not in lim2.AdaptiveTS(3, 4).get_params()


def test_it_is_no_agent_that_can_be_named_or_planned() -> None:
    assert "TransportTS" not in lim2.AGENTS
    named: list[Any] = ["TransportTS", "transportts", "lim2:TransportTS", lim2.TransportTS]
    for agent in named:
        with pytest.raises(PlanError, match="TransportTS is gone: name AdaptiveTS, which replaces it"):
            planned(["wheel"], [agent], rounds=10, runs=1)


def test_its_files_are_refused() -> None:
    header, arrays = unpack(dump(lim2.LinearTS(2, 3, seed=0)))
    with pytest.raises(lim2.LoadError, match="TransportTS was replaced by AdaptiveTS, which cannot load its files"):
        parse(pack({**header, "agent": "TransportTS"}, arrays))
