"""API keys: who may look, who may do everything; and the cookie that stands for a key on the page."""

import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping

from lim2.serve.catalog import Catalog
from lim2.serve.config import Config

COOKIE = "lim2_session"
SESSION = 7 * 24 * 3600  # seconds

FULL, READ = "full", "read"


class Keys:
    """The keys of a service.

    Parameters
    ----------
    full
        Keys that may do everything.
    read
        Keys that may only look.

    Examples
    --------
    >>> keys = Keys(["a-secret-key"], ["for-the-page"])
    >>> keys.role("a-secret-key"), keys.role("for-the-page"), keys.role("guessed")
    ('full', 'read', None)
    >>> keys.role_of_session(keys.session("for-the-page", now=0.0), now=60.0)
    'read'
    """

    def __init__(self, full: Iterable[str], read: Iterable[str] = ()) -> None:
        self._keys = [(key.encode(), FULL) for key in full] + [(key.encode(), READ) for key in read]

    def role(self, key: str) -> str | None:
        """Return what a key may do, or None; it takes as long for a wrong key as for a right one.

        Parameters
        ----------
        key
            What the client sent.
        """
        found, sent = None, key.encode("utf-8", "surrogatepass")
        for own, role in self._keys:
            if hmac.compare_digest(own, sent) and found is None:
                found = role
        return found

    def session(self, key: str, now: float | None = None) -> str:
        """Return the value of a cookie that stands for a key: it ends by itself, and with the key.

        Parameters
        ----------
        key
            One of the keys.
        now
            Seconds; None: the system's clock.
        """
        until = str(int((time.time() if now is None else now) + SESSION))
        return f"{until}.{_signed(key.encode(), until)}"

    def role_of_session(self, value: str, now: float | None = None) -> str | None:
        """Return what the holder of a cookie may do, or None.

        Parameters
        ----------
        value
            Value of the cookie.
        now
            Seconds; None: the system's clock.
        """
        until, _, signature = value.partition(".")
        if not until.isascii() or not until.isdigit() or len(until) > 12:
            return None
        if int(until) < (time.time() if now is None else now):
            return None
        found, sent = None, signature.encode("utf-8", "surrogatepass")
        for own, role in self._keys:
            if hmac.compare_digest(_signed(own, until).encode(), sent) and found is None:
                found = role
        return found


def _signed(key: bytes, until: str) -> str:
    return hmac.new(key, f"lim2 session {until}".encode(), hashlib.sha256).hexdigest()


def cookie_name(headers: Mapping[bytes, bytes]) -> str:
    """Return the name of the service's cookie; it has the port, as browsers send a cookie to all ports of a host.

    Parameters
    ----------
    headers
        Of a request.

    Examples
    --------
    >>> cookie_name({b"host": b"127.0.0.1:8300"}), cookie_name({b"host": b"lim2.example.com"})
    ('lim2_session_8300', 'lim2_session')
    """
    port = headers.get(b"host", b"").rpartition(b":")[2]
    return f"{COOKIE}_{int(port)}" if port.isdigit() and len(port) < 6 else COOKIE


def cookie_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the session that the cookies of a request have, None if they have none.

    Parameters
    ----------
    headers
        Of the request.

    Examples
    --------
    >>> cookie_of({b"host": b"localhost:8300", b"cookie": b'theme={"dark": 1}; lim2_session_8300=17.ab'})
    '17.ab'
    """
    own = cookie_name(headers)
    for cookie in headers.get(b"cookie", b"").decode("latin-1").split(";"):  # others may have values of any form
        name, _, value = cookie.strip().partition("=")
        if name == own:
            return value
    return None


def keys_of(config: Config, catalog: Catalog) -> tuple[Keys, str]:
    """Return the keys of a service, and its first one; without a configured one, its catalog makes and keeps it.

    Parameters
    ----------
    config
        The settings.
    catalog
        Catalog of the bandits.
    """
    first = config.api_key or catalog.key()
    full = [first] + ([config.api_key_2] if config.api_key_2 else [])
    return Keys(full, config.read_keys), first
