"""Why a number here may differ from the published one: what is known, and nothing more."""

from __future__ import annotations

# Rewards that cannot be compared with the published ones at all, only their normalised scores.
INCOMPARABLE = {
    "Financial": "rewards depend on the eight strategies, which are drawn at random; the paper does not give its draw.",
    "Smartphones": "only 66 of the 561 features are here, so the problem is another one.",
}


def why(title: str, method: str) -> str:
    """Return why a cell differs from the published one.

    Parameters
    ----------
    title
        Of the dataset.
    method
        Which.
    """
    return METHODS.get(method) or DATASETS.get(title) or UNKNOWN


METHODS: dict[str, str] = {}
DATASETS: dict[str, str] = {}
UNKNOWN = "than published, and the cause is not known."
