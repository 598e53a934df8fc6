"""What a bandit of the service is: its description, as clients give it and as its catalog keeps it."""

import functools
import re
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from inspect import signature
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from lim2.agents import AGENTS, replacement
from lim2.bandit import Bandit
from lim2.checks import LARGEST
from lim2.control import Control
from lim2.encoding import Encoder
from lim2.exploration.epsilon import LOGGED
from lim2.log.rules import ALWAYS
from lim2.matching import Matching
from lim2.persistence import LoadError
from lim2.persistence.agents import current_settings
from lim2.serve.errors import bad_request

START = "start"  # the kind of documents that are models to start from
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

FEW_ARMS = 3  # whose model is made without looking how large it would be

# Names that are not settings of an algorithm, and what to use instead.
TAKEN = {
    **{name: f"the field {name}" for name in ("arms", "algorithm", "seed", "encoder", "item_encoder", "epsilon")},
    "min_propensity": "the field epsilon",
    "log": "expire_after, default_reward, aggregate and keep_days",
}

LearningMode = Literal["Online", "Apprentice", "LoggingOnly"]
Aggregate = Literal["first", "last", "sum", "mean", "max"]
ArmName = Annotated[str, Meta(min_length=1, max_length=256)]
Arms = Annotated[list[ArmName], Meta(min_length=1, max_length=1000)]
ArmFeatures = Annotated[dict[ArmName, dict[str, Any]], Meta(max_length=1000)]
Setting = bool | int | float | str | list[int | float] | None


class EncoderSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How raw contexts or items are turned into vectors: columns for numbers, buckets for everything else.

    ``times``: whether a string in ISO format is a date or time. If not, it is a category, like any other string.
    """

    numbers: Annotated[int, Meta(ge=0, le=256)] = 16
    buckets: Annotated[int, Meta(ge=8, le=1024)] = 64
    hashes: Annotated[int, Meta(ge=1, le=8)] = 2
    times: bool = True


CATEGORIES = EncoderSpec(buckets=32, times=False)  # for Personalizer's clients, whose strings are categories


class ControlSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A control group: a rule that decides for a share of the traffic, by chance.

    ``rule``: ``always:ARM`` or the name of an arm, ``uniform``, or ``first``, the first candidate. ``share``: with 1
    the rule always decides, and the log says what the bandit would have chosen.
    """

    rule: Annotated[str, Meta(min_length=1, max_length=300)]
    share: Annotated[float, Meta(ge=0, le=1)] = 0.1


class BanditSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a bandit.

    ``arms``: names, or features by name, or null if items are part of every request. ``algorithm``: the agent;
    ``settings``: its settings. ``epsilon``: the share of decisions that are drawn uniformly among the eligible
    arms or items, so that the log can be evaluated. ``expire_after``: seconds until a decision without a
    reward expires; null means never. ``default_reward``: the reward of an expired decision; null means that the
    decision is dropped. ``aggregate``: which of several rewards of a decision counts; null means that there is only
    one, and a different second one is refused. ``keep_days``: how long decisions are kept; null means forever.
    ``control``: the control group; null means that the bandit decides alone. ``reward_range``: the smallest and the
    largest reward, for proofs; null means 0 to 1. ``pin``: an arm that all traffic gets, whatever the bandit chooses;
    ``paused``: whether rewards are recorded, but nothing is learned from them until it is false again. ``sticky``:
    seconds in which the same key gets the same decision again, as long as its arm is eligible; null means never.
    """

    arms: Arms | ArmFeatures | None = None
    algorithm: Annotated[str, Meta(max_length=64)] = "AdaptiveTS"
    settings: dict[str, Setting] = {}
    epsilon: Annotated[float, Meta(ge=0, le=1)] = LOGGED
    encoder: EncoderSpec | None = None
    item_encoder: EncoderSpec | None = None
    expire_after: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    default_reward: Annotated[float, Meta(ge=-1e12, le=1e12)] | None = None
    aggregate: Aggregate | None = None
    keep_days: Annotated[float, Meta(gt=0, le=36500)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    control: ControlSpec | None = None
    reward_range: Annotated[list[float], Meta(min_length=2, max_length=2)] | None = None
    pin: ArmName | None = None
    paused: bool = False
    sticky: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class PersonalizerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What only the bandit behind Personalizer's endpoints has."""

    learning_mode: LearningMode = "Online"
    edited: float | None = None  # when a client changed a setting, in seconds


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a bandit beside its log; written whole, so that all processes read the same."""

    spec: BanditSpec
    created: float
    revision: int = 0
    start: int = 0
    start_file: str | None = None
    log: str = "log.db"
    personalizer: PersonalizerSettings | None = None


def read_stored(content: bytes | str) -> Stored:
    """Return a description from JSON.

    One of lim2 0.2 or earlier has ``exploration`` in place of ``epsilon``, and its agent may have settings that it no
    longer has.

    Examples
    --------
    >>> read_stored('{"spec": {"arms": ["a", "b"], "exploration": 0.1}, "created": 0}').spec.epsilon
    0.1
    """
    raw = msgspec.json.decode(content)
    match raw:
        case {"spec": {"exploration": _} as spec} if "epsilon" not in spec:
            spec["epsilon"] = spec.pop("exploration")
    match raw:
        case {"spec": {"algorithm": str(name), "settings": dict(settings)} as spec}:
            with suppress(LoadError):  # what has no place today is refused when the bandit is opened
                today, values = current_settings(name, settings)
                if not any(isinstance(value, Matching) for value in values.values()):
                    spec["algorithm"], spec["settings"] = today, values
    return msgspec.convert(raw, Stored)


def checked_name(name: str) -> str:
    """Return the name of a bandit, or say what is wrong with it; it may become a folder's name."""
    if not NAME.fullmatch(name):
        raise bad_request(
            "the name of a bandit has 1 to 64 letters, digits, '.', '_' or '-', and begins with a letter or a digit",
            "name",
        )
    return name


