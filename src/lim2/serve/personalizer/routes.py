"""Which paths Personalizer's dialects have, and what each does."""

from dataclasses import dataclass
from typing import Any

from lim2.serve.operations import Handler, Operation
from lim2.serve.personalizer import administration, configuration, evaluations, importances, multislot, ranking, wire
from lim2.serve.personalizer.listing import Listing


@dataclass(frozen=True)
class Dialect:
    """A published version of the protocol.

    Parameters
    ----------
    name
        Name of the version.
    prefix
        Prefix of its paths.
    """

    name: str
    prefix: str


V1_0 = Dialect("v1.0", "/personalizer/v1.0")
V1_1 = Dialect("v1.1-preview.3", "/personalizer/v1.1-preview.3")
V2022 = Dialect("2022-09-01-preview", "/personalizer")
# The error code of a wrong request with such a body; "BadRequest" for the others.
INVALID: dict[Any, str] = {
    wire.RankRequest: "InvalidRankRequest",
    wire.RewardRequest: "InvalidRewardRequest",
    wire.MultiSlotRankRequest: "InvalidRankRequest",
    wire.MultiSlotRewardRequest: "InvalidRewardRequest",
    wire.ServiceConfiguration: "InvalidServiceConfiguration",
    wire.PolicyContract: "InvalidPolicyContract",
    wire.EvaluationContract: "InvalidEvaluationContract",
    wire.FeatureImportanceContract: "InvalidContract",
}
MODEL = 64_000_000  # bytes of a model that is sent; one that has just begun has 2,000,000
DIALECTS = (V1_0, V1_1, V2022)  # the prefix of the last one is the start of the others


def operations(dialect: Dialect) -> list[Operation]:
    """Return what a dialect offers.

    Parameters
    ----------
    dialect
        The version of the protocol.
    """
    made: list[Operation] = []

    def add(name: str, method: str, path: str, handler: Handler, summary: str, **rest: Any) -> None:
        made.append(
            Operation(
                name=f"{dialect.name}.{name}", method=method, path=dialect.prefix + path, handler=handler,
                summary=summary, tag=f"Personalizer {dialect.name}", plain_codes=dialect is V1_0,
                version=dialect.name if dialect is V2022 else None,
                invalid=INVALID.get(rest.get("body"), "BadRequest"), **rest,
            )
        )  # fmt: skip

    add("rank", "POST", "/rank", ranking.rank, "Choose an action for a context.",
        body=wire.RankRequest, answer=wire.RankResponse, status=201)  # fmt: skip
    add("reward", "POST", "/events/{event:path}/reward", ranking.reward, "Report the reward of an event.",
        body=wire.RewardRequest, status=204)  # fmt: skip
    add("activate", "POST", "/events/{event:path}/activate", ranking.activate,
        "Report that the action of a deferred event was shown.", status=204)  # fmt: skip
    _add_configuration(add)
    _add_model_and_logs(add, dialect)
    _add_evaluations(add, dialect)
    if dialect is not V1_0:
        add("multislot.rank", "POST", "/multislot/rank", multislot.rank, "Choose an action for each slot.",
            body=wire.MultiSlotRankRequest, answer=wire.MultiSlotRankResponse, status=201)  # fmt: skip
        add("multislot.reward", "POST", "/multislot/events/{event:path}/reward", multislot.reward,
            "Report the rewards of slots of an event.", body=wire.MultiSlotRewardRequest, status=204)  # fmt: skip
        add("multislot.activate", "POST", "/multislot/events/{event:path}/activate", multislot.activate,
            "Report that the actions of a deferred event were shown.", status=204)  # fmt: skip
    return made


