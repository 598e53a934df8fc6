"""What goes wrong with a decision log, said so that it can be put right."""


class LogError(ValueError):
    """The log and what was asked of it do not go together."""


class UnknownDecisionError(LogError):
    """No decision of this id is in the log."""


class ConflictingRewardError(LogError):
    """A decision that has a reward was given a different one."""


class PrunedLogError(LogError):
    """What is needed has been deleted, as `keep` said."""
