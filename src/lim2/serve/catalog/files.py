"""A folder per bandit on a local disk, with an SQLite log in it. For processes of one machine."""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec

from lim2.log import DecisionLog, LogError, LogFileError
from lim2.log.errors import GoneLogError
from lim2.serve.catalog.base import Added, LeftLogError, Listed, NoBanditError, no_bandit
from lim2.serve.catalog.logs import new_log
from lim2.serve.outage import Outage
from lim2.serve.snapshots import FileBoard
from lim2.serve.spec import START, Stored, kept_for, read_stored

DESCRIPTION = "bandit.json"
KEY = "api-key"
USED = ".used"  # a file of which those who use the folder have a lock
BESIDE = ("", "-wal", "-shm", "-leader", "-leader-journal")  # the files of an SQLite log


class FileCatalog:
    """The bandits of a folder."""

    shared = False

    def __init__(self, data: Path | str, synchronous: str = "full", alone: bool = False) -> None:
        self.outage = Outage()  # never: what is on this machine is there
        self._data, self._synchronous = Path(data), synchronous
        self._all = self._data / "bandits"
        self._all.mkdir(parents=True, exist_ok=True)
        self._use: int | None = _used(self._all, alone)
        self._board: FileBoard | None = None
        self._looked: dict[str, Any] = {}  # what the files of bandits were like when a learner looked

    @property
    def name(self) -> str:  # noqa: D102
        return str(self._data)

    @property
    def board(self) -> FileBoard:  # noqa: D102
        if self._board is None:
            self._board = FileBoard(self._data / "board", self.folder)
        return self._board

    def ping(self) -> None:
        """Do nothing: a folder does not go away."""

    def folder(self, name: str) -> Path:
        """Return the folder of a bandit."""
        return self._all / name

    def key(self) -> str:
        """Return the key that the folder keeps, readable for its owner only; make it if there is none."""
        path = self._data / KEY
        draft = self._data / f".{KEY}-{os.getpid()}-{secrets.token_hex(4)}"
        if not path.exists():
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            try:
                os.link(draft, path)  # not a rename: another process may have been first
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return path.read_text(encoding="ascii").strip()

    def kept_key(self) -> str | None:
        """Return the key that the folder keeps; None if there is none."""
        return self.key() if (self._data / KEY).exists() else None

    # Descriptions

    def names(self) -> list[str]:  # noqa: D102
        return sorted(path.parent.name for path in self._all.glob(f"*/{DESCRIPTION}"))

    def count(self) -> int:  # noqa: D102
        return len(self.names())

    def page(self, after: str, limit: int, logs: Mapping[str, DecisionLog]) -> list[Listed]:  # noqa: D102
        found: list[Listed] = []
        for name in self.names():
            if name > after and len(found) < limit:
                try:
                    found.append(self._one(name, logs.get(name)))
                except (NoBanditError, GoneLogError):  # deleted meanwhile
                    continue
                except LogError as error:
                    found.append(Listed(name, failure=str(error)))
        return found

    def _one(self, name: str, opened: DecisionLog | None) -> Listed:
        try:
            return self._listed(name, opened)
        except GoneLogError:  # another process has deleted the one that is open; there may be another one
            return self._listed(name, None)

    def _listed(self, name: str, opened: DecisionLog | None) -> Listed:
        stored = self.read(name)
        with self.open_log(name, stored) if opened is None else nullcontext(opened) as log:
            return Listed(name, stored, log.state, self.board.position(name))

    def stamp(self, name: str) -> Hashable:  # noqa: D102
        with _missing(name):
            found = self._description(name).stat()
        return found.st_mtime_ns, found.st_ino

    def read(self, name: str) -> Stored:  # noqa: D102
        with _missing(name):
            content = self._description(name).read_bytes()
        try:
            return read_stored(content)
        except (msgspec.DecodeError, ValueError) as error:
            message = f"{self._description(name)} is not the description of a bandit: {error}. "
            raise LogFileError(f"{message}Restore the folder from a backup, or move it away") from error

    def create(self, name: str, stored: Stored) -> Stored | None:  # noqa: D102
        folder = self.folder(name)
        with _exclusive(self._all):
            if self._description(name).exists():
                return self.read(name)
            if any(folder.glob("*.db")):
                raise LeftLogError(
                    f"{folder} has a log but no {DESCRIPTION}, which may be of a backup that is not whole. "
                    f"Put {DESCRIPTION} back, or move the folder away"
                )
            with self._apart("new", name) as draft, self._apart("old", name) as left:
                draft.mkdir()
                new_log(draft / stored.log, stored, self._synchronous).close()
                _write(draft / DESCRIPTION, stored)
                with suppress(FileNotFoundError):
                    folder.rename(left)
                draft.rename(folder)  # whole or not at all
        return None

    def change(self, name: str, work: Callable[[Stored], Stored]) -> Stored:  # noqa: D102
        with ExitStack() as held:
            with _missing(name):
                held.enter_context(_exclusive(self.folder(name)))
            new = work(self.read(name))
            with _missing(name):
                _write(self._description(name), new)
        return new

    def delete(self, name: str) -> None:  # noqa: D102
        with _exclusive(self._all), _missing(name):
            self._description(name).stat()
            with self._apart("old", name) as left:
                self.folder(name).rename(left)  # from now on no process opens it

    @contextmanager
    def _apart(self, kind: str, name: str) -> Iterator[Path]:
        """Give a path for a bandit that is not there yet, or no more; afterwards nothing is left there."""
        path = self._data / "apart" / f"{kind} {name}"
        shutil.rmtree(path, ignore_errors=True)  # what a crash left
        path.parent.mkdir(exist_ok=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _description(self, name: str) -> Path:
        return self.folder(name) / DESCRIPTION

    # Logs

    def log_name(self, name: str, revision: int) -> str:  # noqa: ARG002, D102
        return f"log-{revision}.db" if revision else "log.db"

    def open_log(self, name: str, stored: Stored) -> DecisionLog:  # noqa: D102
        path = self.folder(name) / stored.log
        try:
            if path.exists():
                return DecisionLog(path, keep=None, synchronous=self._synchronous)
            return new_log(path, stored, self._synchronous)
        except LogFileError:
            self.stamp(name)  # NoBanditError if it was deleted since it was read
            raise

    def delete_log(self, name: str, log: str) -> None:  # noqa: D102
        for suffix in BESIDE:
            (self.folder(name) / f"{log}{suffix}").unlink(missing_ok=True)

    # Which bandits have something to learn

    def waiting(self, now: float) -> dict[str, Any]:  # noqa: ARG002
        """Return the bandits whose description or log was written since a learner has looked."""
        files = {name: self._files(name) for name in self.names()}
        self._looked = {name: seen for name, seen in self._looked.items() if name in files}
        return {name: own for name, own in files.items() if own != self._looked.get(name)}

    def _files(self, name: str) -> tuple[tuple[str, int, int], ...]:
        """Return what changes when the description or a log of a bandit is written."""
        with suppress(FileNotFoundError), os.scandir(self.folder(name)) as entries:
            own = [
                (entry.name, entry.stat()) for entry in entries if entry.name.endswith((DESCRIPTION, ".db", ".db-wal"))
            ]
            return tuple(sorted((name, found.st_mtime_ns, found.st_size) for name, found in own if found.st_size))
        return ()

    def looked(self, stamps: Mapping[str, Any]) -> None:  # noqa: D102
        self._looked |= stamps

    def aged(self, now: float) -> list[str]:  # noqa: ARG002
        """Return the bandits that do not keep their decisions forever."""
        found = []
        for name in self.names():
            with suppress(NoBanditError, LogError):
                if kept_for(self.read(name)) is not None:
                    found.append(name)
        return found

    # Documents

    def documents(self, name: str, kind: str) -> "FolderDocuments":  # noqa: D102
        return FolderDocuments(self.folder(name), kind)

    def kinds(self, name: str) -> list[str]:
        """Return the kinds of documents that a bandit has, without models to start from."""
        return sorted(path.name for path in self.folder(name).iterdir() if path.is_dir())

    def close(self) -> None:
        """Let others have the folder alone."""
        if self._board is not None:
            self._board.close()
            self._board = None
        if self._use is not None:
            os.close(self._use)
        self._use = None


class FolderDocuments:
    """A file per document."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._kind, self._folder = kind, folder if kind == START else folder / kind

    def all(self) -> list[bytes]:  # noqa: D102
        found = []
        for path in self._folder.glob("*.json"):
            try:
                found.append(path.read_bytes())
            except FileNotFoundError:  # deleted meanwhile
                continue
        return found

    def get(self, id: str) -> bytes | None:  # noqa: D102
        try:
            return self._path(id).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, id: str, content: bytes) -> None:  # noqa: D102
        self._folder.mkdir(exist_ok=True)
        _replace(self._path(id), content)

    def add(self, id: str, content: bytes, most: int) -> Added:  # noqa: D102
        self._folder.mkdir(exist_ok=True)
        with _exclusive(self._folder):
            if self._path(id).exists():
                return "taken"
            if len(list(self._folder.glob("*.json"))) >= most:
                return "full"
            _replace(self._path(id), content)
        return "added"

    def replace(self, id: str, content: bytes) -> None:  # noqa: D102
        with _exclusive(self._folder):
            if self._path(id).exists():
                _replace(self._path(id), content)

    def delete(self, id: str) -> None:  # noqa: D102
        if self._folder.exists():
            with _exclusive(self._folder):
                self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        if self._kind == START:
            return self._folder / id
        name = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:40]  # an id may be no file name
        return self._folder / f"{name}.json"


def _write(path: Path, stored: Stored) -> None:
    _replace(path, msgspec.json.format(msgspec.json.encode(stored)))


def _replace(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, and onto the disk."""
    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _used(folder: Path, alone: bool) -> int:
    """Return an open file whose lock says that this process uses a folder, with others or alone."""
    file = os.open(folder / USED, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_NB | (fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
    except BlockingIOError as error:
        os.close(file)
        if alone:
            raise ValueError(f"a process serves the folder {folder.parent}: stop it first") from error
        raise OSError(errno.EBUSY, "its bandits are being moved") from error
    return file


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold the right to change what a folder keeps, among all processes; it ends with the process at the latest."""
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _missing(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise no_bandit(name) from error
