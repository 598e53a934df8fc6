"""What happens to writes while the database is unreachable: they are refused, or kept on disk and written later."""

from lim2.serve.spool.guard import GuardedStore, Outage
from lim2.serve.spool.spool import Spool, SpoolError

__all__ = ["GuardedStore", "Outage", "Spool", "SpoolError"]
