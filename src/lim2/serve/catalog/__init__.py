"""The bandits of a service, in one of two catalogs: folders beside SQLite logs, or tables of a PostgreSQL database."""

from pathlib import Path

from lim2.extras import needs
from lim2.serve.catalog.base import Added, Catalog, Documents, LeftLogError, Listed, NoBanditError, StaleError
from lim2.serve.catalog.files import FileCatalog
from lim2.serve.config import Config, ConfigError
from lim2.serve.spool import Outage, Spool

__all__ = [
    "Added",
    "Catalog",
    "Documents",
    "FileCatalog",
    "LeftLogError",
    "Listed",
    "NoBanditError",
    "StaleError",
    "open_catalog",
]


def open_catalog(config: Config) -> Catalog:
    """Return where the bandits of a service live. A data folder that is made now is readable for its owner only.

    Parameters
    ----------
    config
        Settings of the service.
    """
    if config.store is None or config.on_outage == "spool":
        Path(config.data).mkdir(mode=0o700, parents=True, exist_ok=True)  # contexts are data of persons
    if config.store is None:
        return FileCatalog(config.data, config.synchronous)
    with needs("store = postgresql://...", "postgres"):
        from lim2.serve.catalog.postgres import PostgresCatalog
    spool = Spool(Path(config.data) / "spool", config.spool_bytes) if config.on_outage == "spool" else None
    try:
        return PostgresCatalog(config.store, Outage(spool), config.synchronous)
    except ValueError as error:
        raise ConfigError(f"store: {error}") from error
