"""The board of snapshots: learners post what decides, deciders take the latest, and both wait for news.

A snapshot is shipped apart from the model that learns: compressed, and only with what decides.
"""

import contextlib
import io
import os
import pickle
import secrets
import select
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec

from lim2.bandit import Bandit, RawDecider
from lim2.info import Info
from lim2.loading import from_bytes

LEVEL = 1  # of compression: higher ones take longer than they save
STATE, WHOLE = b"S", b"W"  # the first byte of a content: a pickled snapshot, or the file of a bandit
# What a pickled snapshot may consist of: classes of these modules, and what NumPy makes arrays of.
MODULES = tuple(f"lim2.{module}" for module in (
    "algorithms", "arms", "bandit.deciding", "bandit.rows", "control", "deciding", "encoding", "exploration",
    "matching", "memory", "moments", "pending", "representation", "shells", "snapshot", "state", "streams",
))  # fmt: skip
OTHERS = {
    ("builtins", "slice"), ("builtins", "range"), ("builtins", "set"), ("builtins", "frozenset"),
    ("collections", "OrderedDict"), ("collections", "deque"),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    ("numpy", "ndarray"), ("numpy", "dtype"),
}  # fmt: skip


class Diagnostics(msgspec.Struct, frozen=True, array_like=True):
    """What the latest update did, see :class:`lim2.info.Info`."""

    loss: float | None = None
    drift: float | None = None
    refits: int | None = None
    changes: int | None = None

    @classmethod
    def of(cls, info: Info) -> Self:
        """Return those of an update."""
        return cls(*(getattr(info, name) for name in cls.__struct_fields__))


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A snapshot of a bandit, and how the bandit is doing where it is learned."""

    version: int
    created: float
    description: int
    position: int
    rewards: int = 0
    seconds: float = 0.0
    passed_over: int = 0
    diagnostics: Diagnostics = Diagnostics()
    content: bytes = b""


class Counting(Protocol):
    """What counts the passes of learners, as :class:`lim2.serve.metrics.Metrics` does."""

    def learned(self, bandit: str, rewards: int, seconds: float, info: Any) -> None:
        """Count what a bandit has learned."""

    def learner_failed(self, bandit: str) -> None:
        """Count a pass that failed."""


class Board(Protocol):
    """Where snapshots are posted. Any thread may use it."""

    seconds_per_byte: float  # that a post takes others: the network, and the disk of a database

    def post(self, name: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a bandit, and wake those who wait for it."""

    def latest(self, name: str, after: int) -> Snapshot | None:
        """Return the latest snapshot if its version is larger; None if there is none; ValueError if it is damaged."""

    def fail(self, name: str, reason: str | None) -> None:
        """Post why a bandit cannot be learned; None: it can."""

    def failures(self) -> dict[str, str]:
        """Return the reasons by the name of the bandit."""

    def follow(self, name: str, log: Any) -> Callable[[], None]:
        """Let `wait` return the name of a bandit when there is a snapshot of it; return what ends that."""

    def tell(self, name: str) -> None:
        """Let `wait` of other processes return the name of a bandit: there is something new to learn."""

    def notice(self, name: str) -> None:
        """Let `wait` of this process return the name of a bandit."""

    def wait(self, seconds: float) -> set[str]:
        """Return the names of bandits about which there is something new, as soon as there is; a name may get lost."""

    def wake(self) -> None:
        """Let `wait` of this process return."""

    def close(self) -> None:
        """Let go of it."""


# Contents


def pack(bandit: Bandit) -> bytes:
    """Return what decides as bytes.

    A bandit with parts that :func:`unpack` would not take, such as modules of PyTorch, becomes its whole file.
    """
    content = pickle.dumps(bandit.snapshot(), 5)
    try:
        _Unpickler(io.BytesIO(content)).load()
    except pickle.UnpicklingError:
        return WHOLE + zlib.compress(bandit.to_bytes(), LEVEL)
    return STATE + zlib.compress(content, LEVEL)


def unpack(content: bytes) -> RawDecider:
    """Return the snapshot that :func:`pack` packed, ready to decide; ValueError if it is damaged or from elsewhere.

    Examples
    --------
    >>> unpack(pack(Bandit(["a", "b"], algorithm="LinearTS", seed=0))).arms
    ('a', 'b')
    """
    try:
        plain = zlib.decompress(memoryview(content)[1:])
        decider = (
            _Unpickler(io.BytesIO(plain)).load() if content[:1] == STATE else from_bytes(plain).snapshot(prepare=True)
        )
    except Exception as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if not isinstance(decider, RawDecider):
        raise ValueError("it is not a snapshot of a bandit")
    _ = decider.core.item_model  # now, so that the first decision takes no longer than others
    return decider


