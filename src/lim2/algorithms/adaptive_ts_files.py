"""Files of AdaptiveTS that lim2 0.2 wrote: its leaves and settings as those of today."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2.algorithms.scale_free_prior import A0, LINEAR_A0
from lim2.checks import LARGEST

OLD_THRESHOLD = 3.0  # of the change test
DROPPED = ("moved", "lengths", "older", "oldest", "keep", "rounds", "testing")


def is_old(leaves: Mapping[str, Any]) -> bool:
    """Return whether lim2 0.2 has written the leaves of a state."""
    return "posterior/mu" in leaves


def has_two_views(leaves: Mapping[str, Any]) -> bool:
    """Return whether the beliefs of an old state are about the features of several views, or of a projection."""
    return "before" not in leaves or leaves["view/projection"] is not None


def converted(leaves: Mapping[str, Any], columns: int, has_linear: bool) -> dict[str, Any]:
    """Return the leaves of an old state as those of today."""
    old = dict(leaves)
    new = {path: leaf for path, leaf in old.items() if not path.startswith(("before", "posterior/", "view/proj"))}
    for name in DROPPED:
        del new[name]
    new |= {f"full/{name}": old[f"posterior/{name}"] for name in ("mu", "root", "a", "b")}
    if has_linear:  # the prior of its noise has more weight now
        new |= {"linear/a": old["linear/a"] + (LINEAR_A0 - A0)}
        new |= {"linear/b": old["linear/b"] + (LINEAR_A0 - A0) * old["noise"]}
    else:
        new = {path: leaf for path, leaf in new.items() if not path.startswith("linear/")} | {"linear": None}
    new |= {"width/context": 1.0, "width/constant": 1.0, "rewards/low": -LARGEST, "rewards/high": LARGEST}
    new |= {"delays/newest": old["memory/stored"], "delays/longest": 0, "delays/before": 0, "view/order": None}
    if old["view/projection"] is not None:  # sums of projections say nothing of columns
        new |= {"view/order": np.arange(columns)}
        new |= {path: np.zeros_like(leaf) for path, leaf in new.items() if path.startswith("evicted/")}
    return new
