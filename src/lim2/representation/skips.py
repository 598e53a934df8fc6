"""One rule for training steps whose gradient is not finite, whatever the network."""

import logging

# After so many in a row the network is beyond recovery, and going on would hide it.
PATIENCE = 100

_logger = logging.getLogger("lim2")


class Skips:
    """Counts the steps that were left out because their gradient was not finite.

    One bad batch must not stop an agent that serves: its step is left out, counted and warned about, and the rest of
    the update happens. A network that cannot take a step any more is an error.

    Attributes
    ----------
    total, in_a_row
        How many steps were left out, and how many since the last that was taken.
    """

    def __init__(self) -> None:
        self.total = 0
        self.in_a_row = 0

    def skip(self, norm: float, advice: str) -> None:
        """Leave a step out, or raise FloatingPointError and change nothing if there were too many in a row."""
        if self.in_a_row >= PATIENCE:
            raise FloatingPointError(
                f"training diverged: the gradient's norm is {norm:.3g}, and the {PATIENCE} steps before could not be "
                f"taken either. {advice}"
            )
        self.total += 1
        self.in_a_row += 1
        if self.in_a_row & (self.in_a_row - 1) == 0:  # the 1st, 2nd, 4th, ... in a row
            _logger.warning(
                "a training step was left out, the %d. in a row: its gradient's norm is %.3g. %s",
                self.in_a_row, norm, advice,
            )  # fmt: skip

    def __repr__(self) -> str:
        return f"Skips(total={self.total}, in_a_row={self.in_a_row})"
