"""What can be asked of a service: pure functions from arguments to calls. They are the methods of the clients.

Every call that writes carries a name that is made here, before the first try: the service does it once, however often
it comes.
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
from lim2.log.entries import new_id
from lim2.log.raw import as_json, dumps
from lim2.log.settling import checked_reward
from lim2.log.slates import position_named
from lim2.opening import from_bytes

Outcome = Literal["recorded", "duplicate", "late", "ignored"]
Policy = Literal["baseline", "random", "best", "algorithm"]

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
    """Choose an arm or an item for a context; the service writes the decision down.

    Parameters
    ----------
    context
        As for :meth:`lim2.Bandit.decide`.
    items
        The candidates: name -> features. Not for a bandit whose arms have no features.
    arms
        The eligible ones of the bandit's arms, or of the items. None: all.
    exploit
        Take the best one, without exploration.
    id
        A name of your own for the decision: the same again gets the same answer. None makes one.
    key
        Of the person whom it is about, by which :meth:`erase` finds it.
    metadata
        What else is to be kept with it, as JSON.
    active
        False if its reward counts only after :meth:`activate`.
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
    """Order arms or items, the best first; the service writes the slate down.

    Parameters
    ----------
    context, items, arms, exploit, id, key, metadata
        As for :meth:`decide`.
    k
        How many are shown. None: all.
    """
    body = _decision(context, items, arms, exploit, id, key, metadata) | ({} if k is None else {"k": int(k)})
    return _post(bandit, "rank", body, _ranked)


def decide_many(bandit: str, requests: Iterable[Mapping[str, Any]]) -> Call[list[ServedDecision]]:
    """Make several decisions, which the service writes down together: all, or none.

    Parameters
    ----------
    requests
        The arguments of :meth:`decide`, as dictionaries: ``[{"context": {...}}, {"context": {...}, "key": "ann"}]``.
    """
    bodies = [_decision(**{**_NOTHING, **request}) for request in requests]
    # Two tries at the same moment: the later one is refused, and asked to come again.
    call = _post(bandit, "decide_many", {"requests": bodies}, _all_decided)
    return call._replace(again=(409,))


# Rewards


def reward(bandit: str, id: str, reward: float | Mapping[Any, float], *, name: str | None = None) -> Call[Any]:
    """Record what a decision has earned, or positions of a slate have.

    Parameters
    ----------
    id
        Of the decision or slate.
    reward
        What it earned; for a slate ``{"slot 2": 1.0}`` or ``{2: 1.0}``.
    name
        Of this one reward, such as ``"click"``: if it comes again with the same name, it counts once. None makes one,
        for the tries of this call. Give one if your own program may repeat the call.

    Returns
    -------
    str or dict
        ``"recorded"``; ``"duplicate"`` if it was recorded before, by a try whose answer was lost, too; ``"late"`` or
        ``"ignored"``, see :meth:`lim2.DecisionLog.reward`. For a slate: position -> one of these.
    """
    body: dict[str, Any] = {"id": id, "name": secrets.token_hex(16) if name is None else name}
    if not isinstance(reward, Mapping):
        return _post(bandit, "reward", {**body, "reward": checked_reward(reward)}, lambda own: own["outcome"])
    places = {position: f"slot {position_named(position)}" for position in reward}
    values = {place: checked_reward(reward[position]) for position, place in places.items()}
    if len(values) < len(reward):
        raise ValueError(f"the rewards {dict(reward)!r} name a position twice")

    def outcomes(own: Any) -> dict[Any, Outcome]:
        return {position: own["outcome"][place] for position, place in places.items()}

    return _post(bandit, "reward", {**body, "reward": values}, outcomes)


