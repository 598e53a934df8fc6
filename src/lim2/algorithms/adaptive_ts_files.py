"""Files of AdaptiveTS that earlier versions wrote: leaves and settings as those of today."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2.algorithms.scale_free_prior import A0, LINEAR_A0
from lim2.checks import LARGEST

OLD_DEFAULTS = {"change_threshold": (3.0, 6.0), "temperature": (0.1,)}  # that have changed
DROPPED = ("moved", "lengths", "older", "oldest", "keep", "rounds", "testing")


def is_old(leaves: Mapping[str, Any]) -> bool:
    """Return whether an earlier version has written the leaves of a state."""
    return "precision" not in leaves


def converted(leaves: Mapping[str, Any], columns: int, has_linear: bool) -> dict[str, Any]:
    """Return the leaves of an old state as those of today, for an agent that is then fitted again."""
    new = {path: leaf for path, leaf in leaves.items() if not path.startswith("width/")}
    new["precision"] = np.ones(leaves["evicted/cross"].shape[-1])
    return _of_the_first_version(new, columns, has_linear) if "posterior/mu" in leaves else new


def _of_the_first_version(leaves: Mapping[str, Any], columns: int, has_linear: bool) -> dict[str, Any]:
    """Return the leaves of a state of lim2 0.2, which had beliefs of two views."""
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
    new |= {"rewards/low": -LARGEST, "rewards/high": LARGEST}
    new |= {"delays/newest": old["memory/stored"], "delays/longest": 0, "delays/before": 0, "view/order": None}
    if old["view/projection"] is not None:  # sums of projections say nothing of columns
        new |= {"view/order": np.arange(columns)}
        new |= {path: np.zeros_like(leaf) for path, leaf in new.items() if path.startswith("evicted/")}
    return new
