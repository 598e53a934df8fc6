"""AdaptiveTS without a part of it that is no setting, for `lim2 bench` and `benchmarks.calibration`."""

from dataclasses import dataclass
from functools import cached_property

from lim2.algorithms import AdaptiveTS
from lim2.algorithms.adaptive_ts import ForItems, State


@dataclass(frozen=True, kw_only=True, eq=False)
class OneBelief(AdaptiveTS):
    """With the full regression alone, without the linear one."""

    def _share(self, state: State | ForItems) -> float:  # noqa: ARG002
        return 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkAlone(AdaptiveTS):
    """With a hidden layer and a constant as features, as where contexts are texts or images."""

    @cached_property
    def linear(self) -> int:
        """No feature is the context's own."""
        return 0
