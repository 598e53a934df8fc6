"""`lim2 serve`: the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lim2.commands.errors import plain_errors
from lim2.commands.screen import ERRORS
from lim2.extras import MissingExtraError, needs


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; with 0 the system chooses one. Default: 8300.")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data folder: logs, models, key. Default: lim2-data.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with settings; docs/service/run.md lists them.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes. Default: 1.")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Database shared by several machines: postgresql://... See docs/service/scaling.md."
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="What this process does: decide, learn, or all (both). Default: all.")
    ] = None,
    on: Annotated[str | None, typer.Option(help="Where to run: local, or ray (a Ray cluster). Default: local.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Simulate a shop that sends traffic, to see the dashboard live.")
    ] = False,
) -> None:
    """Serve decisions over HTTP: Azure Personalizer's protocol, and lim2's own.

    Settings can also be environment variables, such as LIM2_API_KEY.

    Example: lim2 serve --data shop-data --port 9000
    """
    with plain_errors(*ERRORS):
        with needs("lim2 serve", "serve"):
            from lim2.log import LogFileError
            from lim2.serve.config import ConfigError, load
            from lim2.serve.run import run
        given: dict[str, Any] = {
            "host": host, "port": port, "data": data, "workers": workers, "demo": demo or None, "store": store,
            "role": role, "on": on,
        }  # fmt: skip
        settings = load(config, given=given)
        if settings.on == "ray":
            with needs("lim2 serve --on ray", "ray"):
                from lim2.serve.on_ray.deploy import run
    with plain_errors(ConfigError, LogFileError, MissingExtraError):
        run(settings)
