"""What clients of the native protocol send and receive."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from lim2.serve.audit import AuditEntry
from lim2.serve.config import Role
from lim2.serve.spec import ArmName, BanditSpec, ControlSpec, LearningMode, Setting

Id = Annotated[str, Meta(min_length=1, max_length=256)]
Features = dict[str, Any]
Finite = Annotated[float, Meta(ge=-1e12, le=1e12)]
RewardStatus = Literal["recorded", "duplicate", "late", "ignored"]
MOST = 1000  # candidates of a call, and parts of a call about many


class DecideRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for a decision.

    ``items``: features by name, for a bandit whose items are part of every request. ``arms``: the eligible arms; null
    means all. ``exploit``: true for the choice with the highest expected reward, without exploration. ``id``: your own
    id of the decision; a request with the same id gets the same answer. ``key``: the person whose data this is, for
    ``erase``. ``active``: false if the reward counts only after ``activate``.
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
    """The choice, its probability, and the probabilities of all candidates.

    ``group``: ``control`` if the rule of the control group decided, ``bandit`` if not; null without a control.
    """

    id: str
    arm: str
    propensity: float
    arms: list[str]
    propensities: list[float]
    group: str | None
    recorded: bool = True


class RankRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for a slate. ``k``: the number of arms or items in it; null means all."""

    context: Features = {}
    items: Annotated[dict[ArmName, Features], Meta(min_length=1, max_length=MOST)] | None = None
    arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MOST)] | None = None
    k: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    exploit: bool = False
    id: Id | None = None
    key: Id | None = None
    metadata: dict[str, Any] | None = None


class RankedArm(msgspec.Struct):
    """A position of a slate. ``propensity`` is the probability that this arm or item is first."""

    arm: str
    propensity: float


class RankResponse(msgspec.Struct, kw_only=True):
    """A slate, in order. Give rewards by its id and the position, counted from 1."""

    id: str
    ranking: list[RankedArm]
    recorded: bool = True


class DecideManyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several decisions. Either all are made and logged, or none."""

    requests: Annotated[list[DecideRequest], Meta(min_length=1, max_length=MOST)]


class DecideManyResponse(msgspec.Struct):
    """The decisions, in the order of the requests."""

    decisions: list[DecideResponse]


class RewardRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The reward of a decision; for a slate, rewards by position: ``{"2": 1.0}``.

    ``name``: a name of this reward. A reward with the same name is counted only once, even if rewards are summed.
    """

    id: Id
    reward: Finite | Annotated[dict[str, Finite], Meta(min_length=1, max_length=MOST)]
    name: Id | None = None


class RewardResponse(msgspec.Struct):
    """The status of a reward; for a slate, by position.

    ``recorded``: the reward is in the log. ``duplicate``: the log already had it. ``late``: it is logged, but not
    learned. ``ignored``: another reward counts.
    """

    status: RewardStatus | dict[str, RewardStatus]


class RewardManyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several rewards. Either all are recorded, or none."""

    rewards: Annotated[list[RewardRequest], Meta(min_length=1, max_length=MOST)]


class RewardManyResponse(msgspec.Struct):
    """The statuses, in the order of the rewards."""

    statuses: list[RewardStatus]


class ActivateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The decision that was shown."""

    id: Id


class ActivateResponse(msgspec.Struct):
    """Whether the decision is active now; false if it expired before it was activated."""

    activated: bool


class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The decision to explain."""

    id: Id


class Reason(msgspec.Struct):
    """What one key adds to the expected score of the chosen arm or item."""

    key: str
    value: Any
    source: Literal["context", "item"]
    contribution: float


class ExplainResponse(msgspec.Struct):
    """The reasons according to the current model, the largest first."""

    id: str
    arm: str
    reasons: list[Reason]


class Estimate(msgspec.Struct):
    """A value and its 95% interval."""

    value: float | None
    low: float | None
    high: float | None


class EvaluateRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for an estimate of what another policy would have earned.

    ``policy``: ``baseline`` always chooses the first candidate. ``random`` chooses uniformly. ``best`` chooses without
    exploration; it is trained on the first half of the decisions and evaluated on the second. ``algorithm`` is the same
    with another ``algorithm``. ``last``: the number of decisions to use, the newest ones.
    """

    policy: Literal["baseline", "random", "best", "algorithm"] = "baseline"
    algorithm: Annotated[str, Meta(max_length=64)] | None = None
    last: Annotated[int, Meta(ge=2, le=50_000)] = 20_000


