"""The settings of the service: a TOML file, environment variables, and options of the command, in this order."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

PREFIX = "LIM2_"
# The datasets of `lim2 data` have the variable LIM2_DATA already.
RENAMED = {"data": "LIM2_SERVE_DATA"}

Port = Annotated[int, Meta(ge=0, le=65535)]
Key = Annotated[str, Meta(min_length=8, max_length=512, pattern="^[!-~]+$")]  # what a header can hold


class PersonalizerDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the bandit behind Personalizer's endpoints starts with; its configuration can be changed by its clients.

    Parameters
    ----------
    algorithm
        What learns, the name of one of ``lim2.AGENTS``.
    reward_wait_time
        Seconds after which the default reward stands in.
    default_reward
        Of a decision whose reward does not come in time.
    reward_aggregation
        What several rewards of one decision count as.
    exploration
        The share of decisions that are drawn evenly, on top of what the algorithm explores by itself.
    log_retention_days
        How long decisions are kept; -1: forever.
    seed
        With a seed, a model that learns the log anew is the same in every bit.
    """

    algorithm: str = "AdaptiveTS"
    reward_wait_time: Annotated[float, Meta(ge=5, le=172800)] = 600.0
    default_reward: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    reward_aggregation: Literal["earliest", "sum"] = "earliest"
    exploration: Annotated[float, Meta(ge=0, le=1)] = 0.05
    log_retention_days: Annotated[int, Meta(ge=-1, le=36500)] = 90
    seed: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of the service.

    Parameters
    ----------
    host, port
        Where it listens; port 0 lets the system choose one.
    data
        The folder of its state: keys, and a folder per bandit.
    workers
        Processes. One of them learns each bandit, all answer.
    api_key, api_key_2
        Keys that may do everything; two, so that one can be replaced while the other is in use.
    read_keys
        Keys that may only look.
    max_body
        Bytes of a request's body.
    body_timeout
        Seconds that a client may take to send a body.
    metrics
        ``"key"``: ``/metrics`` asks for a key; ``"open"``: it does not; ``"off"``: it is not there.
    metrics_port
        A port of its own for metrics, without a key, on the same host; 0: none.
    docs
        Whether ``/docs`` and ``/openapi.json`` are served.
    log_level
        What is logged.
    log_format
        ``"text"``, or ``"json"``: an object per line.
    access_log
        Whether every request is logged.
    synchronous
        ``"full"``: what was acknowledged survives a loss of power; ``"normal"``: a crash of the process only.
    poll
        Seconds between looks for what other processes have written.
    learn
        Whether this service learns; False: it answers by the models that another one publishes.
    secure_cookie
        Whether the cookie of the page is for HTTPS only.
    demo
        Whether a simulated shop sends visitors.
    personalizer
        What the bandit behind Personalizer's endpoints starts with.

    Examples
    --------
    >>> load(environment={"LIM2_PORT": "9000", "LIM2_READ_KEYS": "for-the-page, for-grafana"}).read_keys
    ('for-the-page', 'for-grafana')
    """

    host: str = "127.0.0.1"
    port: Port = 8300
    data: str = "lim2-data"
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    api_key: Key | None = None
    api_key_2: Key | None = None
    read_keys: tuple[Key, ...] = ()
    max_body: Annotated[int, Meta(ge=1024)] = 2_000_000
    body_timeout: Annotated[float, Meta(gt=0)] = 30.0
    metrics: Literal["key", "open", "off"] = "key"
    metrics_port: Port = 0
    docs: bool = True
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    access_log: bool = False
    synchronous: Literal["full", "normal"] = "full"
    poll: Annotated[float, Meta(gt=0, le=60)] = 0.25
    learn: bool = True
    secure_cookie: bool = False
    demo: bool = False
    personalizer: PersonalizerDefaults = PersonalizerDefaults()


class ConfigError(ValueError):
    """A setting that cannot be used."""


def load(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Config:
    """Return the settings; a later source replaces what an earlier one says.

    Parameters
    ----------
    path
        A TOML file.
    environment
        Variables named ``LIM2_`` and the setting in capitals. None: those of the process.
    given
        Options of the command; None stands for one that was not given.
    """
    known = os.environ if environment is None else environment
    values: dict[str, Any] = {} if path is None else _file(path)
    for field in msgspec.structs.fields(Config):
        if field.name == "personalizer":
            own = dict(values.get("personalizer") or {})
            for inner in msgspec.structs.fields(PersonalizerDefaults):
                _from_environment(own, inner.name, known, f"{PREFIX}PERSONALIZER_{inner.name.upper()}")
            values["personalizer"] = own
        else:
            _from_environment(values, field.name, known, variable(field.name))
    values |= {name: value for name, value in (given or {}).items() if value is not None}
    if isinstance(values.get("read_keys"), str):
        values["read_keys"] = [key.strip() for key in values["read_keys"].split(",") if key.strip()]
    try:
        return msgspec.convert(values, Config, strict=False)
    except msgspec.ValidationError as error:
        where = f"{path}: " if path is not None else ""
        raise ConfigError(f"{where}{error}; docs/serve.md lists all settings") from error


def variable(name: str) -> str:
    """Return the environment variable of a setting.

    Parameters
    ----------
    name
        Of the setting.

    Examples
    --------
    >>> variable("api_key"), variable("data")
    ('LIM2_API_KEY', 'LIM2_SERVE_DATA')
    """
    return RENAMED.get(name, PREFIX + name.upper())


def _from_environment(values: dict[str, Any], name: str, known: Mapping[str, str], key: str) -> None:
    if key in known:
        values[name] = known[key]


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
