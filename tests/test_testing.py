"""The public conformance check: every agent of lim2 passes it, and each rule can be broken."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.variants import VARIANTS, every_agent

import lim2
from lim2.algorithms import LinearTS
from lim2.testing import check_algorithm


@every_agent
def test_every_agent_passes(variant: str) -> None:
    name, settings = VARIANTS[variant]
    check_algorithm(lim2.AGENTS[name], **settings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Impure(LinearTS):
    def learn(self, state: Any, *args: Any) -> Any:
        result = super().learn(state, *args)
        state.posterior.mu.flags.writeable = True
        state.posterior.mu[:] += 1.0
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Unseeded(LinearTS):
    def learn(self, state: Any, context: Any, arm: Any, reward: Any, rng: Any) -> Any:
        return super().learn(state, context, arm, reward + np.random.default_rng().normal(), rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class Uneven(LinearTS):
    def score(self, state: Any, contexts: Any) -> Any:
        score = super().score(state, contexts)
        return score if contexts.ndim == 1 else score._replace(mean=score.mean + 1.0)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (Impure, "never writes to a state"),
        (Unseeded, "the same seed gives the same decisions"),
        (Uneven, "rows of contexts are scored like single ones"),
    ],
)
def test_an_algorithm_that_breaks_a_rule_is_told_which(kind: Any, rule: str) -> None:
    with pytest.raises(AssertionError, match=f"{kind.__name__} breaks the rule “.*{rule}"):
        check_algorithm(kind)
