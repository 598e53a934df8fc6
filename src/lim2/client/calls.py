"""Methods of the clients, as pure functions from arguments to HTTP calls.

Every call that writes carries an ID that is generated here, before the first attempt. The service executes it once, no
matter how often it is sent.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from lim2.bandit import Bandit, Reason
from lim2.client.exchange import Call, Request
from lim2.client.results import Estimate, ServedDecision, ServedEvaluation, ServedSlate
from lim2.loading import from_bytes
from lim2.log import Proof
from lim2.log.ids import new_id, position_named
from lim2.log.rewards import checked_reward
from lim2.log.rules import Rule, rule_of
from lim2.log.serialization import as_json, dump_json

RewardStatus = Literal["recorded", "duplicate", "late", "ignored"]
Policy = Literal["baseline", "random", "best", "algorithm"]
BANDITS_PER_PAGE = 500

# Deciding


def decide(
    bandit: str,
    context: Any,
    items: Mapping[Any, Any] | None = None,
    *,
    arms: Iterable[Hashable] | None = None,
    exploit: bool = False,
    id: str | None = None,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    active: bool = True,
) -> Call[ServedDecision]:
    """Choose an arm or an item for a context; the service records the decision.

    Parameters
    ----------
    context
        A dictionary, dataclass or row of a data frame, as for :meth:`lim2.Bandit.decide`.
    items
        The candidates, as a mapping from name to features. Only for a bandit whose choices have features.
    arms
        Names of the eligible arms or items. None: all are eligible.
    exploit
        Choose the largest posterior mean, without exploration.
    id
        ID of the decision. A second call with the same ID returns the same decision. None: the client generates one.
    key
        Key of the person concerned. :meth:`erase` deletes all decisions with this key.
    metadata
        JSON value that is stored with the decision.
    active
        Whether the decision counts at once. False: its reward counts only after :meth:`activate`.
    """
    body = _decision(context, items, arms, exploit, id, key, metadata) | ({} if active else {"active": False})
    return _post(bandit, "decide", body, _decided)


def rank(
    bandit: str,
    context: Any,
    items: Mapping[Any, Any] | None = None,
    k: int | None = None,
    *,
    arms: Iterable[Hashable] | None = None,
    exploit: bool = False,
    id: str | None = None,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Call[ServedSlate]:
    """Rank arms or items, best first; the service records the slate.

    Parameters
    ----------
    k
        Number of positions. None: one for each candidate.
    """
    body = _decision(context, items, arms, exploit, id, key, metadata) | ({} if k is None else {"k": int(k)})
    return _post(bandit, "rank", body, _ranked)


def decide_many(bandit: str, requests: Iterable[Mapping[str, Any]]) -> Call[list[ServedDecision]]:
    """Make several decisions, which the service records in one transaction: all or none.

    Parameters
    ----------
    requests
        The arguments of :meth:`decide` without ``active``, as dictionaries:
        ``[{"context": {...}}, {"context": {...}, "key": "ann"}]``.
    """
    bodies = [_decision(**{**_DEFAULTS, **_arguments(request)}) for request in requests]
    # Of two attempts at the same moment the later one is refused with 409, and can be repeated.
    call = _post(bandit, "decide_many", {"requests": bodies}, _all_decided)
    return call._replace(retried_statuses=(409,))


# Rewards


def reward(bandit: str, id: str, reward: float | Mapping[Any, float], *, name: str | None = None) -> Call[Any]:
    """Record the reward of a decision, or of a slate's positions.

    Parameters
    ----------
    reward
        For a slate ``{"slot 2": 1.0}`` or ``{2: 1.0}``.
    name
        Name of this reward, such as ``"click"``. A second reward of the same name is not counted. None: the client
        generates a name for the retries of this call. Give one if your own program may repeat the call.

    Returns
    -------
    str or dict
        ``"recorded"``; ``"duplicate"`` if it was recorded before, perhaps by an attempt whose answer was lost;
        ``"late"`` or ``"ignored"``, see :meth:`lim2.DecisionLog.reward`. For a slate: a mapping from position to one of
        these.
    """
    body: dict[str, Any] = {"id": id, "name": secrets.token_hex(16) if name is None else name}
    if not isinstance(reward, Mapping):
        return _post(bandit, "reward", {**body, "reward": checked_reward(reward)}, lambda answer: answer["status"])
    labels = {position: f"slot {position_named(position)}" for position in reward}
    values = {label: checked_reward(reward[position]) for position, label in labels.items()}
    if len(values) < len(reward):
        raise ValueError(f"reward must name each position once, got {dict(reward)!r}")

    def statuses(answer: Any) -> dict[Any, RewardStatus]:
        return {position: answer["status"][label] for position, label in labels.items()}

    return _post(bandit, "reward", {**body, "reward": values}, statuses)


def update(
    bandit: str,
    decision: ServedDecision | ServedSlate,
    reward: float | Mapping[Any, float],
    *,
    name: str | None = None,
) -> Call[Any]:
    """Record the reward of a decision, as :meth:`reward` does; the service learns it shortly afterwards.

    Parameters
    ----------
    decision
        The decision or slate that :meth:`decide` or :meth:`rank` returned.
    reward
        The reward; for a slate, rewards by position: ``{1: 0.0, "slot 2": 1.0}``.
    """
    if not isinstance(decision, ServedDecision | ServedSlate):
        raise ValueError(f"decision must be what decide or rank returned, got {type(decision).__name__}")
    if isinstance(decision, ServedSlate) != isinstance(reward, Mapping):
        raise ValueError(f"reward must be a number for a decision, a mapping by position for a slate, got {reward!r}")
    return _reward(bandit, decision.id, reward, name=name)


_reward = reward  # an argument of `update` has its name


def reward_many(
    bandit: str, rewards: Iterable[tuple[str, float] | tuple[str, float, str | None]]
) -> Call[list[RewardStatus]]:
    """Record several rewards: all or none.

    Parameters
    ----------
    rewards
        Pairs ``(id, reward)`` or triples ``(id, reward, name)``, for decisions, not for slates.
    """
    body = {"rewards": [_named(*entry) for entry in rewards]}
    return _post(bandit, "reward_many", body, lambda answer: list(answer["statuses"]))


def _named(id: str, reward: float, name: str | None = None) -> dict[str, Any]:
    """Return a reward with a name, by which the service recognises a repetition."""
    return {"id": id, "reward": checked_reward(reward), "name": secrets.token_hex(16) if name is None else name}


def activate(bandit: str, id: str) -> Call[bool]:
    """Activate a decision that was made with ``active=False``; return whether it is active now."""
    return _post(bandit, "activate", {"id": id}, lambda answer: bool(answer["activated"]))


# Looking


def explain(bandit: str, decision: ServedDecision | str) -> Call[list[Reason]]:
    """Return the contribution of each key to the score of the chosen arm or item; see :meth:`lim2.Bandit.explain`.

    Parameters
    ----------
    decision
        The decision that :meth:`decide` returned, or its ID.
    """
    id = decision.id if isinstance(decision, ServedDecision) else decision
    return _post(bandit, "explain", {"id": id}, _reasons)


def evaluate(
    bandit: str, policy: Policy = "baseline", *, algorithm: str | None = None, last: int = 20_000
) -> Call[ServedEvaluation]:
    """Estimate from the logged decisions what a policy would have earned.

    Parameters
    ----------
    policy
        ``"baseline"``, always the first candidate; ``"random"``; ``"best"``, the model's best guess, trained on the
        first half of the decisions and evaluated on the second; or ``"algorithm"``, the same for another algorithm.
    algorithm
        Name of the algorithm, for the policy ``"algorithm"``.
    last
        Number of newest decisions to use, from 2 to 50,000.
    """
    body: dict[str, Any] = {"policy": policy, "last": last}
    return _post(bandit, "evaluate", body | ({} if algorithm is None else {"algorithm": algorithm}), _evaluated)


def proof(
    bandit: str, against: Hashable | None = None, *, reward_range: tuple[float, float] | None = None
) -> Call[Proof]:
    """Compare the bandit with a rule, by an interval that is valid however often one looks at it.

    Parameters
    ----------
    against
        Name of an arm, ``"always:ARM"``, ``"uniform"``, or ``"first"``, the first candidate. None: the rule of the
        control group, or without one ``"first"``.
    reward_range
        Smallest and largest reward, as for :meth:`lim2.DecisionLog.proof`. None: that of the bandit, or 0 to 1.
    """
    rule = None if against is None else rule_of(against)
    if not isinstance(rule, Rule | None):
        raise ValueError(f"a service compares with an arm, 'always:ARM', 'uniform' or 'first', got {against!r}")
    body = {"against": None if rule is None else rule.name, "reward_range": reward_range}
    return _post(bandit, "proof", body, Proof.from_dict)


def snapshot(bandit: str) -> Call[Bandit]:
    """Download the model as an independent :class:`lim2.Bandit`, which decides as the service does now."""
    return Call(Request("GET", f"{_path(bandit)}/snapshot"), from_bytes)


def info(bandit: str) -> Call[dict[str, Any]]:
    """Return the bandit's settings and its counts: decisions, rewards, pending, lag, rounds and more."""
    return Call(Request("GET", _path(bandit)), _json)


