"""Why a number here may differ from the published one: what is known, and nothing more."""

from __future__ import annotations

# Rewards that cannot be compared with the published ones at all, only their normalised scores.
INCOMPARABLE = {
    "Financial": "rewards depend on the eight strategies, which are drawn at random; the paper does not give its draw.",
    "Smartphones": "only 66 of the 561 features are here, so the problem is another one.",
}
UNKNOWN = "than published, and the cause is not known."
GRADIENT_BANDITS = (
    "than published, and the cause is not known. Contexts are scaled to norm 1 here, because the published rate "
    "diverges on standardised ones; the paper does not say what its runs did."
)
METHODS = {"NeuralUCB": GRADIENT_BANDITS, "NeuralTS": GRADIENT_BANDITS}
DATASETS = {
    "Census": "than published. The file here is the first 15,317 of 2,458,285 rows. The neural methods are a few "
    "percent lower, LinearTS is not, and the order is the same; that the sample is the cause is likely, not shown.",
    "Amazon": "than published. The file here is 10,000 of 413,840 reviews, with fewer of five stars (50% against 54%).",
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
