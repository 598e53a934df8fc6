"""Arms that come and go while the service runs: events of the log, which every learner meets in their places.

A change is made to the latest model first, in a copy: what that refuses is not written down. Whichever process the
request has reached can do so. The learner takes the change over from the log, and deciders from the snapshot that it
posts.
"""

from typing import Any, Literal

from lim2.bandit import Bandit
from lim2.bandit.rows import NAME, with_key
from lim2.log.learning import position_of
from lim2.serve.bandits import DecidingBandit
from lim2.serve.errors import ApiError, bad_request, not_found, refusals, shortened
from lim2.serve.wire import MOST

BATCH: Literal["auto"] = "auto"  # as the learner learns


def add(hosted: DecidingBandit, name: str, like: str | None, features: dict[str, Any] | None) -> tuple[bool, list[str]]:
    """Add an arm; return whether it is new, and all arms. An arm that is there already stays as it is."""
    with refusals("an arm"):
        bandit = _latest(hosted)
        new = name not in _arms(bandit)
        if new:
            if len(_arms(bandit)) >= MOST:
                raise bad_request(f"a bandit has at most {MOST} arms: remove one first", "name")
            new = hosted.log.add_arm(bandit, name, like, features=features, batch=BATCH)
            hosted.reach(position_of(bandit))
        elif features is not None and bandit.features.get(name) != with_key(features, NAME, name):
            raise ApiError(409, "InvalidRequest", f"there is an arm {shortened(name)}, with other features", "name")
        return new, _arms(bandit)


def remove(hosted: DecidingBandit, name: str) -> None:
    """Remove an arm; what it has earned, and will, is no longer learned."""
    with refusals("an arm"):
        bandit = _latest(hosted)
        if name not in _arms(bandit):
            raise not_found(f"there is no arm {shortened(name)}")
        hosted.log.remove_arm(bandit, name, batch=BATCH)
        hosted.reach(position_of(bandit))


def _latest(hosted: DecidingBandit) -> Bandit:
    """Return a copy of the model that has learned all that the log has."""
    bandit = hosted.model()
    if bandit.arms is None:
        raise bad_request("the items of this bandit come with every call: it has no arms of its own")
    return bandit


def _arms(bandit: Bandit) -> list[str]:
    return [str(arm) for arm in bandit.arms or ()]
