"""AdaptiveTS without a part of it that is no setting, for `lim2 bench` and `benchmarks.calibration`."""

from dataclasses import dataclass
from functools import cached_property

from lim2.algorithms import AdaptiveTS
from lim2.algorithms.adaptive_state import ForItems, State
from lim2.exploration import StudentT, roots
from lim2.exploration.roots import Scorer
from lim2.state import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class OneBelief(AdaptiveTS):
    """Without the beliefs that do without the hidden layer."""

    def _score(self, state: State | ForItems, posterior: Scorer, linear: Scorer, z: Array) -> StudentT:  # noqa: ARG002
        return roots.score(posterior, z)


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkAlone(AdaptiveTS):
    """With a hidden layer and a constant as features, as where contexts are texts or images."""

    @cached_property
    def linear(self) -> int:
        """No feature is the context's own."""
        return 0
