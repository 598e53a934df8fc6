"""`lim2 move`: move the bandits of a service from a folder into a database."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lim2.commands.errors import plain_errors
from lim2.commands.log_copy import replayed
from lim2.commands.screen import ERRORS
from lim2.extras import needs


def move(
    data: Annotated[str, typer.Argument(metavar="DIR", help="Data folder of a service, such as lim2-data.")],
    store: Annotated[str, typer.Argument(metavar="URL", help="Database to move to: postgresql://...")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Bandits to move. Default: all.", show_default=False)
    ] = None,
) -> None:
    """Move bandits of `lim2 serve` from a data folder into a PostgreSQL database.

    Stop the service first. The command moves descriptions, settings, logs with pending decisions, models, evaluations
    and the API key. It compares every row, and an agent learns from each copy, as for `lim2 log copy`. The folder is
    not changed. If the command is interrupted, run it again.

    Example: lim2 move lim2-data postgresql://lim2@db/lim2
    """
    with plain_errors(*ERRORS):
        with needs("lim2 move", "serve"):
            from lim2.serve.catalog import FileCatalog
            from lim2.serve.outage import Outage
        with needs("lim2 move", "postgres"):
            from lim2.serve.catalog.postgres import PostgresCatalog
            from lim2.serve.moving import move as move_one
            from lim2.serve.moving import need
        if not (Path(data) / "bandits").is_dir():
            raise ValueError(f"{data} is not a data folder of lim2 serve: it has no folder 'bandits'")
        source = FileCatalog(data, alone=True)
        target = PostgresCatalog(store, Outage())
        try:
            known = source.names()
            if unknown := [name for name in names or [] if name not in known]:
                raise ValueError(f"{data} has no bandit {unknown[0]!r}; it has {', '.join(known)}")
            needed = {name: need(source, target, name) for name in names or known}  # all of them before one is moved
            for name, what in needed.items():
                if what == "move":
                    typer.echo(f"{name}: {move_one(source, target, name, replayed)}")
                else:
                    because = "was moved before" if what == "moved" else "was never used, and the database has one"
                    typer.echo(f"{name}: {because}.")
            key = source.kept_key()
            if key is not None and target.agreed_key(key) != key:
                typer.echo("The database keeps its own API key. Set LIM2_API_KEY to use the one of the folder.")
        finally:
            target.close()
            source.close()
    typer.echo(f"Done. Continue with: lim2 serve --store {shlex.quote(target.name)}")
