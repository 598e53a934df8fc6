"""The settings of the service: a TOML file, environment variables, and options of the command, in this order."""

import difflib
import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from lim2.exploration.epsilon import LOGGED

PREFIX = "LIM2_"
# The datasets of `lim2 data` have the variable LIM2_DATA already.
RENAMED = {"data": "LIM2_SERVE_DATA"}
# Settings of earlier versions, and their names now.
FORMER = {"personalizer.exploration": "personalizer.epsilon", "api_key_2": "api_key", "read_keys": "read_key"}
# Settings of earlier versions that are gone, and why.
_OUTAGE = "while the database is away, decisions go on and say that they are not recorded, and clients retry rewards"
GONE = {"on_outage": _OUTAGE, "spool_bytes": _OUTAGE}

Port = Annotated[int, Meta(ge=0, le=65535)]
Key = Annotated[  # what a header can hold
    str,
    Meta(
        min_length=8,
        max_length=512,
        pattern=r"^[!-+\--~]+$",
        extra_json_schema={"description": "a key of 8 to 512 printable ASCII characters without spaces or commas"},
    ),
]
StoreUrl = Annotated[
    str,
    Meta(
        pattern="^(postgresql|postgres)://",
        extra_json_schema={
            "description": "the address of a PostgreSQL database, such as postgresql://user@host/database"
        },
    ),
]
Role = Literal["decide", "read", "admin"]
SECRETS = ("key", "store")  # parts of the names of settings whose values are not shown in messages


def least_days(wait: float) -> int:
    """Return how many days Personalizer's decisions are kept at least: the wait for rewards and a day, rounded up.

    Examples
    --------
    >>> least_days(600), least_days(172800)
    (2, 3)
    """
    return math.ceil(wait / 86400 + 1)


class PersonalizerDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the bandit behind Personalizer's endpoints starts with; its configuration can be changed by its clients."""

    algorithm: str = "AdaptiveTS"
    reward_wait_time: Annotated[float, Meta(ge=5, le=172800)] = 600.0
    default_reward: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    reward_aggregation: Literal["earliest", "sum"] = "earliest"
    epsilon: Annotated[float, Meta(ge=0, le=1)] = LOGGED
    log_retention_days: Annotated[int, Meta(ge=-1, le=36500)] = 90
    seed: Annotated[int, Meta(ge=0, le=2**62)] | None = None

    def __post_init__(self) -> None:
        days, least = self.log_retention_days, least_days(self.reward_wait_time)
        if -1 != days < least:
            name, wait = "personalizer.log_retention_days", "personalizer.reward_wait_time"
            raise ConfigError(f"{name} must be -1, or at least {least}: {wait} and a day, rounded up; got {days}")


class KeySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key with a name, ``[keys.NAME]``."""

    key: Key
    role: Role
    bandits: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...] | None = None


class RaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the service is spread over a Ray cluster, with ``on = "ray"``."""

    address: str = ""
    replicas: Annotated[int, Meta(ge=1, le=10_000)] = 2
    learners: Annotated[int, Meta(ge=1, le=10_000)] = 2
    models: Annotated[int, Meta(ge=1, le=100_000)] = 100
    cpus: Annotated[float, Meta(gt=0, le=64)] = 1.0


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of the service.

    Examples
    --------
    >>> load(environment={"LIM2_PORT": "9000", "LIM2_READ_KEY": "for-the-page, for-grafana"}).read_key
    ('for-the-page', 'for-grafana')
    """

    host: str = "127.0.0.1"
    port: Port = 8300
    data: str = "lim2-data"
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    api_key: tuple[Key, ...] = ()
    decide_key: tuple[Key, ...] = ()
    read_key: tuple[Key, ...] = ()
    keys: dict[str, KeySettings] = {}
    max_body: Annotated[int, Meta(ge=1024)] = 2_000_000
    body_timeout: Annotated[float, Meta(gt=0)] = 30.0
    metrics: Literal["key", "open", "off"] = "key"
    metrics_port: Port = 0
    bandit_metrics: bool = True
    max_connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    docs: bool = True
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    access_log: bool = False
    synchronous: Literal["full", "normal"] = "full"
    poll: Annotated[float, Meta(gt=0, le=60)] = 0.25
    role: Literal["all", "decide", "learn"] = "all"
    store: StoreUrl | None = None
    open_bandits: Annotated[int, Meta(ge=1, le=100_000)] = 500
    model_bytes: Annotated[int, Meta(ge=1_000_000)] = 500_000_000
    drain: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    secure_cookie: bool = False
    demo: bool = False
    on: Literal["local", "ray"] = "local"
    personalizer: PersonalizerDefaults = PersonalizerDefaults()
    ray: RaySettings = RaySettings()


PARTS: dict[str, type[msgspec.Struct]] = {
    "personalizer": PersonalizerDefaults,
    "ray": RaySettings,
}  # settings that have settings of their own


class ConfigError(ValueError):
    """A setting that cannot be used."""


def load(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Config:
    """Return the settings; a later source replaces what an earlier one says."""
    known = os.environ if environment is None else environment
    for before, now in FORMER.items():
        if variable(before) in known:
            raise ConfigError(f"the environment: {variable(before)} was renamed: use {variable(now)}")
    for gone, why in GONE.items():
        if variable(gone) in known:
            raise ConfigError(f"the environment: {variable(gone)} is gone, remove it: {why}")
    options = {name: value for name, value in (given or {}).items() if value is not None}
    made: Config = _struct(Config, "", {} if path is None else _file(path), f"{path}: ", known, options)
    return made


def _struct(
    kind: type[Any], prefix: str, file: dict[str, Any], where: str, known: Mapping[str, str], options: dict[str, Any]
) -> Any:
    """Return settings of which each is taken from the last source that has it; a wrong one names its source."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for source, names in ((where, file), ("", options)):
        if unknown := [name for name in names if name not in fields]:
            close = difflib.get_close_matches(unknown[0], fields, n=1)
            hint = f"did you mean {prefix}{close[0]}?" if close else "docs/service/run.md lists all settings"
            if (former := f"{prefix}{unknown[0]}") in FORMER:
                hint = f"it was renamed: use {FORMER[former]}"
            if unknown[0] in GONE:
                hint = f"remove it: {GONE[unknown[0]]}"
            raise ConfigError(f"{source}there is no setting {prefix}{unknown[0]}; {hint}")
    found = {}
    for name, field in fields.items():
        if name in PARTS:
            own = _table(file, name, where)
            found[name] = _struct(PARTS[name], f"{name}.", own, where, known, options.get(name, {}))
            continue
        if name == "keys":
            own = _table(file, name, where)
            found[name] = {key: _key(key, _table(own, key, where, "keys."), where) for key in own}
            continue
        key = variable(f"{prefix}{name}")
        if name in options:
            found[name] = _value(field.type, options[name], f"{prefix}{name}", "")
        elif key in known:
            found[name] = _value(field.type, known[key], key, "the environment: ")
        elif name in file:
            found[name] = _value(field.type, file[name], f"{prefix}{name}", where)
    return kind(**found)


