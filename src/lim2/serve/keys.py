"""API keys: what each may do, for which bandits; and the cookie that stands for a key on the dashboard."""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lim2.serve.catalog import Catalog
from lim2.serve.config import Config, ConfigError, KeySettings, Role

COOKIE = "lim2_session"
SESSION = 7 * 24 * 3600  # seconds
ADMIN = "admin"


class Access(NamedTuple):
    """What the holder of a key may do; ``bandits`` is None for all bandits."""

    name: str
    role: Role
    bandits: frozenset[str] | None = None

    def covers(self, bandit: str | None) -> bool:
        """Return whether the key is for a bandit."""
        return bandit is None or self.bandits is None or bandit in self.bandits


class Keys:
    """The keys of a service, and what each may do.

    Examples
    --------
    >>> keys = Keys({"a-secret-key": Access("api_key", "admin"), "for-the-page": Access("read_key", "read")})
    >>> keys.access("for-the-page"), keys.access("guessed")
    (Access(name='read_key', role='read', bandits=None), None)
    >>> keys.access_of_session(keys.session("for-the-page", now=0.0), now=60.0).name
    'read_key'
    """

    def __init__(self, keys: Mapping[str, Access]) -> None:
        self._keys = [(key.encode(), access) for key, access in keys.items()]

    def access(self, key: str) -> Access | None:
        """Return what a key may do, or None; it takes as long for a wrong key as for a right one."""
        return self._matching(key, lambda known: known)

    def session(self, key: str, now: float | None = None) -> str:
        """Return the value of a cookie that stands for a key: it ends by itself, and with the key."""
        until = str(int((time.time() if now is None else now) + SESSION))
        return f"{until}.{_signed(key.encode(), until)}"

    def access_of_session(self, value: str, now: float | None = None) -> Access | None:
        """Return what the holder of a cookie may do, or None."""
        until, _, signature = value.partition(".")
        if not until.isascii() or not until.isdigit() or len(until) > 12:
            return None
        if int(until) < (time.time() if now is None else now):
            return None
        return self._matching(signature, lambda known: _signed(known, until).encode())

    def _matching(self, text: str, form: Callable[[bytes], bytes]) -> Access | None:
        match, sent = None, text.encode("utf-8", "surrogatepass")
        for key, access in self._keys:
            if hmac.compare_digest(form(key), sent) and match is None:
                match = access
        return match


def _signed(key: bytes, until: str) -> str:
    return hmac.new(key, f"lim2 session {until}".encode(), hashlib.sha256).hexdigest()


def cookie_name(headers: Mapping[bytes, bytes]) -> str:
    """Return the name of the service's cookie; it has the port, as browsers send a cookie to all ports of a host.

    Examples
    --------
    >>> cookie_name({b"host": b"127.0.0.1:8300"}), cookie_name({b"host": b"lim2.example.com"})
    ('lim2_session_8300', 'lim2_session')
    """
    port = headers.get(b"host", b"").rpartition(b":")[2]
    return f"{COOKIE}_{int(port)}" if port.isdigit() and len(port) < 6 else COOKIE


def cookie_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the session that the cookies of a request have, None if they have none.

    Examples
    --------
    >>> cookie_of({b"host": b"localhost:8300", b"cookie": b'theme={"dark": 1}; lim2_session_8300=17.ab'})
    '17.ab'
    """
    wanted = cookie_name(headers)
    for cookie in headers.get(b"cookie", b"").decode("latin-1").split(";"):  # others may have values of any form
        name, _, value = cookie.strip().partition("=")
        if name == wanted:
            return value
    return None


def keys_of(config: Config, catalog: Catalog) -> tuple[Keys, str]:
    """Return the keys of a service, and its first one; without a configured one, its catalog makes and keeps it."""
    listed: list[tuple[str, KeySettings]] = []
    first = config.api_key or (catalog.key(),)
    for setting, role, keys in (
        ("api_key", "admin", first), ("decide_key", "decide", config.decide_key), ("read_key", "read", config.read_key)
    ):  # fmt: skip
        for number, key in enumerate(keys, 1):
            name = setting if number == 1 else f"{setting} {number}"
            listed.append((name, KeySettings(key=key, role=role)))  # type: ignore[arg-type]
    known: dict[str, Access] = {}
    for name, settings in (*listed, *((f"keys.{name}", settings) for name, settings in config.keys.items())):
        if settings.key in known:
            raise ConfigError(f"{known[settings.key].name} and {name} are the same key: each key has one role")
        known[settings.key] = Access(
            name, settings.role, None if settings.bandits is None else frozenset(settings.bandits)
        )
    return Keys(known), first[0]
