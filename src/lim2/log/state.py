"""What there is to watch about a log."""

from __future__ import annotations

from dataclasses import dataclass

from lim2.log.store import Store


@dataclass(frozen=True)
class LogState:
    """What a log holds.

    Parameters
    ----------
    pending
        Decisions that wait for their reward.
    oldest_pending
        Seconds that the oldest of them has waited; None if none does.
    rewards, defaults, dropped, discarded
        What became of the settled decisions that are still in the file.
    late
        Rewards that came after their decision had been settled otherwise.
    position
        Of the last event. What an agent is behind is this minus its ``metadata["log_position"]``.
    pruned
        The last position that has been deleted; 0 if none has.
    nbytes
        Size of the file, without the WAL beside it.
    """

    pending: int
    oldest_pending: float | None
    rewards: int
    defaults: int
    dropped: int
    discarded: int
    late: int
    position: int
    pruned: int
    nbytes: int


def read_state(store: Store, now: float) -> LogState:
    """Return what a log holds.

    Parameters
    ----------
    store
        The file.
    now
        The time.
    """
    waiting, since = store.read("SELECT count(*), min(time) FROM decisions WHERE settled IS NULL")[0]
    kinds = dict(store.read("SELECT kind, count(*) FROM events GROUP BY kind"))
    return LogState(
        pending=waiting,
        oldest_pending=None if since is None else now - since,
        rewards=kinds.get("reward", 0),
        defaults=kinds.get("default", 0),
        dropped=kinds.get("dropped", 0),
        discarded=kinds.get("discarded", 0),
        late=store.meta("late"),
        position=store.last(),
        pruned=store.meta("pruned"),
        nbytes=store.path.stat().st_size,
    )