def update(
    bandit: str,
    decision: ServedDecision | ServedSlate,
    reward: float | Mapping[Any, float],
    *,
    name: str | None = None,
) -> Call[Any]:
    """Record what a decision has earned, as :meth:`reward` does; the service learns it in a moment.

    Parameters
    ----------
    decision
        What :meth:`decide` or :meth:`rank` returned.
    reward
        What it earned; for a slate, rewards by position: ``{1: 0.0, "slot 2": 1.0}``.
    name
        As for :meth:`reward`.
    """
    if not isinstance(decision, ServedDecision | ServedSlate):
        raise ValueError(f"update takes what decide or rank returned, got {type(decision).__name__}")
    if isinstance(decision, ServedSlate) != isinstance(reward, Mapping):
        raise ValueError(f"a decision has one reward, a slate has rewards by position, got {reward!r}")
    return _reward(bandit, decision.id, reward, name=name)


_reward = reward  # an argument of `update` has its name


def reward_many(
    bandit: str, rewards: Iterable[tuple[str, float] | tuple[str, float, str | None]]
) -> Call[list[Outcome]]:
    """Record several rewards: all, or none.

    Parameters
    ----------
    rewards
        Pairs of id and reward, of decisions, not of slates; a third entry is the name of that reward, as
        :meth:`reward` takes it.
    """
    body = {"rewards": [_named(*one) for one in rewards]}
    return _post(bandit, "reward_many", body, lambda own: list(own["outcomes"]))


def _named(id: str, reward: float, name: str | None = None) -> dict[str, Any]:
    """Return a reward with a name, by which the service knows it if it comes again."""
    return {"id": id, "reward": checked_reward(reward), "name": secrets.token_hex(16) if name is None else name}


def activate(bandit: str, id: str) -> Call[bool]:
    """Let a decision count that was made with ``active=False``.

    Parameters
    ----------
    id
        Of the decision.
    """
    return _post(bandit, "activate", {"id": id}, lambda own: bool(own["activated"]))


# Looking


def explain(bandit: str, decision: ServedDecision | str) -> Call[list[Reason]]:
    """Return what pushed the chosen arm or item up or down, as :meth:`lim2.Bandit.explain` does.

    Parameters
    ----------
    decision
        What :meth:`decide` returned, or its id.
    """
    id = decision.id if isinstance(decision, ServedDecision) else decision
    return _post(bandit, "explain", {"id": id}, _reasons)


def evaluate(
    bandit: str, policy: Policy = "baseline", *, algorithm: str | None = None, last: int = 20_000
) -> Call[ServedEvaluation]:
    """Return what a policy would have earned where the logged decisions were made.

    Parameters
    ----------
    policy
        ``"baseline"``, always the first candidate; ``"random"``; ``"best"``, the model's best guess, trained on the
        first half of the decisions and evaluated on the second; or ``"algorithm"``, the same for another algorithm.
    algorithm
        Which one, for the last policy.
    last
        Only the newest decisions, as many.
    """
    body: dict[str, Any] = {"policy": policy, "last": last}
    return _post(bandit, "evaluate", body | ({} if algorithm is None else {"algorithm": algorithm}), _evaluated)


def snapshot(bandit: str) -> Call[Bandit]:
    """Download the model: a :class:`lim2.Bandit` that decides as the service does now, and goes on by itself."""
    return Call(Request("GET", f"{_path(bandit)}/snapshot"), from_bytes)


def info(bandit: str) -> Call[dict[str, Any]]:
    """Return the bandit's description and how it is doing: decisions, rewards, pending, lag, rounds and more."""
    return Call(Request("GET", _path(bandit)), _json)


# Making and changing


def create(
    bandit: str,
    /,
    arms: Iterable[Hashable] | Mapping[Hashable, Any] | None = None,
    *,
    algorithm: str = "AdaptiveTS",
    **more: Any,
) -> Call[dict[str, Any]]:
    """Make the bandit; nothing changes if the very same is there.

    Parameters
    ----------
    arms
        Names of the arms, or their features by name. None: items come with every call.
    algorithm
        What learns, the name of one of ``lim2.AGENTS``.
    **more
        ``exploration``, ``expire_after``, ``default_reward``, ``aggregate``, ``keep_days``, ``seed``, ``settings``,
        ``encoder``, ``item_encoder``; see docs/serve.md.
    """
    own = arms if arms is None else _features(arms) if isinstance(arms, Mapping) else _names(arms)
    content = dumps({"arms": own, "algorithm": algorithm, **as_json(more, "a description")})
    return Call(Request("PUT", _path(bandit), content), _json)


