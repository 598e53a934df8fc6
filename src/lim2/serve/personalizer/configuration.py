"""The service's configuration and its policy, as Personalizer's clients read and write them."""

import asyncio
import math
import time
from typing import Any

import msgspec

from lim2.agents import AGENTS
from lim2.serve import spec as specs
from lim2.serve.config import least_days
from lim2.serve.errors import bad_request, shortened
from lim2.serve.hosted import Hosted
from lim2.serve.operations import Call
from lim2.serve.personalizer.times import duration_of, moment_of, seconds_of, time_of
from lim2.serve.personalizer.wire import PolicyContract, ServiceConfiguration
from lim2.serve.refusals import refusals
from lim2.serve.spec import PersonalizerSettings, Stored

AGGREGATES = {"earliest": "first", "sum": "sum"}
NAMES = {"first": "earliest"}  # of the log's aggregates; the others have the same name
REWARDS = ("reward_wait_time", "default_reward", "reward_aggregation")
DEFAULT_POLICY = "lim2"
OPTION = "--algorithm"


async def get_service(call: Call) -> ServiceConfiguration:
    """Return the configuration."""
    return configuration_of(call.service.personalizer)


async def put_service(call: Call) -> ServiceConfiguration:
    """Change the configuration; what is left out stays as it is."""
    hosted = call.service.personalizer
    await asyncio.to_thread(_change, hosted, call.body)
    await call.service.stepped(hosted)
    return configuration_of(hosted)


def configuration_of(hosted: Hosted) -> ServiceConfiguration:
    """Return the configuration of a bandit.

    Parameters
    ----------
    hosted
        The bandit.
    """
    spec, own = hosted.stored.spec, own_of(hosted.stored)
    return ServiceConfiguration(
        reward_wait_time=duration_of(spec.expire_after or 0.0),
        default_reward=spec.default_reward or 0.0,
        reward_aggregation=NAMES.get(spec.aggregate or "first", spec.aggregate),
        exploration_percentage=spec.epsilon,
        model_export_frequency=duration_of(own.model_export_frequency),
        log_mirror_enabled=own.log_mirror_enabled,
        log_mirror_sas_uri=own.log_mirror_sas_uri,
        log_retention_days=retained(hosted.stored),
        last_configuration_edit_date=time_of(own.edited or hosted.stored.created),
        learning_mode=own.learning_mode,
        is_auto_optimization_enabled=own.auto_optimization,
        auto_optimization_frequency=duration_of(own.auto_optimization_frequency),
        auto_optimization_start_date=own.auto_optimization_start,
        model_retrain_days=own.model_retrain_days,
    )


def _change(hosted: Hosted, given: ServiceConfiguration) -> None:
    def configured(stored: Stored) -> Stored:
        new = changed(stored, given)
        spec = new.spec
        hosted.log.configure(
            expire_after=spec.expire_after, default_reward=spec.default_reward, aggregate=spec.aggregate
        )
        return new

    with refusals("a configuration"):
        hosted.change(configured)


def changed(stored: Stored, given: ServiceConfiguration) -> Stored:
    """Return a description with a new configuration; an ApiError if it cannot be.

    Parameters
    ----------
    stored
        The description as it is.
    given
        The configuration.
    """
    spec, own = stored.spec, own_of(stored)
    new: dict[str, Any] = {}
    if given.reward_wait_time is not None:
        new["expire_after"] = duration(given.reward_wait_time, "rewardWaitTime", 5, 172800, "InvalidRewardWaitTime")
    if given.default_reward is not None:
        new["default_reward"] = given.default_reward
    if given.reward_aggregation is not None:
        if given.reward_aggregation not in AGGREGATES:
            message = f"rewardAggregation must be earliest or sum, got {shortened(given.reward_aggregation)}"
            raise bad_request(message, "rewardAggregation", "InvalidServiceConfiguration")
        new["aggregate"] = AGGREGATES[given.reward_aggregation]
    mode = given.learning_mode or own.learning_mode
    if mode != own.learning_mode and any(getattr(spec, name) != value for name, value in new.items()):
        raise bad_request(
            "learningMode and the settings of rewards change one after the other: send two requests",
            "learningMode",
            "InvalidLearningModeServiceConfiguration",
        )
    if given.exploration_percentage is not None:
        new["epsilon"] = given.exploration_percentage
    more = _more(given, stored, new.get("expire_after", spec.expire_after) or 0.0)
    if "log_retention_days" in more:
        new["keep_days"] = days_of(more["log_retention_days"])
    if mode != own.learning_mode:
        more["apprentice_since"] = time.time() if mode == "Apprentice" else own.apprentice_since
    more |= {"learning_mode": mode, "edited": time.time()}
    return msgspec.structs.replace(
        stored,
        spec=msgspec.structs.replace(spec, **new),
        personalizer=msgspec.structs.replace(own, **more),
    )


