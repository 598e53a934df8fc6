"""`lim2 serve`: bind, print where it is, serve until a signal comes."""

import contextlib
import errno
import gc
import logging
import logging.config
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

import lim2
from lim2.evaluation.evaluate import OverlapWarning
from lim2.log import StoreUnavailableError
from lim2.serve import spec as specs
from lim2.serve.bandits import personalizer_of
from lim2.serve.catalog import open_catalog
from lim2.serve.catalog.files import KEY
from lim2.serve.config import Config, ConfigError
from lim2.serve.connections import Guarded
from lim2.serve.errors import ApiError
from lim2.serve.keys import keys_of
from lim2.serve.learner import SETTINGS, learner_process
from lim2.serve.limits import most_connections, raise_file_limit
from lim2.serve.log_format import log_settings
from lim2.serve.metrics import MULTIPROCESS

logger = logging.getLogger("lim2.serve")

APPLICATION = "lim2.serve.run:made"


def made() -> Any:
    """Return the application of a worker process; its settings are in the environment."""
    from lim2.serve.app import application
    from lim2.serve.service import Service

    config = msgspec.json.decode(os.environ[SETTINGS], type=Config)
    Guarded.max_connections = min(config.max_connections, most_connections())
    warnings.simplefilter("ignore", OverlapWarning)  # an evaluation's answer has its warnings
    ready = application(Service(config))
    gc.collect()
    gc.freeze()  # what lives forever is not looked at again
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(0.0005)  # seconds; the thread that answers waits less for others
    _end_with_parent()
    return ready


def _end_with_parent() -> None:
    """Let a worker process end when the one that has started it was killed: nobody else would end it."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        assert parent is not None
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    if parent is not None:
        threading.Thread(target=wait, name="lim2 parent", daemon=True).start()


def run(config: Config) -> None:
    """Serve until a signal comes."""
    os.umask(0o077)  # contexts are data of persons
    raise_file_limit()
    os.environ[SETTINGS] = msgspec.json.encode(config).decode()
    settings: dict[str, Any] = {
        "factory": True,
        "http": Guarded,
        "workers": config.workers,
        "lifespan": "on",
        "access_log": False,
        "proxy_headers": False,  # nothing that it answers depends on them
        "log_config": log_settings(config),
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 5,
    }
    signal.signal(signal.SIGTERM, _end)
    with contextlib.ExitStack() as held:
        own = held.enter_context(listening(config))  # first: where it cannot listen, it leaves the folder alone
        where, key = prepared(config)
        _prepare_metrics(config)
        held.enter_context(learner_process(config))
        announce(config, own.getsockname()[1], where, key)
        log_start(config, own.getsockname()[1], where)
        if config.workers > 1:
            uvicorn.run(APPLICATION, fd=own.fileno(), **settings)
            return
        server = uvicorn.Server(uvicorn.Config(APPLICATION, **settings))
        server.run(sockets=[own])
    if not server.started:
        raise SystemExit(3)


def _end(_number: int, _frame: Any) -> None:
    """Leave in good order: uvicorn raises the signal again when it has finished, which would end the process here."""
    raise SystemExit(0)


def prepared(config: Config) -> tuple[str, str]:
    """Return where bandits live, and the first key; a ConfigError if the service cannot start there, or so.

    A service whose key is configured starts without its database, and waits for it.
    """
    try:
        specs.made(personalizer_of(config, "").spec)
    except ApiError as error:
        raise ConfigError(f"[personalizer] cannot be used: {error.__cause__ or error}") from error
    try:
        catalog = open_catalog(config)
        try:
            _, key = keys_of(config, catalog)
            with contextlib.suppress(StoreUnavailableError):
                catalog.ping()
        finally:
            catalog.close()
    except StoreUnavailableError as error:
        advice = "start the database; or set LIM2_API_KEY, and the service starts without it and waits for it"
        why = " ".join(str(error.__cause__ or error).split())
        raise ConfigError(f"the database {catalog.name} cannot be reached: {why}; {advice}") from error
    except OSError as error:
        advice = "choose another with --data"
        raise ConfigError(f"the data folder {config.data} cannot be used: {error.strerror}; {advice}") from error
    return catalog.name, key


def listening(config: Config) -> socket.socket:
    """Return the socket that the service listens on."""
    own = _bound(config.host, config.port, "--port")
    # Connections inherit it; asyncio would set it only for sockets that it has made. Without it a small answer waits
    # up to 40 ms for the client to acknowledge its headers.
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    own.set_inheritable(True)
    if config.metrics_port:  # it is bound later, by the process that counts; here it is only tried
        _bound(config.host, config.metrics_port, "metrics_port").close()
    return own


def _bound(host: str, port: int, setting: str) -> socket.socket:
    own = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((host, port))
    except OSError as error:
        own.close()
        reasons = {
            errno.EADDRINUSE: f"port {port} is in use; choose another with {setting}",
            errno.EACCES: f"this user may not use port {port}; choose another with {setting}",
        }
        why = reasons.get(error.errno or 0, f"{error.strerror}; choose an address of this machine with --host")
        raise ConfigError(f"cannot listen on {host}:{port}: {why}") from error
    return own


def announce(config: Config, port: int, catalog: str, key: str) -> None:
    """Print the addresses of the service, and its key if it was generated."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    print(f"lim2 serves http://{host}:{port}")
    print(f"  dashboard  http://{host}:{port}/")
    print(f"  data       {catalog}")
    if not config.api_key:
        where = f"{catalog}/{KEY}" if config.store is None else "the database"
        print(f"  API key    {key}  (generated at the first start, stored in {where})")
    else:
        print("  API key    as configured")
    if config.demo:
        print("  demo       a simulated shop sends traffic to the bandit 'demo'")
    sys.stdout.flush()


def log_start(config: Config, port: int, catalog: str) -> None:
    """Log version, address and settings in one line; keys by their number, and the database without its password."""
    logging.config.dictConfig(log_settings(config))
    settings = msgspec.to_builtins(config)
    settings |= {name: len(settings[name]) for name in ("api_key", "decide_key", "read_key")}
    settings["keys"] = {name: own["role"] for name, own in settings["keys"].items()}
    settings["store"] = None if config.store is None else catalog
    fields = {"version": lim2.__version__, "address": f"{config.host}:{port}", "settings": settings}
    logger.info("started", extra={"fields": fields})


def _prepare_metrics(config: Config) -> None:
    if config.workers == 1:
        return
    folder = Path(config.data) / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ[MULTIPROCESS] = str(folder)
