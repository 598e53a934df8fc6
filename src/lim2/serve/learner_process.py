"""Starts the process that learns, and keeps it running, beside those that answer requests: they do not wait for it."""

import contextlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lim2.serve.config import Config, ConfigError
from lim2.serve.learner_link import ADDRESS

logger = logging.getLogger("lim2.serve")

MODULE = "lim2.serve.learner_main"
SETTINGS = "LIM2_SERVE_SETTINGS"  # the settings, for all processes of the service
AGAIN = 1.0  # seconds before it is started again
END = 20.0  # seconds in which it must have published what it has learned; if not, that is learned again
LONGEST = 100  # bytes of an address; a little more than this is possible


class LearnerProcess:
    """Starts the process that learns, and keeps it running until :meth:`stop`.

    The socket on which it listens belongs to this process, so that others can connect before it is there, and while it
    is started again.

    Parameters
    ----------
    config
        The settings of the service.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._ending = own_settings(config), threading.Event()
        self._folder = private_folder(config.data)
        self.address = str(self._folder / "learner")
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(self.address)
            self._listener.listen()
            self._process = self._started()
        except BaseException:
            self._tidy()
            raise
        self._thread = threading.Thread(target=self._keep, name="lim2 learner process", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it: it publishes what it has learned first."""
        self._ending.set()
        _end(self._process)
        self._thread.join(END)
        if self._thread.is_alive():
            logger.warning(
                "the process that learns does not end, and is killed: what is not published is learned again"
            )
            self._process.kill()
            self._thread.join()
        self._tidy()

    def _tidy(self) -> None:
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self) -> "subprocess.Popen[bytes]":
        listener = self._listener.fileno()
        own = {
            SETTINGS: msgspec.json.encode(self._config).decode(),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),  # it finds what this process finds
        }
        return subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(listener)], env={**os.environ, **own}, process_group=0,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listener],
        )  # fmt: skip

    def _keep(self) -> None:
        while True:
            status = self._process.wait()
            _end(self._process)
            if self._ending.is_set():
                return
            logger.error("the process that learns has ended with status %d, and is started again", status)
            while not self._ending.wait(AGAIN):
                try:
                    self._process = self._started()
                    if self._ending.is_set():  # meanwhile, so that `stop` may have ended the one before
                        _end(self._process)
                    break
                except OSError as error:  # no memory, or too many processes
                    logger.error("the process that learns cannot be started: %s", error)


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def private_folder(data: str) -> Path:
    """Return a new folder that only its owner can enter, for a socket, whose address has to be short.

    Parameters
    ----------
    data
        The data folder, which is used if nothing else can be.
    """
    why: OSError | str = "their names are too long"
    parents = ["/tmp", str(Path(data).absolute())]
    with contextlib.suppress(FileNotFoundError):  # it is none if no folder for temporary files can be written
        parents.insert(0, tempfile.gettempdir())
    for parent in parents:
        if len(os.fsencode(parent)) < LONGEST - 25:
            try:
                return Path(tempfile.mkdtemp(prefix="lim2-", dir=parent))
            except OSError as error:
                why = error
    tried = ", ".join(parents)
    raise ConfigError(f"no folder for a socket can be made in any of {tried}: {why}; TMPDIR names another place")


@contextlib.contextmanager
def learner_process(config: Config) -> Iterator[None]:
    """Run the process that learns for as long as requests are answered, if this service does both.

    Parameters
    ----------
    config
        The settings of the service.
    """
    if config.role != "all":
        yield
        return
    process = LearnerProcess(config)
    os.environ[ADDRESS] = process.address
    try:
        yield
    finally:
        del os.environ[ADDRESS]
        process.stop()


def own_settings(config: Config) -> Config:
    """Return the settings of the process that learns.

    Parameters
    ----------
    config
        Those of the service.
    """
    return msgspec.structs.replace(config, role="learn", workers=1, on_outage="refuse", demo=False)
