"""Where bandits live: folders beside SQLite logs, or tables of a PostgreSQL database."""

from pathlib import Path

from lim2.extras import needs
from lim2.serve.config import Config, ConfigError
from lim2.serve.home.folders import Folders
from lim2.serve.home.home import Added, Documents, Home, LeftLogError, Listed, NoBanditError, StaleError
from lim2.serve.spool import Outage, Spool

__all__ = [
    "Added",
    "Documents",
    "Folders",
    "Home",
    "LeftLogError",
    "Listed",
    "NoBanditError",
    "StaleError",
    "open_home",
]


def open_home(config: Config) -> Home:
    """Return where the bandits of a service live. A data folder that is made now is readable for its owner only.

    Parameters
    ----------
    config
        Settings of the service.
    """
    if config.store is None or config.on_outage == "spool":
        Path(config.data).mkdir(mode=0o700, parents=True, exist_ok=True)  # contexts are data of persons
    if config.store is None:
        return Folders(config.data, config.synchronous)
    with needs("store = postgresql://...", "postgres"):
        from lim2.serve.home.postgres import PostgresHome
    spool = Spool(Path(config.data) / "spool", config.spool_bytes) if config.on_outage == "spool" else None
    try:
        return PostgresHome(config.store, Outage(spool), config.synchronous)
    except ValueError as error:
        raise ConfigError(f"store: {error}") from error