# Making and changing


def create(
    bandit: str,
    /,
    arms: Iterable[Hashable] | Mapping[Hashable, Any] | None = None,
    *,
    algorithm: str = "AdaptiveTS",
    **options: Any,
) -> Call[dict[str, Any]]:
    """Create the bandit; do nothing if the same bandit exists.

    Parameters
    ----------
    arms
        Names of the arms, or a mapping from name to features. None: items are passed with every call.
    algorithm
        Name of the learning algorithm, one of ``lim2.AGENTS``.
    **options
        ``epsilon``, ``expire_after``, ``default_reward``, ``aggregate``, ``keep_days``, ``seed``, ``settings``,
        ``encoder``, ``item_encoder``, ``control``; see docs/service/run.md.
    """
    described = arms if arms is None else _features(arms) if isinstance(arms, Mapping) else _names(arms)
    content = dump_json({"arms": described, "algorithm": algorithm, **as_json(options, "a description")})
    return Call(Request("PUT", _path(bandit), content), _json)


def change(bandit: str, /, **settings: Any) -> Call[dict[str, Any]]:
    """Change settings from now on; settings that are left out keep their values.

    Parameters
    ----------
    **settings
        ``expire_after``, ``default_reward``, ``aggregate``, ``keep_days``, ``epsilon``, ``control``,
        ``reward_range``, ``pin``, ``paused``, ``sticky``.
    """
    return Call(Request("PATCH", _path(bandit), dump_json(as_json(settings, "a change"))), _json)