class _Unpickler(pickle.Unpickler):
    """Makes values only: named tuples and classes of the core, and arrays."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in OTHERS:
            return super().find_class(module, name)
        if any(module == own or module.startswith(f"{own}.") for own in MODULES):
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a snapshot")


# Files


HEAD = struct.Struct("<QQI")  # version, position, and bytes of the rest
MAX_NEWS = 65_536  # bytes that are read from the pipe at once


class FileBoard:
    """Snapshots as files that are replaced atomically, for the processes of one machine.

    A snapshot is in the folder of its bandit, and goes with it. Each process has a named pipe, into which the others
    write the names of bandits. Nothing is flushed to the disk: after a loss of power, snapshots are posted anew.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learner, decider = (FileBoard(Path(folder), lambda name: Path(folder)) for _ in range(2))
    ...     learner.post("shop", Snapshot(version=1, created=0.0, description=0, position=5))
    ...     decider.wait(60), decider.latest("shop", 0).position, decider.latest("shop", 1)
    ...     learner.close(); decider.close()
    ({'shop'}, 5, None)
    """

    seconds_per_byte = 0.0

    def __init__(self, folder: Path, of_bandit: Callable[[str], Path]) -> None:
        self._folder, self._of_bandit = folder, of_bandit
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / "failures").mkdir(mode=0o700, exist_ok=True)
        self._failed: set[str] = set()  # failures that this process has posted
        self._others: dict[str, int] = {}  # open pipes of other processes, by name
        self._seen: tuple[int, int] | None = None  # when it was looked for them
        self._telling = threading.Lock()
        self._pipe = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}.pipe"
        os.mkfifo(self._pipe, 0o600)
        self._news = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # with a writer, it never ends

    def post(self, name: str, snapshot: Snapshot) -> None:  # noqa: D102
        content = msgspec.msgpack.encode(snapshot)
        path = self._of_bandit(name) / "snapshot"
        draft = path.with_name(f".snapshot-{os.getpid()}")
        try:
            draft.write_bytes(HEAD.pack(snapshot.version, snapshot.position, len(content)) + content)
            draft.replace(path)
        except FileNotFoundError:  # the bandit was deleted
            return
        self.tell(name)

    def latest(self, name: str, after: int) -> Snapshot | None:  # noqa: D102
        try:
            with (self._of_bandit(name) / "snapshot").open("rb", buffering=0) as file:
                head = file.read(HEAD.size)
                if len(head) == HEAD.size and HEAD.unpack(head)[0] <= after:
                    return None
                content = file.read()
        except FileNotFoundError:
            return None
        try:
            version, _, size = HEAD.unpack(head)
            snapshot = msgspec.msgpack.decode(content, type=Snapshot)
        except (struct.error, msgspec.DecodeError) as error:
            raise ValueError(f"the snapshot of the bandit {name!r} is damaged: {error}") from error
        if (snapshot.version, len(content)) != (version, size):
            raise ValueError(f"the snapshot of the bandit {name!r} is damaged")
        return snapshot

    def position(self, name: str) -> int:
        """Return the position that the latest snapshot of a bandit has learned; 0 if there is none."""
        try:
            with (self._of_bandit(name) / "snapshot").open("rb", buffering=0) as file:
                return int(HEAD.unpack(file.read(HEAD.size))[1])
        except (FileNotFoundError, struct.error):
            return 0

    def fail(self, name: str, reason: str | None) -> None:  # noqa: D102
        path = self._folder / "failures" / name
        if reason is not None:
            draft = self._folder / f".{name}-{os.getpid()}"
            draft.write_text(reason, encoding="utf-8", errors="replace")
            draft.replace(path)
            self._failed.add(name)
        elif name in self._failed or path.exists():
            path.unlink(missing_ok=True)
            self._failed.discard(name)
        else:
            return
        self.tell(name)

    def failures(self) -> dict[str, str]:  # noqa: D102
        found = {}
        for entry in os.scandir(self._folder / "failures"):
            with contextlib.suppress(FileNotFoundError):
                found[entry.name] = Path(entry.path).read_text(encoding="utf-8", errors="replace")
        return found

    def follow(self, name: str, log: Any) -> Callable[[], None]:  # noqa: ARG002
        """Do nothing: `wait` returns the names of all bandits."""
        return lambda: None

    def tell(self, name: str) -> None:  # noqa: D102
        text = f"{name}\n".encode()
        with self._telling:
            self._look_for_others()
            for path, pipe in list(self._others.items()):
                try:
                    os.write(pipe, text)  # whole, since it is short
                except BlockingIOError:  # full: that process has news enough
                    continue
                except OSError:  # it has ended
                    self._forget(path)

    def _look_for_others(self) -> None:
        found = self._folder.stat()
        if (found.st_mtime_ns, found.st_ino) == self._seen:
            return
        self._seen = found.st_mtime_ns, found.st_ino
        there = {path.name for path in self._folder.glob("*.pipe")} - {self._pipe.name}
        for name in there - set(self._others):
            try:
                self._others[name] = os.open(self._folder / name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:  # nobody reads it: its process was killed
                (self._folder / name).unlink(missing_ok=True)
        for name in set(self._others) - there:
            self._forget(name)

    def _forget(self, name: str) -> None:
        os.close(self._others.pop(name))

    def wait(self, seconds: float) -> set[str]:  # noqa: D102
        if not select.select([self._news], [], [], max(seconds, 0.0))[0]:
            return set()
        with contextlib.suppress(BlockingIOError):
            text = os.read(self._news, MAX_NEWS)
            return set(text.decode("ascii", "replace").split("\n")) - {""}
        return set()

    def notice(self, name: str) -> None:  # noqa: D102
        with contextlib.suppress(BlockingIOError):
            os.write(self._news, f"{name}\n".encode())

    def wake(self) -> None:  # noqa: D102
        self.notice("")

    def close(self) -> None:  # noqa: D102
        with self._telling:
            self._pipe.unlink(missing_ok=True)
            os.close(self._news)
            for name in list(self._others):
                self._forget(name)
