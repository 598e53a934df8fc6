"""`lim2 serve`: the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 lets the system choose. Default: 8300.")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="The folder of the state. Default: lim2-data.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings, as TOML: see docs/serve.md.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: 1.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Let a simulated shop send visitors.")] = False,
) -> None:
    """Serve decisions over HTTP: Azure Personalizer's protocol, and lim2's own."""
    try:
        from lim2.serve.config import ConfigError, load
        from lim2.serve.run import run
    except ModuleNotFoundError as error:
        typer.echo(f"error: lim2 serve needs {error.name}: pip install 'lim2[serve]'", err=True)
        raise typer.Exit(1) from error
    given = {"host": host, "port": port, "data": data, "workers": workers, "demo": demo or None}
    try:
        settings = load(config, given=given)
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    run(settings)
