"""What clients of the native protocol send and receive."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from lim2.serve.spec import ArmName, BanditSpec

Id = Annotated[str, Meta(min_length=1, max_length=256)]
Features = dict[str, Any]
Finite = Annotated[float, Meta(ge=-1e12, le=1e12)]
Outcome = Literal["recorded", "duplicate", "late", "ignored", "spooled"]
MOST = 1000  # candidates of a call, and parts of a call about many


class DecideRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The question which arm or item to take in this context.

    ``items``: features by name, for a bandit whose items come with every call. ``arms``: the eligible ones; null: all.
    ``id``: a name of your own; the same again gets the same answer. ``key``: whose data this is, for erasure.
    ``active``: false if its reward counts only once it is activated.
    """

    context: Features = {}
    items: Annotated[dict[ArmName, Features], Meta(min_length=1, max_length=MOST)] | None = None
    arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MOST)] | None = None
    exploit: bool = False
    id: Id | None = None
    key: Id | None = None
    metadata: dict[str, Any] | None = None
    active: bool = True


class DecideResponse(msgspec.Struct, kw_only=True):
    """What was chosen, with which probability, and the probabilities of all candidates."""

    id: str
    arm: str
    propensity: float
    arms: list[str]
    propensities: list[float]


class RankRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The question in which order to show arms or items. ``k``: how many; null: all."""

    context: Features = {}
    items: Annotated[dict[ArmName, Features], Meta(min_length=1, max_length=MOST)] | None = None
    arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MOST)] | None = None
    k: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    exploit: bool = False
    id: Id | None = None
    key: Id | None = None
    metadata: dict[str, Any] | None = None


class RankedArm(msgspec.Struct):
    """A position of a slate; ``propensity`` is the probability of being first."""

    arm: str
    propensity: float


class RankResponse(msgspec.Struct, kw_only=True):
    """A slate: what is shown, in order. Rewards are given by its id and the position, from 1."""

    id: str
    ranking: list[RankedArm]


class DecideManyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several decisions; all are made and written down, or none."""

    requests: Annotated[list[DecideRequest], Meta(min_length=1, max_length=MOST)]


class DecideManyResponse(msgspec.Struct):
    """The decisions, in the order of the requests."""

    decisions: list[DecideResponse]


class RewardRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a decision has earned; of a slate, rewards by position: ``{"2": 1.0}``.

    ``name``: a name of this one reward, so that a retry counts once where rewards are summed.
    """

    id: Id
    reward: Finite | Annotated[dict[str, Finite], Meta(min_length=1, max_length=MOST)]
    name: Id | None = None


class RewardResponse(msgspec.Struct):
    """``recorded``; ``duplicate``: it was known; ``late``: logged, not learned; ``ignored``: another one counts.

    ``spooled``: it is on disk until the database is back; what becomes of it is known then.
    """

    outcome: Outcome | dict[str, Outcome]


class RewardManyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several rewards; all are recorded, or none."""

    rewards: Annotated[list[RewardRequest], Meta(min_length=1, max_length=MOST)]


class RewardManyResponse(msgspec.Struct):
    """Outcomes, in the order of the rewards."""

    outcomes: list[Outcome]


class ActivateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which decision was shown."""

    id: Id


class ActivateResponse(msgspec.Struct):
    """Whether this call has activated it; false if it was active."""

    activated: bool


class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which decision to explain."""

    id: Id


class Reason(msgspec.Struct):
    """What one key adds to the expected score of what was chosen."""

    key: str
    value: Any
    source: Literal["context", "item"]
    contribution: float


class ExplainResponse(msgspec.Struct):
    """Reasons, the largest first, by what is believed now."""

    id: str
    arm: str
    reasons: list[Reason]


class Estimate(msgspec.Struct):
    """A value and its 95% interval."""

    value: float | None
    low: float | None
    high: float | None


class EvaluateRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The question what another policy would have earned.

    ``policy``: ``baseline``, always the first candidate; ``random``; ``best``, the model's best guess, trained on the
    first half of the decisions and evaluated on the second; or ``algorithm``, the same for another algorithm.
    ``last``: only the newest decisions, as many.
    """

    policy: Literal["baseline", "random", "best", "algorithm"] = "baseline"
    algorithm: Annotated[str, Meta(max_length=64)] | None = None
    last: Annotated[int, Meta(ge=2, le=50_000)] = 20_000


class EvaluateResponse(msgspec.Struct, kw_only=True):
    """What the log says about a policy; see docs/production.md."""

    policy: str
    decisions: int
    effective_decisions: float | None
    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    warnings: list[str]


class EraseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Whose data to erase."""

    key: Id