def _more(given: ServiceConfiguration, stored: Stored, wait: float) -> dict[str, Any]:
    """Return what is kept for the clients' sake."""
    found: dict[str, Any] = {}
    for name, target in (
        ("model_export_frequency", "modelExportFrequency"),
        ("auto_optimization_frequency", "autoOptimizationFrequency"),
    ):
        text = getattr(given, name)
        if text is not None:
            found[name] = duration(text, target, 0, 1e9)
    if given.auto_optimization_start_date is not None:
        if moment_of(given.auto_optimization_start_date) is None:
            message = "autoOptimizationStartDate must be a time as in ISO 8601, such as 2026-11-16T10:00:00Z"
            raise bad_request(message, "autoOptimizationStartDate", "InvalidServiceConfiguration")
        found["auto_optimization_start"] = given.auto_optimization_start_date
    days = retained(stored) if given.log_retention_days is None else given.log_retention_days
    retrain = own_of(stored).model_retrain_days if given.model_retrain_days is None else given.model_retrain_days
    if (given.log_retention_days, given.reward_wait_time) != (None, None) and -1 != days < (least := least_days(wait)):
        message = (
            f"logRetentionDays must be -1, or at least {least}: rewardWaitTime and a day, rounded up; it is {days}"
        )
        raise bad_request(message, "logRetentionDays", "InvalidLogRetentionDays")
    if (given.log_retention_days, given.model_retrain_days) != (None, None) and -1 != days < retrain:
        message = f"modelRetrainDays must be between 0 and logRetentionDays, {days}; it is {retrain}"
        raise bad_request(message, "modelRetrainDays", "InvalidModelRetrainDays")
    plain = {
        "log_retention_days": given.log_retention_days,
        "model_retrain_days": given.model_retrain_days,
        "log_mirror_enabled": given.log_mirror_enabled,
        "log_mirror_sas_uri": given.log_mirror_sas_uri,
        "auto_optimization": given.is_auto_optimization_enabled,
    }
    return found | {name: value for name, value in plain.items() if value is not None}


def duration(text: str, target: str, least: float, most: float, code: str = "InvalidServiceConfiguration") -> float:
    """Return the seconds of a duration; an ApiError if it cannot be used.

    Parameters
    ----------
    text
        As the client sent it.
    target
        What it is, for the message.
    least, most
        Seconds.
    code
        Code of the error.
    """
    seconds = seconds_of(text)
    if seconds is None or not least <= seconds <= most:
        message = f"{target} must be a duration as in ISO 8601, such as PT10M, from {least:g} to {most:g} s"
        raise bad_request(f"{message}; got {shortened(text)}", target, code)
    return seconds


def retained(stored: Stored) -> int:
    """Return the days that decisions are kept, -1: forever. Who does not use Personalizer's protocol may set them, too.

    Parameters
    ----------
    stored
        The description.
    """
    kept, own = stored.spec.keep_days, own_of(stored).log_retention_days
    return own if kept == days_of(own) else -1 if kept is None else math.ceil(kept)


def days_of(retention: int) -> float | None:
    """Return ``keep_days`` of a bandit for ``logRetentionDays``.

    Parameters
    ----------
    retention
        In days, -1: forever.

    Examples
    --------
    >>> days_of(7), days_of(-1), days_of(2147483647)
    (7.0, None, 36500.0)
    """
    return None if retention == -1 else float(min(max(retention, 1), 36500))


def own_of(stored: Stored) -> PersonalizerSettings:
    """Return what Personalizer's clients have asked for.

    Parameters
    ----------
    stored
        The description.
    """
    return stored.personalizer or PersonalizerSettings()


# The policy


async def get_policy(call: Call) -> PolicyContract:
    """Return what learns."""
    own = own_of(call.service.personalizer.stored)
    return PolicyContract(own.policy_name, own.policy_arguments)


async def put_policy(call: Call) -> PolicyContract:
    """Say what learns: ``--algorithm NAME`` in the arguments; the log is learned anew by another algorithm."""
    return await apply_policy(call, call.body)


async def delete_policy(call: Call) -> PolicyContract:
    """Go back to the policy that the service started with."""
    default = call.service.config.personalizer.algorithm
    return await apply_policy(call, PolicyContract(DEFAULT_POLICY, f"{OPTION} {default}"))


async def apply_policy(call: Call, policy: PolicyContract) -> PolicyContract:
    """Let a policy learn from now on.

    Parameters
    ----------
    call
        The request.
    policy
        What learns.
    """
    hosted = call.service.personalizer
    await asyncio.to_thread(_set_policy, hosted, policy)
    await call.service.stepped(hosted)
    return policy


def _set_policy(hosted: Hosted, policy: PolicyContract) -> None:
    named = algorithm_of(policy)

    def set_in(stored: Stored) -> Stored:
        own = msgspec.structs.replace(
            own_of(stored), policy_name=policy.name, policy_arguments=policy.arguments, edited=time.time()
        )
        new = msgspec.structs.replace(stored, personalizer=own)
        if named is not None and named != stored.spec.algorithm:
            spec = msgspec.structs.replace(stored.spec, algorithm=named, settings={})
            specs.made(spec)
            new = msgspec.structs.replace(
                new, spec=spec, revision=stored.revision + 1, renewed=specs.now(), start=0, start_file=None
            )
        return new

    with refusals("a policy"):
        hosted.change(set_in)


def algorithm_of(policy: PolicyContract) -> str | None:
    """Return the algorithm that a policy names, None if it names none; an ApiError if there is no such algorithm.

    Parameters
    ----------
    policy
        Its arguments are those of Personalizer's clients, or ``--algorithm NAME``.

    Examples
    --------
    >>> algorithm_of(PolicyContract("n", "--algorithm LinearTS")), algorithm_of(PolicyContract("n", "--cb_type ips"))
    ('LinearTS', None)
    """
    words = policy.arguments.split()
    if OPTION not in words:
        return None
    name = (words[words.index(OPTION) + 1 :] or [""])[0]
    if name not in AGENTS:
        message = f"{OPTION} must be one of {', '.join(AGENTS)}, got {shortened(name)}"
        raise bad_request(message, "arguments", "InvalidPolicyConfiguration")
    return name
