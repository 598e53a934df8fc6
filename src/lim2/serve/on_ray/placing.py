"""Which bandit a request is about, and which replica should answer for it."""

import hashlib
from urllib.parse import unquote

BANDITS = "/v1/bandits/"


def bandit_of(path: str) -> str | None:
    """Return the name of the bandit that a path is about; None if it is about none, or about Personalizer's.

    Every replica has the bandit behind Personalizer's endpoints open, so that any of them may answer.

    Examples
    --------
    >>> bandit_of("/v1/bandits/shop-17/decide"), bandit_of("/v1/bandits"), bandit_of("/personalizer/v1.0/rank")
    ('shop-17', None, None)
    """
    if not path.startswith(BANDITS):
        return None
    return unquote(path[len(BANDITS) :].partition("/")[0]) or None


def preferred(name: str, replicas: list[str]) -> list[str]:
    """Return replicas in the order in which they should answer for a bandit.

    Rendezvous hashing: every sender finds the same order, and when a replica comes or goes, only its bandits move.

    Examples
    --------
    >>> preferred("shop-1", ["a", "b", "c"]), preferred("shop-1", ["c", "a"])
    (['a', 'c', 'b'], ['a', 'c'])
    """
    return sorted(replicas, key=lambda one: hashlib.blake2b(f"{one} {name}".encode("utf-8", "replace")).digest())
