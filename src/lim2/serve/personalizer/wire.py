"""What Personalizer's clients send and receive, named as they name it."""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Id = Annotated[str, Meta(min_length=1, max_length=256)]
EventId = Annotated[str, Meta(max_length=256)]
Reward = Annotated[float, Meta(ge=-1, le=1)]
Features = list[dict[str, Any]]
MOST = 50  # actions, and slots
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # characters that no event id has; slots are marked by one


class RankableAction(msgspec.Struct, rename="camel"):
    """An action and its features."""

    id: Id
    features: Features | None = None


class RankRequest(msgspec.Struct, rename="camel"):
    """A request to choose one of the actions."""

    actions: Annotated[list[RankableAction], Meta(min_length=1, max_length=MOST)]
    context_features: Features | None = None
    excluded_actions: list[str] | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class RankedAction(msgspec.Struct, rename="camel"):
    """An action and the probability with which it was chosen."""

    id: str
    probability: float


class RankResponse(msgspec.Struct, rename="camel"):
    """The action to show, and the probabilities of all actions."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardRequest(msgspec.Struct):
    """The reward of an event."""

    value: Reward


class SlotRequest(msgspec.Struct, rename="camel"):
    """A slot, and the action that the application itself would show in it."""

    id: Id
    baseline_action: Id
    features: Features | None = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(msgspec.Struct, rename="camel"):
    """A request to choose an action for each slot."""

    actions: Annotated[list[RankableAction], Meta(min_length=1, max_length=MOST)]
    slots: Annotated[list[SlotRequest], Meta(min_length=1, max_length=MOST)]
    context_features: Features | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class SlotResponse(msgspec.Struct, rename="camel"):
    """The action to show in a slot."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(msgspec.Struct, rename="camel"):
    """The actions to show."""

    slots: list[SlotResponse]
    event_id: str


class SlotReward(msgspec.Struct, rename="camel"):
    """The reward of a slot."""

    slot_id: Id
    value: Reward


class MultiSlotRewardRequest(msgspec.Struct, rename="camel"):
    """The rewards of the slots of an event."""

    reward: Annotated[list[SlotReward], Meta(min_length=1, max_length=MOST)]


class ServiceConfiguration(msgspec.Struct, rename="camel", omit_defaults=True):
    """The settings of the service, with durations in ISO 8601. A field that is left out of a PUT does not change."""

    reward_wait_time: Annotated[str, Meta(max_length=64)] | None = None
    default_reward: Annotated[float, Meta(ge=-1, le=1)] | None = None
    reward_aggregation: Annotated[str, Meta(max_length=256)] | None = None
    exploration_percentage: Annotated[float, Meta(ge=0, le=1)] | None = None
    model_export_frequency: Annotated[str, Meta(max_length=64)] | None = None
    log_mirror_enabled: bool | None = None
    log_mirror_sas_uri: Annotated[str, Meta(max_length=2048)] | None = None
    log_retention_days: Annotated[int, Meta(ge=-1, le=2147483647)] | None = None
    last_configuration_edit_date: Annotated[str, Meta(max_length=64)] | None = None
    learning_mode: Literal["Online", "Apprentice", "LoggingOnly"] | None = None
    is_auto_optimization_enabled: bool | None = None
    auto_optimization_frequency: Annotated[str, Meta(max_length=64)] | None = None
    auto_optimization_start_date: Annotated[str, Meta(max_length=64)] | None = None
    model_retrain_days: Annotated[int, Meta(ge=0, le=2147483647)] | None = None


class PolicyContract(msgspec.Struct):
    """The algorithm, as ``--algorithm NAME`` in ``arguments``. Other arguments are stored, without effect."""

    name: Annotated[str, Meta(max_length=256)]
    arguments: Annotated[str, Meta(max_length=1024)]


class PolicyReference(msgspec.Struct, rename="camel"):
    """A policy of an evaluation."""

    evaluation_id: Id
    policy_name: Id


class EvaluationContract(msgspec.Struct, rename="camel"):
    """The period of an evaluation, and the policies in addition to online, baseline and random."""

    name: Id
    start_time: Annotated[str, Meta(max_length=64)]
    end_time: Annotated[str, Meta(max_length=64)]
    policies: Annotated[list[PolicyContract], Meta(max_length=20)] | None = None
    enable_offline_experimentation: bool | None = False
    enable_policy_optimization: bool | None = False