class EraseResponse(msgspec.Struct):
    """How many decisions were erased."""

    erased: int


class ArmRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new arm. ``like``: an arm to start as; ``features``: its own, where arms have some."""

    name: ArmName
    like: ArmName | None = None
    features: Features | None = None


class Arms(msgspec.Struct):
    """The arms of a bandit."""

    arms: list[str]


class BanditInfo(msgspec.Struct, kw_only=True):
    """A bandit and how it is doing. ``arms``: those of now; ``spec`` has those that it was made with."""

    name: str
    spec: BanditSpec
    arms: list[str] | None
    created: float
    decisions: int
    rewards: int
    pending: int
    late: int
    dropped: int
    defaults: int
    lag: int
    rounds: int
    leads: bool
    failure: str | None
    bytes: int


class Page(msgspec.Struct):
    """Which part of a list. ``after``: ``next`` of the part before; empty for the first part."""

    after: Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{0,64}$")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST)] = 100


class Bandits(msgspec.Struct):
    """A page of the list of all bandits. ``next``: ``after`` of the next page, null on the last; ``total``: of all."""

    bandits: list[BanditInfo]
    next: str | None
    total: int


class SettingsRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How rewards are counted from now on; what is left out stays as it is."""

    expire_after: Annotated[float, Meta(gt=0, le=1000000000.0)] | msgspec.UnsetType | None = msgspec.UNSET
    default_reward: Finite | msgspec.UnsetType | None = msgspec.UNSET
    aggregate: Literal["first", "last", "sum", "mean", "max"] | msgspec.UnsetType | None = msgspec.UNSET
    keep_days: Annotated[float, Meta(gt=0, le=36500)] | msgspec.UnsetType | None = msgspec.UNSET
    exploration: Annotated[float, Meta(ge=0, le=1)] | msgspec.UnsetType = msgspec.UNSET


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """The key to log in with."""

    key: Annotated[str, Meta(max_length=512)]


class LoginResponse(msgspec.Struct):
    """What the key may do."""

    role: Literal["full", "read"]


class Health(msgspec.Struct):
    """That the process answers."""

    status: str = "ok"


class Readiness(msgspec.Struct, kw_only=True):
    """Whether requests should be sent here, and what hinders.

    ``failures``: bandits that cannot learn, and why. ``draining``: the process is about to end.
    ``database_unreachable``: seconds since the connection was lost; null: the database answers.
    ``spooled_bytes``: writes that wait on disk for the database; null: writes are refused instead.
    """

    ready: bool
    role: Literal["all", "decide", "learn"]
    bandits: int
    failures: dict[str, str]
    draining: bool
    database_unreachable: float | None
    spooled_bytes: int | None


# The page


class Point(msgspec.Struct, kw_only=True):
    """Some decisions that follow one another in time, and the means up to their end."""

    time: float
    decisions: int
    rewarded: int
    reward: Estimate
    online: Estimate
    baseline: Estimate
    propensity: float
    exploration: float
    shares: dict[str, float]


class Decided(msgspec.Struct, kw_only=True):
    """A decision as the page shows it."""

    id: str
    time: float
    arm: str
    propensity: float
    arms: list[str]
    propensities: list[float]
    status: str
    reward: float | None
    position: int


class Contribution(msgspec.Struct, kw_only=True):
    """What a key adds to the expected score of what was chosen, over recent decisions."""

    key: str
    source: Literal["context", "item"]
    mean: float
    mean_absolute: float
    decisions: int


class Overview(msgspec.Struct, kw_only=True):
    """What the page shows of a bandit."""

    bandit: BanditInfo
    time: float
    online: Estimate
    baseline: Estimate
    gain: Estimate
    points: list[Point]
    arms: list[str]
    shares: dict[str, float]
    learned: list[Contribution]
    latest: list[Decided]


class Live(msgspec.Struct):
    """What the page updates once a second: a bandit, and how many bandits there are."""

    bandit: BanditInfo
    total: int


class Points(msgspec.Struct):
    """How fine the overview is, and how far it reaches back."""

    points: Annotated[int, Meta(ge=2, le=500)] = 100
    last: Annotated[int, Meta(ge=10, le=20_000)] = 5000
