"""How the processes of the service write their logs: lines of text, or of JSON."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from lim2.serve.config import Config

_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


class TextLines(logging.Formatter):
    """Log records as text; fields follow the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        fields = getattr(record, "fields", {})
        shown = "".join(
            f" {name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in fields.items()
        )
        first, *rest = super().format(record).split("\n", 1)  # the rest is a traceback
        return "\n".join([first + shown, *rest])


class JsonLines(logging.Formatter):
    """Log records as JSON, one object per line; fields are its members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _json(line)


def log_settings(config: Config) -> dict[str, Any]:
    """Return the settings of Python's logging."""
    text = {"()": "lim2.serve.log_format.TextLines", "format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    formatter: dict[str, Any] = {"()": "lim2.serve.log_format.JsonLines"} if config.log_format == "json" else text
    level = config.log_level.upper()
    stderr = {
        "class": "logging.StreamHandler",
        "formatter": "lines",
        "filters": ["request"],
        "stream": "ext://sys.stderr",
    }
    lines = {"handlers": ["stderr"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": formatter},
        "filters": {"request": {"()": "lim2.serve.tracing.WithRequest"}},
        "handlers": {"stderr": stderr},
        "loggers": {
            "lim2": lines,
            "lim2.audit": {"level": min(level, "INFO", key=logging.getLevelName)},
            "uvicorn": {**lines, "level": "WARNING" if level == "INFO" else level},
        },
    }