def _table(file: dict[str, Any], name: str, where: str, prefix: str = "") -> dict[str, Any]:
    table = file.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where}{prefix}{name} must be a table, [{prefix}{name}]")
    return table


def _key(name: str, table: dict[str, Any], where: str) -> KeySettings:
    if missing := [field for field in ("key", "role") if field not in table]:
        raise ConfigError(f"{where}keys.{name} has no {missing[0]}: it needs key and role, and may have bandits")
    settings: KeySettings = _struct(KeySettings, f"keys.{name}.", table, where, {}, {})
    return settings


def _value(kind: Any, value: Any, name: str, where: str) -> Any:
    if kind == tuple[Key, ...] and isinstance(value, str):  # separated by commas
        value = [key.strip() for key in value.split(",") if key.strip()]
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        last = name.lower().rpartition(".")[2]
        shown = "" if any(secret in last for secret in SECRETS) else f", got {value!r}"
        raise ConfigError(f"{where}{name} must be {expected(kind)}{shown}") from error


def expected(kind: Any) -> str:
    """Return what a setting takes, in words.

    Examples
    --------
    >>> expected(Port), expected(Literal["all", "decide"]), expected(Annotated[float, Meta(gt=0)])
    ('a whole number from 0 to 65535', 'all or decide', 'a number above 0')
    """
    known = msgspec.inspect.type_info(kind)
    if isinstance(known, msgspec.inspect.Metadata):
        return str((known.extra_json_schema or {})["description"])
    if isinstance(known, msgspec.inspect.UnionType):
        return expected(next(part for part in get_args(kind) if part is not type(None)))
    if isinstance(known, msgspec.inspect.LiteralType):
        *others, last = map(str, get_args(kind))
        return f"{', '.join(others)} or {last}"
    if isinstance(known, msgspec.inspect.BoolType):
        return "true or false"
    if isinstance(known, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        number = "a whole number" if isinstance(known, msgspec.inspect.IntType) else "a number"
        if known.le is None:
            return f"{number} above {known.gt}" if known.gt is not None else f"{number} of at least {known.ge}"
        return (
            f"{number} from {known.ge} to {known.le}"
            if known.ge is not None
            else f"{number} above 0 and at most {known.le}"
        )
    if kind is str:
        return "text"
    if isinstance(known, msgspec.inspect.StrType):
        return f"text of 1 to {known.max_length} characters"
    return f"a list, each {expected(get_args(kind)[0])}"


def variable(name: str) -> str:
    """Return the environment variable of a setting.

    Examples
    --------
    >>> variable("api_key"), variable("data"), variable("ray.address")
    ('LIM2_API_KEY', 'LIM2_SERVE_DATA', 'LIM2_RAY_ADDRESS')
    """
    return RENAMED.get(name, PREFIX + name.replace(".", "_").upper())


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
