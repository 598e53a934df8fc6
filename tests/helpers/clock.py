"""A clock that is set by hand."""


class Clock:
    """Seconds that pass when they are set."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
