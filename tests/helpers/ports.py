"""Ports for servers that are started later, or more than once on the same port."""

import random
import socket

# Below those that the system gives to outgoing connections (32768 and above on Linux). One of those could be taken by
# any connection of any test before the server listens; and who connects to it meanwhile could even meet himself.
RANGE = range(20_000, 32_000)


def free_port() -> int:
    """Return a port of the loopback interface on which nobody listens."""
    while True:
        port = random.SystemRandom().choice(RANGE)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
