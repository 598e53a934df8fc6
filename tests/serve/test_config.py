"""Settings: a file, the environment, options; keys."""

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.waiting import PATIENCE

from lim2.log import LogFileError
from lim2.serve.catalog import FileCatalog, open_catalog
from lim2.serve.config import ConfigError, load
from lim2.serve.keys import Access, Keys, keys_of
from lim2.serve.run import listening, prepared


def test_later_sources_replace_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('port = 9000\nhost = "0.0.0.0"\nread_key = ["for-the-page"]\n[personalizer]\nepsilon = 0.2\n')
    environment = {"LIM2_PORT": "9001", "LIM2_PERSONALIZER_DEFAULT_REWARD": "-0.5", "LIM2_DOCS": "false"}
    config = load(file, environment, {"data": "elsewhere", "host": None})
    assert (config.port, config.host, config.data, config.docs) == (9001, "0.0.0.0", "elsewhere", False)
    assert (config.personalizer.epsilon, config.personalizer.default_reward) == (0.2, -0.5)
    assert config.read_key == ("for-the-page",)


@pytest.mark.parametrize("text", ["port = -1", "colour = 1", "[personalizer]\nseed = -1", "port = [", 'port = "x"'])
def test_a_wrong_file_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"shop\.toml"):
        load(file, {})


def test_a_setting_that_was_renamed_says_its_name(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text("[personalizer]\nexploration = 0.2\n")
    with pytest.raises(ConfigError, match=r"use personalizer\.epsilon"):
        load(file, {})
    with pytest.raises(ConfigError, match="use LIM2_PERSONALIZER_EPSILON"):
        load(None, {"LIM2_PERSONALIZER_EXPLORATION": "0.2"})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml", {})


def test_a_key_is_made_once_and_kept_for_its_owner_only(tmp_path: Path) -> None:
    key = FileCatalog(tmp_path / "data").key()
    assert len(key) >= 40 and FileCatalog(tmp_path / "data").key() == key
    file = tmp_path / "data" / "api-key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["api-key", "bandits"]


def test_a_new_data_folder_is_for_its_owner_only_and_an_old_one_stays_as_it_is(tmp_path: Path) -> None:
    for name, before, after in (("new", None, 0o700), ("old", 0o755, 0o755)):
        folder = tmp_path / "deep" / name
        if before is not None:
            folder.mkdir(parents=True)
            folder.chmod(before)
        open_catalog(load(environment={}, given={"data": str(folder)})).close()
        assert stat.S_IMODE(folder.stat().st_mode) == after


def test_two_keys_so_that_one_can_be_replaced(tmp_path: Path) -> None:
    config = load(environment={"LIM2_API_KEY": "the-new-key, the-old-key", "LIM2_SERVE_DATA": str(tmp_path)})
    keys, first = keys_of(config, FileCatalog(tmp_path))
    assert first == "the-new-key"
    assert keys.access("the-new-key") == Access("api_key", "admin")
    assert keys.access("the-old-key") == Access("api_key 2", "admin")
    assert keys.access("") is None


KEYS = """
decide_key = ["for-any-shop"]
[keys.web]
key = "for-the-web-shop"
role = "decide"
bandits = ["banner", "shop"]
[keys.ann]
key = "for-ann-alone"
role = "admin"
"""


def test_keys_of_the_file_have_names_roles_and_bandits(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(KEYS)
    keys, _ = keys_of(load(file, {"LIM2_READ_KEY": "for-the-page"}), FileCatalog(tmp_path))
    assert keys.access("for-any-shop") == Access("decide_key", "decide")
    assert keys.access("for-the-web-shop") == Access("keys.web", "decide", frozenset({"banner", "shop"}))
    assert keys.access("for-ann-alone") == Access("keys.ann", "admin")
    assert keys.access("for-the-page") == Access("read_key", "read")
    again = load(file, {"LIM2_READ_KEY": "for-any-shop"})
    with pytest.raises(ConfigError, match="decide_key and read_key are the same key"):
        keys_of(again, FileCatalog(tmp_path))


def test_a_session_ends_by_itself_and_with_its_key() -> None:
    keys = Keys({"the-old-key": Access("api_key", "admin")})
    session = keys.session("the-old-key", now=0.0)
    assert keys.access_of_session(session, now=604_000) == Access("api_key", "admin")
    assert keys.access_of_session(session, now=605_000) is None
    assert Keys({"the-new-key": Access("api_key", "admin")}).access_of_session(session, now=0.0) is None
    for wrong in ("", ".", "1", "x.y", f"9{session}", session[:-1], "١٢.ab"):
        assert keys.access_of_session(wrong, now=0.0) is None


def test_small_answers_are_sent_at_once() -> None:
    with listening(load(environment={"LIM2_PORT": "0"})) as own:
        own.listen()
        with socket.create_connection(own.getsockname()), own.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", r"shop\.toml: there is no setting prot; did you mean port\?"),
        ("colour = 1", r"there is no setting colour; docs/service/run\.md lists all settings"),
        ("[ray]\nreplicsa = 1", r"there is no setting ray\.replicsa; did you mean ray\.replicas\?"),
        ("port = 99999", r"shop\.toml: port must be a whole number from 0 to 65535, got 99999"),
        ('role = "boss"', r"role must be all, decide or learn, got 'boss'"),
        ("poll = 0", r"poll must be a number above 0 and at most 60, got 0"),
        ('docs = "perhaps"', r"docs must be true or false, got 'perhaps'"),
        ("max_body = 1", r"max_body must be a whole number of at least 1024, got 1"),
        (
            'api_key = "secret"',
            r"api_key must be a list, each a key of 8 to 512 printable ASCII characters without \w+ or \w+$",
        ),
        ('api_key_2 = "secret"', r"no setting api_key_2; it was renamed: use api_key$"),
        ("keys = 3", r"keys must be a table, \[keys\]"),
        ("keys.web = 3", r"keys\.web must be a table, \[keys\.web\]"),
        ('[keys.web]\nkey = "secret-secret"', r"keys\.web has no role: it needs key and role, and may have bandits"),
        (
            '[keys.web]\nrole = "boss"\nkey = "secret-secret"',
            r"keys\.web\.role must be decide, read or admin, got 'boss'",
        ),
        ('[keys.web]\nrole = "read"\nkey = "secret"', r"keys\.web\.key must be a key of 8 to 512"),
        (
            '[keys.web]\nrole = "read"\nkey = "secret-secret"\nbandits = [1]',
            r"keys\.web\.bandits must be a list, each text",
        ),
        (
            '[keys.web]\nrole = "read"\nkey = "secret-secret"\nrule = 1',
            r"no setting keys\.web\.rule; did you mean keys\.web\.role",
        ),
        ('store = "mysql://ann:secret@db/shop"', r"store must be the address of a PostgreSQL database, such as [^,]*$"),
        (
            "[personalizer]\nreward_wait_time = 172800\nlog_retention_days = 2",
            r"personalizer\.log_retention_days must be -1, or at least 3: personalizer\.reward_wait_time and a day",
        ),
        ("personalizer = 3", r"personalizer must be a table, \[personalizer\]"),
    ],
)
def test_a_wrong_setting_says_what_is_expected_and_shows_no_secret(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load(file, {})
    assert "secret" not in str(caught.value)


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"the environment: LIM2_RAY_MODELS must be a whole number from 1 to 100000"):
        load(environment={"LIM2_RAY_MODELS": "many"})