class EvaluateResponse(msgspec.Struct, kw_only=True):
    """Estimates of what a policy would have earned, with 95% intervals.

    ``left_out``: the number of latest decisions that do not count yet. The first of them still waits for its reward.
    """

    policy: str
    decisions: int
    left_out: int
    effective_decisions: float | None
    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    warnings: list[str]


class ProofRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for a proof that the bandit earns more than a rule.

    ``against``: ``always:ARM`` or the name of an arm, ``uniform``, or ``first``, the first candidate; null means the
    rule of the control group, or without one ``first``. ``reward_range``: the smallest and the largest reward; rewards
    beyond are capped; null means that of the bandit, or 0 to 1.
    """

    against: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    reward_range: Annotated[list[Finite], Meta(min_length=2, max_length=2)] | None = None


class CurvePoint(msgspec.Struct):
    """Gain and its interval after a number of decisions."""

    decisions: int
    gain: float
    low: float | None
    high: float | None


class ControlShare(msgspec.Struct):
    """A share of traffic for which the rule would decide, and the number of decisions that a verdict would take."""

    share: float
    decisions: int


class ProofResponse(msgspec.Struct, kw_only=True):
    """The gain over a rule, with an interval that is valid however often one looks; see ``lim2.DecisionLog.proof``.

    ``gain``: reward per decision minus that of the rule. ``relative``: the same as a share of the rule's reward.
    ``decisions``: how many count; ``proved_after``: since how many the verdict has held;
    ``decisions_to_verdict``: how many more a verdict takes if all goes on as it did. ``control_share``: a share of
    traffic that would lead to a verdict sooner if the rule decided for it, and after how many decisions. ``waiting``:
    decisions that do not count yet. ``text``: all of it in words.
    """

    rule: str
    verdict: Literal["proved better", "proved worse", "not yet"]
    gain: float | None
    interval: list[float | None]
    relative: float | None
    relative_interval: list[float | None]
    decisions: int
    proved_after: int | None
    decisions_to_verdict: int | None
    control_share: ControlShare | None
    effective_rewarded: float
    mean_reward: float | None
    reward_range: list[float] | None
    capped: int
    uncovered: int
    missing: int
    waiting: int
    deleted: bool
    skipped: int
    level: float
    curve: list[CurvePoint]
    warnings: list[str]
    text: str


class EraseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The key of the person whose decisions are erased."""

    key: Id


class EraseResponse(msgspec.Struct):
    """The number of erased decisions."""

    erased: int


class ArmRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new arm. ``like``: an arm whose state is copied; ``features``: its features, if the arms have features."""

    name: ArmName
    like: ArmName | None = None
    features: Features | None = None


class Arms(msgspec.Struct):
    """The arms of a bandit."""

    arms: list[str]


class BanditInfo(msgspec.Struct, kw_only=True):
    """A bandit and its counts. ``arms``: the current arms; ``spec`` has the arms at its creation.

    ``learning_mode``: null but for the bandit behind Personalizer's endpoints.
    """

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
    learning_mode: LearningMode | None


class Page(msgspec.Struct):
    """A page of a list. ``after``: the ``next`` of the previous page; empty for the first page."""

    after: Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{0,64}$")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST)] = 100


class Bandits(msgspec.Struct):
    """A page of the list of bandits.

    ``next``: the ``after`` of the next page, null on the last page. ``total``: the number of all bandits.
    """

    bandits: list[BanditInfo]
    next: str | None
    total: int


class SettingsRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """New settings of a bandit. A field that is left out does not change.

    ``algorithm``, ``settings``: another algorithm, or other settings of it; it learns the whole log again.
    ``learning_mode``: only of the bandit behind Personalizer's endpoints. ``Apprentice`` answers with the first action
    and learns from it; ``LoggingOnly`` also answers with it, and learns nothing until the mode changes.
    ``control``: the control group and its share; null ends it. ``reward_range``: for proofs.
    ``pin``: an arm that all traffic gets; null ends it. ``paused``: whether nothing is learned.
    ``sticky``: seconds in which the same key gets the same decision.
    """

    expire_after: Annotated[float, Meta(gt=0, le=1000000000.0)] | msgspec.UnsetType | None = msgspec.UNSET
    default_reward: Finite | msgspec.UnsetType | None = msgspec.UNSET
    aggregate: Literal["first", "last", "sum", "mean", "max"] | msgspec.UnsetType | None = msgspec.UNSET
    keep_days: Annotated[float, Meta(gt=0, le=36500)] | msgspec.UnsetType | None = msgspec.UNSET
    epsilon: Annotated[float, Meta(ge=0, le=1)] | msgspec.UnsetType = msgspec.UNSET
    algorithm: Annotated[str, Meta(max_length=64)] | msgspec.UnsetType = msgspec.UNSET
    settings: dict[str, Setting] | msgspec.UnsetType = msgspec.UNSET
    control: ControlSpec | msgspec.UnsetType | None = msgspec.UNSET
    pin: ArmName | msgspec.UnsetType | None = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    sticky: Annotated[float, Meta(gt=0, le=1e9)] | msgspec.UnsetType | None = msgspec.UNSET
    reward_range: Annotated[list[Finite], Meta(min_length=2, max_length=2)] | msgspec.UnsetType | None = msgspec.UNSET
    learning_mode: LearningMode | msgspec.UnsetType = msgspec.UNSET


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """The key to log in with."""

    key: Annotated[str, Meta(max_length=512)]


class LoginResponse(msgspec.Struct, kw_only=True):
    """What the key may do, its name in the settings, and the bandits that it is for; null means all.

    ``role`` and ``name`` are null if the request has neither a key nor a login.
    """

    role: Role | None
    name: str | None
    bandits: list[str] | None


class Latest(msgspec.Struct):
    """The number of entries, the newest ones."""

    limit: Annotated[int, Meta(ge=1, le=MOST)] = 100


class AuditEntries(msgspec.Struct):
    """Entries of the audit log, the latest first."""

    entries: list[AuditEntry]


class Health(msgspec.Struct):
    """The answer of a process that runs."""

    status: str = "ok"


class Readiness(msgspec.Struct, kw_only=True):
    """Whether requests should be sent to this process, and if not, why.

    ``degraded``: something does not work, but decisions are made. ``failures``: bandits that cannot learn or be opened,
    with the kind of error; ``GET /v1/bandits/{name}`` says more. ``draining``: the process is about to end.
    ``database_unreachable``: seconds since the connection was lost; null if the database is reachable.
    """

    ready: bool
    degraded: bool
    role: Literal["all", "decide", "learn"]
    bandits: int
    failures: dict[str, str]
    draining: bool
    database_unreachable: float | None


# The page


class Point(msgspec.Struct, kw_only=True):
    """Consecutive decisions, and the means of all decisions up to the last of them."""

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
    """A decision as the dashboard shows it."""

    id: str
    time: float
    arm: str
    propensity: float
    arms: list[str]
    propensities: list[float]
    status: str
    reward: float | None
    position: int
    group: str | None


class Contribution(msgspec.Struct, kw_only=True):
    """What a key adds to the expected score of the chosen arm or item, over recent decisions."""

    key: str
    source: Literal["context", "item"]
    mean: float
    mean_absolute: float
    decisions: int


class Overview(msgspec.Struct, kw_only=True):
    """The figures of a bandit that the dashboard shows.

    ``left_out``: the number of latest decisions that the estimates leave out. The first of them still waits for its
    reward. ``only``: the number of decisions that it covers, if there is no memory for all that were asked for.
    """

    bandit: BanditInfo
    time: float
    left_out: int
    only: int | None
    online: Estimate
    baseline: Estimate
    proof: ProofResponse
    points: list[Point]
    arms: list[str]
    shares: dict[str, float]
    learned: list[Contribution]
    latest: list[Decided]


class Live(msgspec.Struct):
    """What the dashboard updates once a second: a bandit, and the number of bandits."""

    bandit: BanditInfo
    total: int


class Points(msgspec.Struct):
    """The number of points of the overview, and the number of decisions that it covers."""

    points: Annotated[int, Meta(ge=2, le=500)] = 100
    last: Annotated[int, Meta(ge=10, le=20_000)] = 5000