def made(spec: BanditSpec) -> Bandit:
    """Return the fresh bandit that a description is of; an ApiError if there is none.

    Examples
    --------
    >>> made(BanditSpec(arms=["a", "b"], algorithm="LinearTS", seed=0))
    Bandit(arms=['a', 'b'], algorithm='LinearTS', rounds=0)
    """
    encoders: dict[str, Any] = {}
    for name in ("encoder", "item_encoder"):
        own: EncoderSpec | None = getattr(spec, name)
        if own is not None:
            encoders[name] = Encoder(numbers=own.numbers, buckets=own.buckets, hashes=own.hashes, times=own.times)
    for name in spec.settings:
        if name in TAKEN:
            raise bad_request(f"{name!r} is no setting of an algorithm here: use {TAKEN[name]}", "settings")
        if spec.algorithm in AGENTS and name not in (known := settings_of(spec.algorithm)):
            instead = replacement(spec.algorithm, name) or f"it has {', '.join(known)}"
            raise bad_request(f"{spec.algorithm} has no setting {name!r}: {instead}", "settings")
    settings: dict[str, Any] = {**encoders, **spec.settings}
    check_control(spec, spec.arms)
    try:
        return Bandit(spec.arms, algorithm=spec.algorithm, epsilon=spec.epsilon, seed=spec.seed, **settings)
    except (ValueError, TypeError, OverflowError, MemoryError, ModuleNotFoundError) as error:
        raise bad_request(f"invalid bandit: {error}", "spec") from error


def check_control(spec: BanditSpec, arms: Iterable[Any] | None) -> None:
    """Raise an ApiError if the control names an arm that is not there, or the range of rewards is empty."""
    try:
        for control in (None if spec.control is None else Control(spec.control.rule), _pinned(spec.pin)):
            if control is not None:
                control.check_arms(arms)
    except ValueError as error:
        raise bad_request(str(error), "control") from error
    ends = spec.reward_range
    if ends is not None and not -LARGEST < ends[0] < ends[1] < LARGEST:
        raise bad_request(f"reward_range must be [smallest, largest], such as [0, 50], got {ends}", "reward_range")


def control_of(spec: BanditSpec) -> Control | None:
    """Return the control of a bandit: that of an arm that is pinned, or of its control group."""
    return _control(spec.control, spec.pin)


@functools.lru_cache
def _control(control: ControlSpec | None, pin: str | None) -> Control | None:
    return _pinned(pin) or (None if control is None else Control(control.rule, control.share))


def _pinned(arm: str | None) -> Control | None:
    return None if arm is None else Control(f"{ALWAYS}:{arm}", 1.0)


def settings_of(algorithm: str) -> list[str]:
    """Return the names of the settings that an algorithm has here.

    Examples
    --------
    >>> settings_of("Uniform")
    ['initial_pulls']
    """
    names = signature(AGENTS[algorithm]).parameters
    objects = ("representation", "n_arms", "n_features", "n_item_features")  # that JSON does not have, or that follow
    return [name for name in names if name not in TAKEN and name not in objects]


def kept_for(stored: Stored) -> timedelta | None:
    """Return for how long the log of a bandit keeps decisions; None: forever."""
    days = stored.spec.keep_days
    return None if days is None else timedelta(days=days)


def checksum(stored: Stored) -> int:
    """Return what differs between descriptions that differ."""
    return zlib.crc32(msgspec.json.encode(stored))


def check_size(spec: BanditSpec, most: int) -> None:
    """Raise an ApiError if the model of a bandit would have more bytes than that.

    It is computed from small bandits: each arm without features takes as much as any other.

    Examples
    --------
    >>> check_size(BanditSpec(arms=["a", "b", "c"]), 10**7)
    >>> check_size(BanditSpec(arms=[f"arm {number}" for number in range(1000)]), 10**7)
    Traceback (most recent call last):
    lim2.serve.errors.ApiError: a model of 1000 arms would have ... MB, and at most 10 MB are allowed: ...
    """
    arms = spec.arms if isinstance(spec.arms, list) else []
    if len(arms) <= FEW_ARMS:
        return
    one, two = (made(msgspec.structs.replace(spec, arms=arms[:count])).nbytes for count in (1, 2))
    size = one + (len(arms) - 1) * (two - one)
    if size > most:
        message = (
            f"a model of {len(arms)} arms would have {size / 1e6:.0f} MB, and at most {most / 1e6:.0f} MB are allowed: "
            "use fewer arms, arms with features, a smaller encoder, or raise model_bytes"
        )
        raise bad_request(message, "spec")


def now() -> float:
    """Return the time in seconds."""
    return time.time()