def pin(bandit: str, arm: str) -> Call[dict[str, Any]]:
    """Give all traffic one arm from now on, whatever the bandit chooses; :meth:`resume` ends it."""
    return change(bandit, pin=_name(arm))


def pause(bandit: str) -> Call[dict[str, Any]]:
    """Stop learning: rewards are recorded, and learned after :meth:`resume`."""
    return change(bandit, paused=True)


def resume(bandit: str) -> Call[dict[str, Any]]:
    """Undo :meth:`pin` and :meth:`pause`."""
    return change(bandit, pin=None, paused=False)


def add_arm(bandit: str, name: str, like: str | None = None, *, features: Any = None) -> Call[list[str]]:
    """Add an arm, as :meth:`lim2.Bandit.add_arm` does, and return all arms. An existing arm is not changed.

    Parameters
    ----------
    like
        For arms without features: name of an arm to copy.
    features
        For arms with features: features of the new arm.
    """
    body: dict[str, Any] = {"name": _name(name)}
    if like is not None:
        body["like"] = _name(like)
    if features is not None:
        body["features"] = as_json(features, "an arm")
    return _post(bandit, "arms", body, lambda answer: list(answer["arms"]))


def remove_arm(bandit: str, name: str) -> Call[None]:
    """Remove an arm; its rewards are no longer learned."""
    return Call(
        Request("DELETE", f"{_path(bandit)}/arms/{quote(_name(name), safe='')}"), lambda _: None, done_status=404
    )


def delete(bandit: str) -> Call[None]:
    """Delete the bandit, its log and its model."""
    return Call(Request("DELETE", _path(bandit)), lambda _: None, done_status=404)


def erase(bandit: str, key: str) -> Call[int]:
    """Delete all decisions with a key; return the number deleted by the attempt that was answered."""
    return _post(bandit, "erase", {"key": key}, lambda answer: int(answer["erased"]))


