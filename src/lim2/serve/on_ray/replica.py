"""A replica: the whole service as an ASGI application, in a process of Ray's, with the bandits that it is asked for."""

from typing import Any

import msgspec

from lim2.serve.app import application
from lim2.serve.config import Config
from lim2.serve.limits import raise_file_limit
from lim2.serve.service import Service


def built(settings: bytes) -> Any:
    """Return the application of a replica."""
    raise_file_limit()
    return application(Service(msgspec.json.decode(settings, type=Config)))
