"""Writing a file: whole or not at all, with the permissions of the one that it replaces."""

import os
import stat
import sys
import time
from pathlib import Path

import pytest

import lim2
from lim2.persistence import files
from lim2.persistence.files import write

posix = pytest.mark.skipif(os.name != "posix", reason="needs permissions as on POSIX")


def trained() -> lim2.Agent:
    agent = lim2.LinearTS(2, 2, seed=0)
    agent.update([0.0, 1.0], 0, 1.0)
    return agent


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_writing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.lim2"
    agent = trained()
    agent.save(path)
    before = path.read_bytes()
    synced: list[Path] = []
    agent.update([0.0, 1.0], 0, 1.0)
    real = os.fsync

    def spy(fd: int) -> None:
        if sys.platform == "linux":
            synced.append(Path(f"/proc/self/fd/{fd}").readlink())
        real(fd)

    monkeypatch.setattr(os, "fsync", spy)
    agent.save(path)
    assert path.read_bytes() != before
    if sys.platform == "linux":
        part, folder = synced
        assert part.parent == folder == tmp_path


@pytest.mark.parametrize("step", ["fsync", "fchmod", "open", "rename"])
@posix
def test_what_fails_leaves_the_file_before(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.lim2"
    path.write_bytes(b"before")

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    if step == "rename":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        trained().save(path)
    monkeypatch.undo()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


def test_saving_keeps_a_link_and_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "agent.lim2"
    link.symlink_to(tmp_path / "there" / "real.lim2")
    old, young, other = (
        tmp_path / "there" / name for name in (".real.lim2.1-a.part", ".real.lim2.2-b.part", ".x.part")
    )
    for file in (old, young, other):
        file.touch()
    os.utime(old, (time.time() - 2 * files.STALE,) * 2)
    trained().save(link)
    assert link.is_symlink()
    assert lim2.load(link).rounds == 1
    assert {file.name for file in (tmp_path / "there").iterdir()} == {"real.lim2", young.name, other.name}


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o604, 0o444])
def test_a_file_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "agent.lim2"
    trained().save(path)
    path.chmod(mode)
    trained().save(path)
    assert mode_of(path) == mode
    assert lim2.load(path).rounds == 1


@posix
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_usual_permissions(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "new", b"content")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == mode


@posix
def test_nobody_can_read_a_replacement_that_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, modes = tmp_path / "agent.lim2", []
    trained().save(path)
    path.chmod(0o600)
    real = os.fchmod

    def spy(fd: int, mode: int) -> None:
        modes.append((stat.S_IMODE(os.fstat(fd).st_mode), mode))
        real(fd, mode)

    monkeypatch.setattr(os, "fchmod", spy)
    trained().save(path)
    assert modes == [(0o600, 0o600)]


@posix
def test_a_file_keeps_its_owner_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, wanted = tmp_path / "agent.lim2", []
    write(path, b"before")
    real = Path.stat

    def of_another(self: Path, **how: bool) -> os.stat_result:
        status = list(real(self, **how))
        if self == path:
            status[4:6] = 12345, 54321  # owner and group
        return os.stat_result(status)

    def refuse(fd: int, owner: int, group: int) -> None:
        wanted.append((owner, group))
        raise PermissionError

    monkeypatch.setattr(Path, "stat", of_another)
    monkeypatch.setattr(os, "fchown", refuse)
    write(path, b"after")
    assert wanted == [(12345, -1), (-1, 54321)]
    assert path.read_bytes() == b"after"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the administrator may give files away"
)
def test_the_administrator_keeps_owners(tmp_path: Path) -> None:
    path = tmp_path / "agent.lim2"
    trained().save(path)
    os.chown(path, 12345, 54321)
    path.chmod(0o640)
    trained().save(path)
    assert (path.stat().st_uid, path.stat().st_gid, mode_of(path)) == (12345, 54321, 0o640)