def bandits(after: str = "") -> Call[tuple[list[dict[str, Any]], str | None]]:
    """Return a page of the bandits of the service, and where the next page begins; None after the last."""
    path = f"/v1/bandits?limit={BANDITS_PER_PAGE}&after={quote(after, safe='')}"
    return Call(Request("GET", path), lambda content: (list(_json(content)["bandits"]), _json(content)["next"]))


# Arguments to JSON

_DEFAULTS: dict[str, Any] = dict.fromkeys(("items", "arms", "id", "key", "metadata")) | {"exploit": False}


def _arguments(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of one of several decisions; raise a ValueError if they are wrong."""
    if not isinstance(request, Mapping) or "context" not in request:
        raise ValueError(f'each request must be a dictionary such as {{"context": {{...}}}}, got {request!r}')
    if unknown := [name for name in request if name != "context" and name not in _DEFAULTS]:
        allowed = ", ".join(("context", *_DEFAULTS))
        raise ValueError(f"a request of decide_many may have {allowed}, got {unknown[0]!r}")
    return request


def _decision(
    context: Any, items: Any, arms: Any, exploit: bool, id: str | None, key: str | None, metadata: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {"context": as_json(context), "id": new_id(time.time()) if id is None else id}
    if items is not None:
        body["items"] = _features(items)
    if arms is not None:
        body["arms"] = _names(arms)
    if exploit:
        body["exploit"] = True
    if key is not None:
        body["key"] = key
    if metadata is not None:
        body["metadata"] = as_json(metadata, "metadata")
    return body


def _features(items: Mapping[Any, Any]) -> dict[str, Any]:
    if not isinstance(items, Mapping):
        raise ValueError(f"items must be a mapping {{name: features, ...}}, got {type(items).__name__}")
    return {_name(name): as_json(features, "an item") for name, features in items.items()}


def _names(arms: Iterable[Any]) -> list[str]:
    if isinstance(arms, str):
        raise ValueError(f"arms must be a list of names, got the string {arms!r}")
    return [_name(name) for name in arms]


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"arms and items of a service must have strings as names, got {name!r}")
    return name


def _path(bandit: str) -> str:
    return f"/v1/bandits/{quote(bandit, safe='')}"


def _post(bandit: str, label: str, body: Mapping[str, Any], result: Any) -> Call[Any]:
    # Not `dump_json`, which sorts: the order of items is that of the answer.
    content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    return Call(Request("POST", f"{_path(bandit)}/{label}", content), lambda answer: result(_json(answer)))


# JSON to results


def _json(content: bytes) -> Any:
    return json.loads(content)


def _decided(answer: Any) -> ServedDecision:
    return ServedDecision(
        id=answer["id"],
        arm=answer["arm"],
        propensity=answer["propensity"],
        arms=tuple(answer["arms"]),
        propensities=tuple(answer["propensities"]),
        group=answer.get("group"),
    )


def _all_decided(answer: Any) -> list[ServedDecision]:
    return list(map(_decided, answer["decisions"]))


def _ranked(answer: Any) -> ServedSlate:
    arms, chances = (tuple(entry[key] for entry in answer["ranking"]) for key in ("arm", "propensity"))
    return ServedSlate(
        answer["id"],
        tuple(
            ServedDecision(id=f"{answer['id']}/{position}", arm=arm, propensity=chance, arms=arms, propensities=chances)
            for position, (arm, chance) in enumerate(zip(arms, chances, strict=True), start=1)
        ),
    )


def _reasons(answer: Any) -> list[Reason]:
    return [Reason(*(entry[key] for key in ("key", "value", "source", "contribution"))) for entry in answer["reasons"]]


def _evaluated(answer: Any) -> ServedEvaluation:
    estimates = {
        name: Estimate(answer[name]["value"], answer[name]["low"], answer[name]["high"])
        for name in ("logged", "ips", "snips", "dr", "gain")
    }
    return ServedEvaluation(
        policy=answer["policy"],
        decisions=answer["decisions"],
        left_out=answer["left_out"],
        effective_decisions=answer["effective_decisions"],
        warnings=tuple(answer["warnings"]),
        **estimates,
    )
