"""Settings: a file, the environment, options; keys."""

import socket
import stat
from pathlib import Path

import pytest

from lim2.serve.config import ConfigError, load
from lim2.serve.keys import Keys, kept_key, keys_of
from lim2.serve.run import listening


def test_later_sources_replace_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('port = 9000\nhost = "0.0.0.0"\nread_keys = ["for-the-page"]\n[personalizer]\nexploration = 0.2\n')
    environment = {"LIM2_PORT": "9001", "LIM2_PERSONALIZER_DEFAULT_REWARD": "-0.5", "LIM2_DOCS": "false"}
    config = load(file, environment, {"data": "elsewhere", "host": None})
    assert (config.port, config.host, config.data, config.docs) == (9001, "0.0.0.0", "elsewhere", False)
    assert (config.personalizer.exploration, config.personalizer.default_reward) == (0.2, -0.5)
    assert config.read_keys == ("for-the-page",)


@pytest.mark.parametrize("text", ["port = -1", "colour = 1", "[personalizer]\nseed = -1", "port = [", 'port = "x"'])
def test_a_wrong_file_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"shop\.toml"):
        load(file, {})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml", {})


def test_a_key_is_made_once_and_kept_for_its_owner_only(tmp_path: Path) -> None:
    key = kept_key(tmp_path / "data")
    assert len(key) >= 40 and kept_key(tmp_path / "data") == key
    file = tmp_path / "data" / "api-key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["api-key"]


def test_two_keys_so_that_one_can_be_replaced(tmp_path: Path) -> None:
    given = {"api_key": "the-old-key", "api_key_2": "the-new-key", "data": str(tmp_path)}
    keys, first = keys_of(load(environment={}, given=given))
    assert first == "the-old-key"
    assert [keys.role(key) for key in ("the-old-key", "the-new-key", "")] == ["full", "full", None]


def test_a_session_ends_by_itself_and_with_its_key() -> None:
    keys = Keys(["the-old-key"])
    session = keys.session("the-old-key", now=0.0)
    assert keys.role_of_session(session, now=604_000) == "full"
    assert keys.role_of_session(session, now=605_000) is None
    assert Keys(["the-new-key"]).role_of_session(session, now=0.0) is None
    for wrong in ("", ".", "1", "x.y", f"9{session}", session[:-1], "١٢.ab"):
        assert keys.role_of_session(wrong, now=0.0) is None


def test_small_answers_are_sent_at_once() -> None:
    with listening(load(environment={"LIM2_PORT": "0"})) as own:
        own.listen()
        with socket.create_connection(own.getsockname()), own.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