def _add_configuration(add: Any) -> None:
    service, policy = "/configurations/service", "/configurations/policy"
    config, contract = wire.ServiceConfiguration, wire.PolicyContract
    add("service.get", "GET", service, configuration.get_service, "Read the configuration.", answer=config, reads=True)
    add("service.put", "PUT", service, configuration.put_service, "Change the configuration.", body=config,
        answer=config)  # fmt: skip
    add("policy.get", "GET", policy, configuration.get_policy, "Read the policy.", answer=contract, reads=True)
    add("policy.put", "PUT", policy, configuration.put_policy, "Change the policy.", body=contract, answer=contract)
    add("policy.delete", "DELETE", policy, configuration.delete_policy, "Return to the first policy.",
        answer=contract)  # fmt: skip


def _add_model_and_logs(add: Any, dialect: Dialect) -> None:
    add("model.get", "GET", "/model", administration.get_model, "Download the model.", answer=bytes, reads=True)
    if dialect is not V1_0:
        add("model.put", "PUT", "/model", administration.put_model, "Replace the model.", body=bytes,
            most=MODEL, status=204)  # fmt: skip
    add("model.delete", "DELETE", "/model", administration.delete_model, "Start with a fresh model.", status=204)
    add("model.properties", "GET", "/model/properties", administration.model_properties, "Read the times of the model.",
        answer=wire.ModelProperties, reads=True)  # fmt: skip
    add("logs.properties", "GET", "/logs/properties", administration.log_properties, "Read the period of the log.",
        answer=wire.LogsProperties, reads=True)  # fmt: skip
    add("logs.delete", "DELETE", "/logs", administration.delete_logs, "Delete all decisions and rewards.", status=204)
    if dialect is not V1_0:
        for kind in ("interactions", "observations"):
            add(f"logs.{kind}", "POST", f"/logs/{kind}", administration.refuse_binary_logs,
                f"Refused: binary logs of {kind} are not read.", body=bytes, status=204)  # fmt: skip


def _add_evaluations(add: Any, dialect: Dialect) -> None:
    all_, one = "/evaluations", "/evaluations/{id:path}"
    new = dialect is V2022
    if new:
        add("evaluations.list", "GET", all_, evaluations.listed_2022, "List the evaluations.",
            query=Listing, answer=wire.Evaluations, reads=True)  # fmt: skip
        add("evaluations.put", "PUT", one, evaluations.put, "Evaluate policies on logged decisions.",
            body=wire.EvaluationContract, answer=wire.Evaluation2022)  # fmt: skip
        add("evaluations.get", "GET", one, evaluations.get_2022, "Read an evaluation.",
            query=evaluations.Window, answer=wire.Evaluation2022, reads=True)  # fmt: skip
        add("importances.list", "GET", "/featureImportances", importances.listed, "List feature importances.",
            query=Listing, answer=wire.FeatureImportances, reads=True)  # fmt: skip
        importance = "/featureImportances/{id:path}"
        add("importances.put", "PUT", importance, importances.put, "Compute feature importances.",
            body=wire.FeatureImportanceContract, answer=wire.FeatureImportance)  # fmt: skip
        add("importances.get", "GET", importance, importances.get, "Read feature importances.",
            answer=wire.FeatureImportance, reads=True)  # fmt: skip
        add("importances.delete", "DELETE", importance, importances.delete, "Remove feature importances.",
            status=204)  # fmt: skip
    else:
        add("evaluations.list", "GET", all_, evaluations.listed, "List the evaluations.", answer=list[wire.Evaluation],
            reads=True)  # fmt: skip
        add("evaluations.create", "POST", all_, evaluations.create, "Evaluate policies on logged decisions.",
            body=wire.EvaluationContract, answer=wire.Evaluation, status=201)  # fmt: skip
        add("evaluations.get", "GET", one, evaluations.get, "Read an evaluation.", answer=wire.Evaluation, reads=True)
    add("evaluations.delete", "DELETE", one, evaluations.delete, "Remove an evaluation.", status=204)
    if dialect is not V1_0:
        add("evaluations.apply", "POST", "/configurations/applyFromEvaluation", evaluations.apply,
            "Use a policy of an evaluation from now on.", body=wire.PolicyReference, status=204)  # fmt: skip
