from __future__ import annotations

import gzip
import hashlib
import io
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from problems.compress import compressed
from problems.server import Web, serving

from lim2.problems import FetchError
from lim2.problems.fetch import fetch, target_folder
from lim2.problems.sources import SOURCES, Remote, Source

CONTENT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(40_000))
CHUNK = 65536  # what is written at once
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def source(*remotes: Remote, sha256: str | None = SHA) -> Source:
    return Source("table.csv", page="https://example.org/table", licence="none", sha256=sha256, mirrors=remotes)


def zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(name, content)
    return out.getvalue()


def only(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_success_with_progress(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT
    seen: list[tuple[int, int | None]] = []
    path = fetch(source(Remote(web.url("a"))), tmp_path, progress=lambda *told: seen.append(told))
    assert path == tmp_path / "table.csv"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert only(tmp_path) == ["table.csv"]


def test_what_is_there_is_not_fetched_again_unless_asked(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT
    there = tmp_path / "table.csv.gz"
    there.write_bytes(b"whatever")
    assert fetch(source(Remote(web.url("a"))), tmp_path) == there
    assert web.requests == []
    assert fetch(source(Remote(web.url("a"))), tmp_path, again=True).read_bytes() == CONTENT


def test_packages_are_unpacked(web: Web, tmp_path: Path) -> None:
    web.files["a.csv.gz"] = gzip.compress(CONTENT)
    web.files["a.Z"] = compressed(CONTENT)
    web.files["b.zip"] = zipped("in/table.csv", CONTENT)
    web.files["c.zip"] = zipped("inner.zip", web.files["b.zip"])
    web.files["d.zip"] = zipped("table.Z", compressed(CONTENT))
    remotes = {
        "a.csv.gz": (),
        "a.Z": (),
        "b.zip": ("in/table.csv",),
        "c.zip": ("inner.zip", "in/table.csv"),
        "d.zip": ("table.Z",),
    }
    for file, members in remotes.items():
        folder = tmp_path / file
        path = fetch(source(Remote(web.url(file), members)), folder)
        assert path.read_bytes() == CONTENT
        assert only(folder) == ["table.csv"]


def test_a_wrong_checksum_keeps_nothing(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT + b"1,1\n"
    with pytest.raises(FetchError, match="wrong checksum") as caught:
        fetch(source(Remote(web.url("a"))), tmp_path)
    assert SHA in str(caught.value)
    assert str(tmp_path / "table.csv") in str(caught.value)
    assert only(tmp_path) == []


def test_without_a_known_checksum_any_content_is_kept(web: Web, tmp_path: Path) -> None:
    web.files["a"] = b"new version"
    path = fetch(source(Remote(web.url("a")), sha256=None), tmp_path)
    assert path.read_bytes() == b"new version"


def test_a_broken_transfer_is_resumed_at_once(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT
    web.breaks["a"] = [2 * CHUNK + 5, CHUNK]
    assert fetch(source(Remote(web.url("a"))), tmp_path).read_bytes() == CONTENT
    assert web.requests == [("a", None), ("a", "bytes=131072-"), ("a", "bytes=196608-")]


def test_a_transfer_that_keeps_breaking_is_resumed_by_the_next_run(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT
    web.breaks["a"] = [2 * CHUNK, 0]
    with pytest.raises(FetchError, match="broke after 131,072 bytes, which are kept; the same command resumes"):
        fetch(source(Remote(web.url("a"))), tmp_path)
    assert not (tmp_path / "table.csv").exists()
    web.requests.clear()
    assert fetch(source(Remote(web.url("a"))), tmp_path).read_bytes() == CONTENT
    assert web.requests == [("a", "bytes=131072-")]
    assert only(tmp_path) == ["table.csv"]


def test_a_server_without_ranges_starts_again(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT
    web.breaks["a"] = [100_000]
    web.ranges = False
    assert fetch(source(Remote(web.url("a"))), tmp_path).read_bytes() == CONTENT


def test_a_file_that_shrank_meanwhile_starts_again(web: Web, tmp_path: Path) -> None:
    web.files["a"] = CONTENT + CONTENT
    web.breaks["a"] = [len(CONTENT) + 2 * CHUNK, 0]
    with pytest.raises(FetchError):
        fetch(source(Remote(web.url("a"))), tmp_path)
    web.files["a"] = CONTENT
    assert fetch(source(Remote(web.url("a"))), tmp_path).read_bytes() == CONTENT


def test_404_goes_on_to_the_next_mirror(web: Web, tmp_path: Path) -> None:
    web.files["b"] = CONTENT
    path = fetch(source(Remote(web.url("gone")), Remote(web.url("b"))), tmp_path)
    assert path.read_bytes() == CONTENT


def test_404_everywhere_tells_what_to_do(web: Web, tmp_path: Path) -> None:
    with pytest.raises(FetchError) as caught:
        fetch(source(Remote(web.url("gone")), Remote(web.url("away"))), tmp_path)
    message = str(caught.value)
    assert message.count("the server answered 404") == 2
    assert "https://example.org/table" in message
    assert str(tmp_path / "table.csv") in message
    assert only(tmp_path) == []


def test_offline_tells_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(FetchError) as caught:
        fetch(source(Remote(f"http://127.0.0.1:{port}/a")), tmp_path)
    message = str(caught.value)
    assert "no connection; is this machine offline?" in message
    assert f"put it at {tmp_path / 'table.csv'}" in message
    assert "LIM2_DATA" in message


def test_a_package_without_the_file(web: Web, tmp_path: Path) -> None:
    web.files["b.zip"] = zipped("other.csv", CONTENT)
    web.files["c.zip"] = b"an error page"
    for file in ("b.zip", "c.zip"):
        with pytest.raises(FetchError, match="what came is not what was expected"):
            fetch(source(Remote(web.url(file), ("table.csv",))), tmp_path)
    assert only(tmp_path) == []


def test_without_mirrors_it_is_done_by_hand(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"cannot be downloaded by a program. Get table.csv from https://example"):
        fetch(source(), tmp_path)


def test_where_downloads_go(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIM2_DATA", raising=False)
    assert target_folder() == own_cache / "data"
    assert target_folder(tmp_path / "x") == tmp_path / "x"
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.setenv("LIM2_DATA", str(named))
    assert target_folder() == named
    named.chmod(0o555)
    try:
        assert target_folder() == own_cache / "data"
    finally:
        named.chmod(0o755)


@pytest.mark.parametrize("max_bits", [9, 12, 16])
@pytest.mark.parametrize("data", [b"", b"a", b"abab" * 2000, CONTENT, bytes(range(256)) * 40])
def test_what_compress_packs_is_unpacked(web: Web, tmp_path: Path, data: bytes, max_bits: int) -> None:
    web.files["a.Z"] = compressed(data, max_bits)
    assert fetch(source(Remote(web.url("a.Z")), sha256=None), tmp_path).read_bytes() == data


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"PK\x03\x04", r"not a \.Z file"), (b"\x1f\x9d\x90\xff\xff\xff", "before it is defined")],
)
def test_a_damaged_z_file_is_refused(web: Web, tmp_path: Path, data: bytes, message: str) -> None:
    web.files["a.Z"] = data
    with pytest.raises(FetchError, match=message):
        fetch(source(Remote(web.url("a.Z")), sha256=None), tmp_path)
    assert only(tmp_path) == []


def test_the_table_of_sources_is_whole() -> None:
    for file, entry in SOURCES.items():
        assert file == entry.file
        assert entry.page.startswith("https://")
        assert entry.licence
        assert all(remote.url.startswith("https://") for remote in entry.mirrors)
        assert all(remote.members for remote in entry.mirrors if remote.url.endswith(".zip"))
        for digest in (entry.sha256, *entry.copies):
            assert digest is None or len(bytes.fromhex(digest)) == 32
