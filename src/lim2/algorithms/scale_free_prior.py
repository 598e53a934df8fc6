"""The start of AdaptiveTS in the scales of the data, as ``docs/concepts/agent.md`` has it."""

TURNS = 24  # at the start, all arms together
A0 = 15.0  # the noise of an arm starts at InvGamma(A0, A0 s^2), with s the standard deviation of the rewards
LINEAR_A0 = 60.0  # of the linear regression, about the noise of all arms: no click yet is no sign of little noise
ARMS_PER_VARIANCE = 6.0
ITEM_VARIANCE = 0.2  # of items, which share one belief: most of what makes rewards differ is noise
TEMPERATURE, OPTIMISM = 0.1, 0.4  # a score is drawn as mean + scale * (OPTIMISM + TEMPERATURE * t)


def turns_of(n_arms: int) -> int:
    """Return the number of initial pulls of every arm: more if there are few arms."""
    return max(TURNS // n_arms, 2)


def variance_of(n_arms: int) -> float:
    """Return the variance of what a group of features adds to a score, in units of that of the rewards.

    It is larger where there are many arms: the one that is right may then be far above what is usual.
    """
    return max(n_arms / ARMS_PER_VARIANCE, 1.0)
