"""A file of records that only grows: what `append` has returned survives the process and a loss of power.

A record is its length, its CRC-32, and its content. A crash in the midst of `append` leaves a last record that is not
whole; it was not acknowledged, and is cut off when the file is opened again. The process that uses a file holds a lock
on it, which ends with the process: whoever gets the lock afterwards may take the file over.
"""

import fcntl
import os
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

HEAD = struct.Struct("<II")  # length, CRC-32
SUFFIX = ".spool"
LONGEST = 1 << 30  # bytes of a record; more is no length, but rubbish


class SpoolFile:
    """A file that this process has the lock of.

    Parameters
    ----------
    path
        Its path.
    handle
        Handle of the open file.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self._handle = path, handle
        self.id = path.name.removesuffix(SUFFIX)
        self.size = 0
        for end, _ in self.records(upto=os.fstat(handle).st_size):
            self.size = end
        os.ftruncate(handle, self.size)

    @classmethod
    def new(cls, folder: Path) -> "SpoolFile":
        """Return a new file.

        Parameters
        ----------
        folder
            Folder of the file; it is created if it does not exist.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{uuid.uuid4().hex}{SUFFIX}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _flush(folder)  # so that its name survives as well
        return cls(path, handle)

    @classmethod
    def adopted(cls, path: Path) -> "SpoolFile | None":
        """Return a file that another process has left; None if that process still lives, or the file is gone.

        Parameters
        ----------
        path
            Its path.
        """
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:  # not removed by who had the lock before
                return cls(path, handle)
        except BlockingIOError:
            pass
        os.close(handle)
        return None

    def append(self, contents: Sequence[bytes]) -> list[int]:
        """Write records, and return where each ends; all of them are on disk then, or, after an OSError, none.

        Parameters
        ----------
        contents
            Contents of the records.
        """
        ends, end = [], self.size
        for content in contents:
            end += HEAD.size + len(content)
            ends.append(end)
        data = b"".join(HEAD.pack(len(one), zlib.crc32(one)) + one for one in contents)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._handle, data[written:], self.size + written)
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, self.size)
            raise
        self.size = end
        return ends

    def records(self, after: int = 0, upto: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield where each record ends, and its content.

        Parameters
        ----------
        after
            Offset to begin at: the end of a record, or 0.
        upto
            Offset to stop at. None: the end of the last record that was appended.
        """
        at, end = after, self.size if upto is None else upto
        while at < end:
            head = os.pread(self._handle, HEAD.size, at)
            if len(head) < HEAD.size:
                return
            length, crc = HEAD.unpack(head)
            content = os.pread(self._handle, length, at + HEAD.size) if length <= LONGEST else b""
            if len(content) < length or zlib.crc32(content) != crc or not length:
                return
            at += HEAD.size + length
            yield at, content

    def record(self, begin: int) -> bytes:
        """Return the content of a record.

        Parameters
        ----------
        begin
            Offset at which the record before it ends.
        """
        return next(self.records(begin))[1]

    def close(self) -> None:
        """Let go of the file; another process may take it over."""
        os.close(self._handle)

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink()
        _flush(self.path.parent)
        self.close()


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
