"""`lim2 serve`: bind, print where it is, serve until a signal comes."""

import gc
import json
import logging
import logging.config
import os
import shutil
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from lim2.evaluation.evaluate import OverlapWarning
from lim2.serve.config import Config
from lim2.serve.keys import FILE as KEY_FILE
from lim2.serve.keys import keys_of
from lim2.serve.metrics import MULTIPROCESS

APPLICATION = "lim2.serve.run:made"
SETTINGS = "LIM2_SERVE_SETTINGS"  # the settings, for worker processes


def made() -> Any:
    """Return the application of a worker process; its settings are in the environment."""
    from lim2.serve.app import application
    from lim2.serve.service import Service

    config = msgspec.json.decode(os.environ[SETTINGS], type=Config)
    warnings.simplefilter("ignore", OverlapWarning)  # an evaluation's answer has its warnings
    ready = application(Service(config))
    gc.collect()
    gc.freeze()  # what lives forever is not looked at again
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(0.0005)  # seconds; the thread that answers waits less for the one that learns
    return ready


def run(config: Config) -> None:
    """Serve until a signal comes.

    Parameters
    ----------
    config
        The settings.
    """
    data = Path(config.data)
    data.mkdir(parents=True, exist_ok=True)
    _, key = keys_of(config)
    os.environ[SETTINGS] = msgspec.json.encode(config).decode()
    _prepare_metrics(config, data)
    settings: dict[str, Any] = {
        "factory": True,
        "workers": config.workers,
        "lifespan": "on",
        "access_log": False,
        "log_config": log_settings(config),
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 5,
    }
    with listening(config) as own:
        announce(config, own.getsockname()[1], key)
        if config.workers > 1:
            uvicorn.run(APPLICATION, fd=own.fileno(), **settings)
            return
        server = uvicorn.Server(uvicorn.Config(APPLICATION, **settings))
        server.run(sockets=[own])
    if not server.started:
        raise SystemExit(3)


def listening(config: Config) -> socket.socket:
    """Return the socket that the service listens on.

    Parameters
    ----------
    config
        The settings.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    own = socket.socket(family, socket.SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it; asyncio would set it only for sockets that it has made. Without it a small answer waits
    # up to 40 ms for the client to acknowledge its headers.
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        own.bind((config.host, config.port))
    except OSError as error:
        own.close()
        raise SystemExit(
            f"error: cannot listen on {config.host}:{config.port}: {error.strerror}; --port takes another"
        ) from error
    own.set_inheritable(True)
    return own


def announce(config: Config, port: int, key: str) -> None:
    """Print where the service is, and its key if it was made by the service.

    Parameters
    ----------
    config
        The settings.
    port
        On which it listens.
    key
        The first key.
    """
    host = f"[{config.host}]" if ":" in config.host else config.host
    print(f"lim2 serves http://{host}:{port}")
    print(f"  page    http://{host}:{port}/")
    print(f"  data    {config.data}")
    if config.api_key is None:
        print(f"  key     {key}  (kept in {Path(config.data) / KEY_FILE})")
    else:
        print("  key     as configured")
    sys.stdout.flush()


def _prepare_metrics(config: Config, data: Path) -> None:
    if config.workers == 1:
        return
    folder = data / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ[MULTIPROCESS] = str(folder)


class JsonLines(logging.Formatter):
    """Log records as JSON, one object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        own = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            own["exception"] = self.formatException(record.exc_info)
        return json.dumps(own, ensure_ascii=False)


def log_settings(config: Config) -> dict[str, Any]:
    """Return the settings of Python's logging.

    Parameters
    ----------
    config
        The settings of the service.
    """
    text = {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    formatter: dict[str, Any] = {"()": "lim2.serve.run.JsonLines"} if config.log_format == "json" else text
    level = config.log_level.upper()
    own = {"handlers": ["stderr"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "own", "stream": "ext://sys.stderr"}},
        "loggers": {"lim2": own, "uvicorn": {**own, "level": "WARNING" if level == "INFO" else level}},
    }