def change(bandit: str, /, **settings: Any) -> Call[dict[str, Any]]:
    """Change how rewards are counted from now on; what is left out stays as it is.

    Parameters
    ----------
    **settings
        ``expire_after``, ``default_reward``, ``aggregate``, ``keep_days``, ``exploration``.
    """
    return Call(Request("PATCH", _path(bandit), dumps(as_json(settings, "a change"))), _json)


def delete(bandit: str) -> Call[None]:
    """Remove the bandit, its log and its model."""
    return Call(Request("DELETE", _path(bandit)), lambda _: None, gone=404)


def erase(bandit: str, key: str) -> Call[int]:
    """Delete all decisions that were made with a key; return how many there were for the try that was answered.

    Parameters
    ----------
    key
        Of the person whom they are about.
    """
    return _post(bandit, "erase", {"key": key}, lambda own: int(own["erased"]))


def bandits() -> Call[list[dict[str, Any]]]:
    """Return all bandits of the service and how they are doing."""
    return Call(Request("GET", "/v1/bandits"), lambda content: list(_json(content)["bandits"]))


# Arguments to JSON

_NOTHING: dict[str, Any] = dict.fromkeys(("items", "arms", "id", "key", "metadata")) | {"exploit": False}


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
        raise ValueError(f"items must be features by name, {{name: features, ...}}, got {type(items).__name__}")
    return {_name(name): as_json(features, "an item") for name, features in items.items()}


def _names(arms: Iterable[Any]) -> list[str]:
    if isinstance(arms, str):
        raise ValueError(f"arms must be a list of names, got the string {arms!r}")
    return [_name(name) for name in arms]


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"a service knows arms and items by strings, got {name!r}")
    return name


def _path(bandit: str) -> str:
    return f"/v1/bandits/{quote(bandit, safe='')}"


def _post(bandit: str, what: str, body: Mapping[str, Any], result: Any) -> Call[Any]:
    # Not `dumps`, which sorts: the order of items is that of the answer.
    content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    return Call(Request("POST", f"{_path(bandit)}/{what}", content), lambda answer: result(_json(answer)))


# JSON to results


def _json(content: bytes) -> Any:
    return json.loads(content)


def _decided(own: Any) -> ServedDecision:
    return ServedDecision(
        id=own["id"],
        arm=own["arm"],
        propensity=own["propensity"],
        arms=tuple(own["arms"]),
        propensities=tuple(own["propensities"]),
    )


def _all_decided(own: Any) -> list[ServedDecision]:
    return [_decided(one) for one in own["decisions"]]


def _ranked(own: Any) -> ServedSlate:
    arms = tuple(one["arm"] for one in own["ranking"])
    chances = tuple(one["propensity"] for one in own["ranking"])
    return ServedSlate(
        own["id"],
        tuple(
            ServedDecision(id=f"{own['id']}/{place}", arm=arm, propensity=chance, arms=arms, propensities=chances)
            for place, (arm, chance) in enumerate(zip(arms, chances, strict=True), start=1)
        ),
    )


def _reasons(own: Any) -> list[Reason]:
    return [Reason(one["key"], one["value"], one["source"], one["contribution"]) for one in own["reasons"]]


def _evaluated(own: Any) -> ServedEvaluation:
    estimates = {
        name: Estimate(own[name]["value"], own[name]["low"], own[name]["high"])
        for name in ("logged", "ips", "snips", "dr", "gain")
    }
    return ServedEvaluation(
        policy=own["policy"],
        decisions=own["decisions"],
        effective_decisions=own["effective_decisions"],
        warnings=tuple(own["warnings"]),
        **estimates,
    )
