"""How the processes of the service write their logs: lines of text, or of JSON."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from lim2.serve.config import Config


class JsonLines(logging.Formatter):
    """Log records as JSON, one object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        own = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            own["exception"] = self.formatException(record.exc_info)
        return json.dumps(own, ensure_ascii=False)


def log_settings(config: Config) -> dict[str, Any]:
    """Return the settings of Python's logging.

    Parameters
    ----------
    config
        The settings of the service.
    """
    text = {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    formatter: dict[str, Any] = {"()": "lim2.serve.log_format.JsonLines"} if config.log_format == "json" else text
    level = config.log_level.upper()
    own = {"handlers": ["stderr"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "own", "stream": "ext://sys.stderr"}},
        "loggers": {"lim2": own, "uvicorn": {**own, "level": "WARNING" if level == "INFO" else level}},
    }
