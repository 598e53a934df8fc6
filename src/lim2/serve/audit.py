"""Who changed what, and who was refused: structured log lines, and the newest of them for the dashboard."""

import contextlib
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from lim2.serve.tracing import current

logger = logging.getLogger("lim2.audit")

MAX_BYTES = 500_000  # of a file; the one before it is kept, too
MAX_IN_MEMORY = 500  # entries of a process that cannot write files
FILES = {"refused": "refused.jsonl"}  # a flood of wrong keys does not displace what was changed
CHANGES = "changes.jsonl"


class AuditEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An event: what happened, by which key, to which bandit.

    ``event``: ``created``, ``changed``, ``deleted``, ``erased``, ``uploaded``, ``arm added``, ``arm removed``, or
    ``refused``, with the ``status`` and the call.
    """

    time: float
    event: str
    key: str | None = None
    bandit: str | None = None
    status: int | None = None
    call: str | None = None
    details: dict[str, Any] = {}
    request_id: str | None = None


class AuditLog:
    """The audit log of a data folder, which all processes of a machine share."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._writing = threading.Lock()
        self._unwritten: deque[AuditEntry] = deque(maxlen=MAX_IN_MEMORY)

    def record(self, event: str, **fields: Any) -> None:
        """Log an event, and keep it; what cannot be kept is still a log line."""
        entry = AuditEntry(time=time.time(), event=event, request_id=current.get().request or None, **fields)
        shown = {name: value for name, value in fields.items() if value not in (None, {})}
        logger.log(logging.WARNING if event == "refused" else logging.INFO, event, extra={"fields": shown})
        try:
            self._append(self._folder / FILES.get(event, CHANGES), msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            if not self._unwritten:
                logger.error("the audit log %s cannot be written, and is kept in memory: %s", self._folder, error)
            self._unwritten.append(entry)

    def latest(self, limit: int) -> list[AuditEntry]:
        """Return the newest entries, the latest first."""
        entries = list(self._unwritten)
        for name in (CHANGES, *FILES.values()):
            lines = [line for path in (f"{name}.1", name) for line in _lines(self._folder / path)]
            for line in lines[-limit:]:
                with contextlib.suppress(msgspec.MsgspecError):  # cut off by a crash
                    entries.append(msgspec.json.decode(line, type=AuditEntry))
        return sorted(entries, key=lambda entry: -entry.time)[:limit]

    def _append(self, path: Path, line: bytes) -> None:
        with self._writing:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_size + len(line) > self._max_bytes:
                    path.replace(f"{path}.1")
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
