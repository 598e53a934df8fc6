"""The known reasons why a number here differs from the published one."""

from __future__ import annotations

# Rewards that cannot be compared with the published ones at all, only their normalised scores.
INCOMPARABLE = {
    "Financial": "rewards depend on the eight strategies, which are drawn at random; the paper does not give its draw.",
    "Smartphones": "only 66 of the 561 features are available here, so the problem is a different one.",
}
UNKNOWN = "than published; the cause is not known."
GRADIENT_BANDITS = (
    "than published. Here contexts are scaled to norm 1. Without that, training with the published rate diverges, and "
    "what is left is the policy that plays arm 0 (see the section on NeuralUCB and NeuralTS)."
)
METHODS = {"NeuralUCB": GRADIENT_BANDITS, "NeuralTS": GRADIENT_BANDITS}
DATASETS = {
    "Census": "than published. The file used here has the first 15,317 of 2,458,285 rows. This is the likely cause, "
    "but it was not tested.",
    "Amazon": "than published. The file used here has 10,000 of 413,840 reviews, and fewer with five stars (50% "
    "against 54%).",
}


def why(title: str, method: str) -> str:
    """Return why a cell differs from the published one."""
    return METHODS.get(method) or DATASETS.get(title) or UNKNOWN
