"""Settings: what is refused, get_params, clone, and repr."""

from typing import Any

import numpy as np
import pytest
from helpers.variants import N_ARMS, N_FEATURES, VARIANTS, every_agent, make
from helpers.worlds import play

import lim2
from lim2.matching import Matching
from lim2.paper.lim2_variants import LiM2Variant
from lim2.representation import MLP, RMSProp


@every_agent
def test_get_params_returns_every_argument_as_given(variant: str) -> None:
    name, settings = VARIANTS[variant]
    params = make(variant, seed=12).get_params()
    given = {"n_arms": N_ARMS, "n_features": N_FEATURES, "seed": 12, **settings}
    assert {key: params[key] for key in given} == given
    assert all(params[key] is value for key, value in settings.items())
    assert params["epsilon"] == 0.0
    again = lim2.AGENTS[name](**params)
    assert again.get_params() == params


@every_agent
def test_a_clone_is_a_fresh_agent_with_the_same_settings(variant: str) -> None:
    agent, fresh = make(variant), make(variant)
    play(agent, 30)
    agent.add_arm("new")
    clone = agent.clone()
    assert (clone.rounds, clone.arms, clone.info, clone.metadata) == (0, (0, 1, 2), None, {})
    assert clone.get_params() == agent.get_params()
    assert clone.to_bytes() == fresh.to_bytes()
    assert play(clone, 40) == play(fresh, 40)


@every_agent
def test_repr_names_the_agent_and_what_differs_from_the_defaults(variant: str) -> None:
    name, settings = VARIANTS[variant]
    agent = make(variant, seed=12)
    text = repr(agent)
    assert text.startswith(f"{name}(n_arms=3, n_features=4")
    assert text.count("seed=12") == 1
    assert ", epsilon=0" not in text  # an optimizer may have one of its own
    assert "a0" not in text
    for key in settings:
        assert f"{key}=" in text


def test_repr_says_what_matters() -> None:
    assert repr(lim2.LiM2(3, 4)) == "LiM2(n_arms=3, n_features=4)"
    assert repr(lim2.LiM2(3, 4, matching=None, hidden=20)) == "LiM2(n_arms=3, n_features=4, hidden=20, matching=None)"
    assert repr(lim2.LiM2(3, 4, hidden=(50,), standardize=False)) == "LiM2(n_arms=3, n_features=4)"
    assert repr(lim2.LinearTS(arms=["a", "b"], n_features=1)) == "LinearTS(n_features=1, arms=['a', 'b'])"
    given = repr(lim2.LiM2(3, 4, representation=MLP((7,), RMSProp(keep=0.5), init_range=0.1)))
    assert given.startswith("LiM2(n_arms=3, n_features=4, representation=MLP(hidden=(7,)")
    assert "learning_rate=0.1," in given  # of the optimizer
    assert "keep=0.5" in given
    assert "init_range=0.1" in given


@every_agent
def test_repr_can_be_evaluated_where_settings_are_plain(variant: str) -> None:
    if "representation" in VARIANTS[variant][1]:
        pytest.skip("a module of one's own")
    agent = make(variant, seed=3)
    again = eval(repr(agent), {VARIANTS[variant][0]: lim2.AGENTS[VARIANTS[variant][0]], "Matching": Matching})
    assert again.get_params() == agent.get_params()


def test_settings_cannot_be_changed() -> None:
    agent = make("LiM2")
    with pytest.raises(AttributeError):
        agent.algorithm.steps = 3  # type: ignore[attr-defined]
    params = agent.get_params()
    params["steps"] = 3
    assert agent.get_params()["steps"] == 1


def test_arms_that_can_be_read_only_once_are_kept() -> None:
    agent = lim2.LinearTS(arms=(name for name in "ab"), n_features=1)
    assert list(agent.get_params()["arms"]) == ["a", "b"]
    assert agent.clone().arms == ("a", "b")


@pytest.mark.parametrize("name", lim2.AGENTS)
@pytest.mark.parametrize(
    "bad", [{"n_arms": 0}, {"n_arms": 2.5}, {"n_features": -1}, {"n_features": "4"}, {"n_arms": None}], ids=str
)
def test_bad_sizes_are_refused(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        lim2.AGENTS[name](**{"n_arms": N_ARMS, "n_features": N_FEATURES, **bad})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"matching": "bach"}, "'batch'"),
        ({"exploration": "greedy"}, "'thompson'"),
        ({"buffer": 0}, "buffer"),
        ({"batch": 0}, "batch"),
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"hidden": ()}, "hidden"),
        ({"hidden": (0,)}, "hidden"),
        ({"prior_precision": 0.0}, "prior_precision"),
        ({"a0": -1.0}, "a0"),
        ({"b0": np.nan}, "b0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"matching": 0.01}, "matching"),
        ({"matching": Matching}, "matching"),
        ({"initial_pulls": -1}, "initial_pulls"),
        ({"hidden": (50.7,)}, "hidden"),
        ({"hidden": "50"}, "hidden"),
        ({"learning_rate": np.inf}, "learning_rate"),
        ({"prior_precision": "1"}, "prior_precision"),
        ({"exploration": 5}, "exploration"),
        ({"representation": MLP}, "representation"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lim2.LiM2(N_ARMS, N_FEATURES, **bad)


@pytest.mark.parametrize(
    "bad",
    [
        ("pgd", {}),
        ("batch", {"rate": -1.0}),
        ("batch", {"rate": "0.01"}),
        ("batch", {"rate": np.inf}),
        ("batch", {"clip": 0.0}),
    ],
    ids=str,
)
def test_bad_settings_of_matching_are_refused(bad: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad[1]), "'batch'")):
        Matching(bad[0], **bad[1])


@pytest.mark.parametrize("bad", [{"refresh": "none"}, {"noise": "all"}], ids=str)
def test_bad_settings_of_a_variant_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        LiM2Variant(N_ARMS, N_FEATURES, **bad).validate()


def test_an_unknown_setting_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="bufer"):
        lim2.LiM2(2, 3, bufer=3)  # type: ignore[call-overload]
