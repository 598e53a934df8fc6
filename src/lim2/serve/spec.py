"""What a bandit of the service is: its description, as clients give it and as its folder keeps it."""

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from lim2.bandit import Bandit
from lim2.encoding import Encoder
from lim2.serve.errors import bad_request

FILE = "bandit.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

# Names that are not settings of an algorithm, and what to use instead.
TAKEN = {
    **{name: f"the field {name}" for name in ("arms", "algorithm", "seed", "encoder", "item_encoder")},
    "min_propensity": "the field exploration",
    "log": "expire_after, default_reward, aggregate and keep_days",
}

Aggregate = Literal["first", "last", "sum", "mean", "max"]
ArmName = Annotated[str, Meta(min_length=1, max_length=256)]
Setting = bool | int | float | str | None


class EncoderSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How raw contexts or items become vectors: columns for numbers, buckets for everything else."""

    numbers: Annotated[int, Meta(ge=0, le=256)] = 16
    buckets: Annotated[int, Meta(ge=8, le=1024)] = 64
    hashes: Annotated[int, Meta(ge=1, le=8)] = 2


class BanditSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a bandit chooses from, what learns, and how its rewards are counted.

    ``arms``: names; or features by name; or null: items come with every call. ``exploration`` is the share of decisions
    that are drawn evenly, on top of what the algorithm explores by itself, so that the log can be evaluated.
    ``expire_after`` are seconds until ``default_reward`` stands in for a reward that did not come (null: it is
    dropped). ``aggregate`` says what several rewards of one decision count as; null: there is one, and a different
    second one is refused. ``keep_days`` bounds the log.
    """

    arms: Annotated[list[ArmName], Meta(min_length=1, max_length=1000)] | dict[ArmName, dict[str, Any]] | None = None
    algorithm: Annotated[str, Meta(max_length=64)] = "AdaptiveTS"
    settings: dict[str, Setting] = {}
    exploration: Annotated[float, Meta(ge=0, le=1)] = 0.05
    encoder: EncoderSpec | None = None
    item_encoder: EncoderSpec | None = None
    expire_after: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    default_reward: Annotated[float, Meta(ge=-1e12, le=1e12)] | None = None
    aggregate: Aggregate | None = None
    keep_days: Annotated[float, Meta(gt=0, le=36500)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class PersonalizerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What only Personalizer's clients ask for."""

    learning_mode: Literal["Online", "Apprentice", "LoggingOnly"] = "Online"
    apprentice_since: float | None = None
    policy_name: str = "lim2"
    policy_arguments: str = "--algorithm AdaptiveTS"
    model_export_frequency: float = 60.0
    model_retrain_days: int = 0
    log_retention_days: int = 90
    log_mirror_enabled: bool = False
    log_mirror_sas_uri: str = ""
    auto_optimization: bool = False
    auto_optimization_frequency: float = 604800.0
    auto_optimization_start: str | None = None
    edited: float | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder of a bandit keeps beside its log; written whole, so that all processes read the same.

    Parameters
    ----------
    spec
        What the bandit is.
    created
        When it was made, in seconds.
    revision
        Changes whenever the model must be made anew. Whoever learns makes the model of the latest revision.
    start
        The position of the log from which the model of this revision learns.
    start_file
        The model that it starts from; None: a fresh one.
    log
        The file of the log. Deleting all decisions begins another.
    personalizer
        What Personalizer's clients ask for; None for a bandit of the native protocol.
    """

    spec: BanditSpec
    created: float
    revision: int = 0
    start: int = 0
    start_file: str | None = None
    log: str = "log.db"
    personalizer: PersonalizerSettings | None = None


def checked_name(name: str) -> str:
    """Return the name of a bandit, or say what is wrong with it; it is a folder's name, too.

    Parameters
    ----------
    name
        What the client sent.
    """
    if not NAME.fullmatch(name):
        raise bad_request(
            "the name of a bandit has 1 to 64 letters, digits, '.', '_' or '-', and begins with a letter or a digit",
            "name",
        )
    return name


def made(spec: BanditSpec) -> Bandit:
    """Return the fresh bandit that a description is of; an ApiError if there is none.

    Parameters
    ----------
    spec
        The description.

    Examples
    --------
    >>> made(BanditSpec(arms=["a", "b"], algorithm="LinearTS", seed=0))
    Bandit(arms=['a', 'b'], algorithm='LinearTS', rounds=0)
    """
    encoders: dict[str, Any] = {}
    for name in ("encoder", "item_encoder"):
        own: EncoderSpec | None = getattr(spec, name)
        if own is not None:
            encoders[name] = Encoder(numbers=own.numbers, buckets=own.buckets, hashes=own.hashes)
    for name in spec.settings:
        if name in TAKEN:
            raise bad_request(f"{name!r} is no setting of an algorithm here: use {TAKEN[name]}", "settings")
    plain = isinstance(spec.arms, list)
    floor = spec.exploration / len(spec.arms) if plain and spec.arms else spec.exploration
    settings: dict[str, Any] = {"min_propensity": floor, **spec.settings}
    try:
        return Bandit(spec.arms, algorithm=spec.algorithm, seed=spec.seed, **encoders, **settings)
    except (ValueError, TypeError, OverflowError, MemoryError, ModuleNotFoundError) as error:
        raise bad_request(f"no bandit can be made of this: {error}", "spec") from error


def kept_for(stored: Stored) -> timedelta | None:
    """Return for how long the log of a bandit keeps decisions; None: forever.

    Parameters
    ----------
    stored
        What its folder keeps.
    """
    days = stored.spec.keep_days
    return None if days is None else timedelta(days=days)


# Files


def read(folder: Path) -> Stored:
    """Return what a folder keeps; FileNotFoundError if it is not there.

    Parameters
    ----------
    folder
        Of the bandit.
    """
    return msgspec.json.decode((folder / FILE).read_bytes(), type=Stored)


def write(folder: Path, stored: Stored) -> None:
    """Keep a description, whole or not at all.

    Parameters
    ----------
    folder
        Of the bandit.
    stored
        What to keep.
    """
    replace_file(folder / FILE, msgspec.json.format(msgspec.json.encode(stored)))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, and onto the disk.

    Parameters
    ----------
    path
        The file.
    content
        What it holds then.
    """
    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the right to change what a folder keeps, among all processes; it ends with the process at the latest.

    Parameters
    ----------
    folder
        Of the bandit, or of all.
    """
    import fcntl

    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def now() -> float:
    """Return the time in seconds."""
    return time.time()
