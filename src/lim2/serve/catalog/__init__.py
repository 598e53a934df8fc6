"""The bandits of a service, in one of two catalogs: folders beside SQLite logs, or tables of a PostgreSQL database."""

from pathlib import Path

from lim2.extras import needs
from lim2.serve.catalog.base import Added, Catalog, Documents, LeftLogError, Listed, NoBanditError, StaleError
from lim2.serve.catalog.files import FileCatalog
from lim2.serve.config import Config, ConfigError
from lim2.serve.outage import Outage

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
    """Return where the bandits of a service live. A data folder that is made now is readable for its owner only."""
    if config.store is None:
        Path(config.data).mkdir(mode=0o700, parents=True, exist_ok=True)  # contexts are data of persons
        return FileCatalog(config.data, config.synchronous)
    with needs("store = postgresql://...", "postgres"):
        from lim2.serve.catalog.postgres import PostgresCatalog
    try:
        return PostgresCatalog(config.store, Outage(), config.synchronous)
    except ValueError as error:
        raise ConfigError(f"store: {error}") from error
