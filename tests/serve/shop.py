"""A simulated shop: who comes, what is offered, who buys; the same for every client."""

from typing import Any

import numpy as np

KINDS = ("sport", "news", "music", "food")


class Shop:
    """Visitors with a taste that their country and device tell.

    Parameters
    ----------
    seed
        The same seed gives the same visitors.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def visitor(self) -> dict[str, Any]:
        return {"country": str(self._rng.choice(["AT", "DE"])), "device": str(self._rng.choice(["phone", "laptop"]))}

    def offers(self) -> dict[str, dict[str, Any]]:
        kinds = self._rng.permutation(KINDS)
        return {
            f"{kind}-{int(self._rng.integers(100))}": {"kind": str(kind), "price": round(float(self._rng.random()), 2)}
            for kind in kinds
        }

    def chance(self, visitor: dict[str, Any], offer: dict[str, Any]) -> float:
        liked = KINDS[2 * (visitor["country"] == "AT") + (visitor["device"] == "phone")]
        return 0.8 if offer["kind"] == liked else 0.1

    def buys(self, visitor: dict[str, Any], offer: dict[str, Any]) -> float:
        return float(self._rng.random() < self.chance(visitor, offer))