def served(folder: Path, *options: str, **variables: str) -> tuple[int, str]:
    """Return the status and the errors of a service that cannot start."""
    done = subprocess.run(
        [sys.executable, "-m", "lim2", "serve", "--data", str(folder / "data"), "--port", "0", *options],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_learner_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    own = {"LIM2_PERSONALIZER_ALGORITHM": "AdaptivTS", "LIM2_SERVE_DATA": str(tmp_path / "data")}
    with pytest.raises(ConfigError, match=r"\[personalizer\] cannot be used: algorithm must be one of LinearTS"):
        prepared(load(environment=own))
    assert not (tmp_path / "data").exists()


def test_a_broken_description_is_named(tmp_path: Path) -> None:
    folders = FileCatalog(tmp_path)
    (folders.folder("shop")).mkdir()
    (folders.folder("shop") / "bandit.json").write_text("{")
    with pytest.raises(LogFileError, match=r"shop/bandit\.json is not the description of a bandit: .*backup"):
        folders.read("shop")


def test_what_keeps_it_from_starting_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found = [
            served(tmp_path, "--port", port),
            served(tmp_path, LIM2_METRICS_PORT=port),
        ]
    found += [
        served(tmp_path, "--host", "192.0.2.1"),
        served(tmp_path, "--data", str(tmp_path / "file" / "data")),
        served(tmp_path, "--store", "postgresql://ann:secret@127.0.0.1:1/shop"),
    ]
    expected = [
        rf"error: cannot listen on 127\.0\.0\.1:{port}: port {port} is in use; choose another with --port",
        rf"error: cannot listen on 127\.0\.0\.1:{port}: port {port} is in use; choose another with metrics_port",
        r"error: cannot listen on 192\.0\.2\.1:0: .*; choose an address of this machine with --host",
        r"error: the data folder .*file/data cannot be used: Not a directory; choose another with --data",
        r"error: the database postgresql://ann@127\.0\.0\.1:1/shop cannot be reached: .*; start the database; or set "
        "LIM2_API_KEY, and the service starts without it and waits for it",
    ]
    for (status, errors), line in zip(found, expected, strict=True):
        assert status == 2, errors
        assert re.fullmatch(line, errors.strip()), errors
    assert not (tmp_path / "data").exists()  # of a service that runs, nothing is touched