class Measured(msgspec.Struct, rename="camel"):
    """The estimated reward per event of a policy up to a time, with the parts of the estimate."""

    time_stamp: str
    ips_estimator_numerator: float
    ips_estimator_denominator: float
    snips_estimator_denominator: float
    aggregate_time_window: str
    non_zero_probability: float
    sum_of_squares: float
    confidence_interval: float
    average_reward: float
    sum_of_squared_weights: float = 0.0
    sum_of_squared_weights_times_reward: float = 0.0


class PolicyResult(msgspec.Struct, rename="camel"):
    """The result of an evaluation for one policy."""

    name: str
    arguments: str
    policy_source: Literal["Online", "Baseline", "Random", "Custom", "OfflineExperimentation"]
    summary: list[Measured] = []
    total_summary: Measured | None = None


class Evaluation(msgspec.Struct, rename="camel", kw_only=True):
    """An evaluation, in the form of versions 1.0 and 1.1."""

    id: str
    name: str
    start_time: str
    end_time: str
    creation_time: str
    status: Literal["Succeeded", "Running", "Failed", "Timeout"]
    evaluation_type: str = "Manual"
    optimal_policy: str = ""
    policy_results: list[PolicyResult] = []
    feature_importance: list[list[str]] = []
    job_id: str = ""
    description: str = ""


class Summary(msgspec.Struct, rename="camel", omit_defaults=True):
    """The estimated reward per event of a policy, with its 95% interval."""

    expected_reward: float
    confidence_interval: list[float]
    time_stamp: str | None = None


class TimeSeries(msgspec.Struct):
    """The estimates of a policy over time."""

    data: list[Summary]


class SeriesOfPolicy(msgspec.Struct, rename="camel", omit_defaults=True):
    """The result of an evaluation for one policy, in the form of 2022."""

    name: str
    arguments: str
    policy_source: str
    summary: Summary | None = None
    timeseries: TimeSeries | None = None


class EvaluationResult(msgspec.Struct, rename="camel"):
    """The result of an evaluation, in the form of 2022."""

    start_time: str
    end_time: str
    interval_in_minutes: int
    value: list[SeriesOfPolicy]


class Evaluation2022(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """An evaluation, in the form of 2022."""

    id: str
    name: str
    start_time: str
    end_time: str
    creation_time: str
    status: str
    evaluation_type: str
    optimal_policy: str | None = None
    content: EvaluationResult | None = None
    description: str | None = None


class EvaluationDetails(msgspec.Struct, rename="camel", kw_only=True):
    """An evaluation in a list."""

    id: str
    name: str
    start_time: str
    end_time: str
    creation_time: str
    status: str
    evaluation_type: str


class Evaluations(msgspec.Struct, rename="camel", omit_defaults=True):
    """A page of evaluations."""

    value: list[EvaluationDetails]
    next_link: str | None = None


class FeatureImportanceContract(msgspec.Struct, rename="camel"):
    """The period of the decisions for which importances are computed."""

    name: Id
    start_time: Annotated[str, Meta(max_length=64)]
    end_time: Annotated[str, Meta(max_length=64)]


class FeatureScore(msgspec.Struct, rename="camel"):
    """The importance of a feature, scaled so that the largest is 1."""

    namespace: str
    feature_name: str
    score: float


class FeatureImportance(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The importance of each feature."""

    id: str
    name: str
    start_time: str
    end_time: str
    creation_time: str
    status: Literal["Succeeded", "Running", "Failed", "Timeout"]
    feature_scores: list[FeatureScore] | None = None
    description: str | None = None


class FeatureImportanceDetails(msgspec.Struct, rename="camel", kw_only=True):
    """Feature importances in a list."""

    id: str
    name: str
    start_time: str
    end_time: str
    creation_time: str
    status: str


class FeatureImportances(msgspec.Struct, rename="camel", omit_defaults=True):
    """A page of feature importances."""

    value: list[FeatureImportanceDetails]
    next_link: str | None = None


class DateRange(msgspec.Struct, rename={"from_": "from"}, omit_defaults=True):
    """A period."""

    from_: str | None = None
    to: str | None = None


class LogsProperties(msgspec.Struct, rename="camel"):
    """The period of the logged decisions."""

    date_range: DateRange


class ModelProperties(msgspec.Struct, rename="camel"):
    """The times at which the model was created and last learned."""

    creation_time: str
    last_modified_time: str
