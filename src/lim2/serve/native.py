"""The native protocol: bandits by name, with the methods of lim2.Bandit."""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from lim2.control import controlled
from lim2.decision import Decision, Slate
from lim2.log import LoggedDecision, StoreUnavailableError, TakenIdError, UnknownDecisionError
from lim2.log.decisions import record_many, record_slate
from lim2.log.ids import new_id
from lim2.log.transactions import Transaction
from lim2.serve import arms, deciding, evaluating, revisions, wire
from lim2.serve import spec as specs
from lim2.serve.background import written
from lim2.serve.bandits import DecidingBandit
from lim2.serve.deciding import RecordedDecision
from lim2.serve.errors import ApiError, bad_request, refusals, shortened
from lim2.serve.operations import OCTETS, SMALL, Call, Operation, Reply
from lim2.serve.overview import decided, info_of, listed, listed_of, overview

BANDIT = "/v1/bandits/{name}"
MODEL = 64_000_000  # bytes of an uploaded model; a new one has 2,000,000


async def hosted_of(call: Call) -> DecidingBandit:
    """Return the bandit that a path names."""
    return await call.service.bandits.get(call.path["name"])


# Deciding


async def decide(call: Call) -> wire.DecideResponse:
    """Choose an arm or an item, and log the decision."""
    hosted, request = await hosted_of(call), call.body
    made = await deciding.decide(
        hosted,
        request.context, request.items, request.arms, exploit=request.exploit, id=request.id, key=request.key,
        metadata=request.metadata, active=request.active, size=call.size,
    )  # fmt: skip
    if isinstance(made, RecordedDecision):  # not one that was made before
        call.service.metrics.decided(hosted.name, made)
    return _decided(made)


async def decide_many(call: Call) -> wire.DecideManyResponse:
    """Make several decisions and log them together; an id that was used before gets its first answer."""
    hosted, requests = await hosted_of(call), call.body.requests
    ids = [own.id for own in requests if own.id is not None]
    if len(set(ids)) < len(ids):
        raise bad_request("an id comes twice", "requests")
    if not all(own.active for own in requests):
        raise bad_request("decisions that wait for activation are made one by one: use decide", "requests")
    known: dict[str, Any] = {}
    with refusals("decisions"):
        try:
            made = await _record_many(hosted, requests)
        except TakenIdError:
            known = await asyncio.to_thread(_known, hosted, ids)
            new = [own for own in requests if own.id not in known]
            try:
                made = await _record_many(hosted, new) if new else []
            except TakenIdError as error:  # by a request at the same moment
                raise ApiError(409, "InvalidRequest", f"{error}; send the request again") from error
    answers = iter(made)
    decisions = [known[own.id] if own.id in known else next(answers) for own in requests]
    for one in made:
        call.service.metrics.decided(hosted.name, one)
    return wire.DecideManyResponse([_decided(one) for one in decisions])


async def _record_many(hosted: DecidingBandit, requests: list[wire.DecideRequest]) -> list[Any]:
    decider, log, now = hosted.decider, hosted.log, time.time()
    made: list[Decision] = []

    def prepare() -> Transaction[list[LoggedDecision]]:
        control = specs.control_of(hosted.stored.spec)
        choices = [decider.decide(own.context, own.items, arms=own.arms, exploit=own.exploit) for own in requests]
        made.extend(one for choice in choices for one in controlled(control, [choice]))
        return record_many(
            log,
            made,
            raw=[own.context for own in requests],
            raw_items=[_candidates(decider, own) for own in requests],
            ids=[own.id or new_id(now) for own in requests],
            keys=[own.key for own in requests],
            metadata=[own.metadata for own in requests],
            agent=decider,
        )

    try:
        return await written(log, prepare)
    except StoreUnavailableError:
        return [deciding.unrecorded(one, own.id) for one, own in zip(made, requests, strict=True)]


def _known(hosted: DecidingBandit, ids: Iterable[str]) -> dict[str, Any]:
    """Return the decisions of these ids that are in the log."""
    found = {}
    for id in ids:
        with contextlib.suppress(UnknownDecisionError):
            found[id] = hosted.log.get(id)
    return found


async def rank(call: Call) -> wire.RankResponse:
    """Order arms or items, and log the slate; the same id gets the same slate."""
    hosted, own = await hosted_of(call), call.body
    decider, log, ranked = hosted.decider, hosted.log, list[Any]()

    def prepare() -> Transaction[Slate[LoggedDecision]]:
        ranking = decider.rank(own.context, own.items, own.k, arms=own.arms, exploit=own.exploit)
        made = controlled(specs.control_of(hosted.stored.spec), tuple(ranking))
        ranked.extend(made)
        return record_slate(
            log, made, raw=own.context, raw_items=_candidates(decider, own), id=own.id, key=own.key,
            metadata=own.metadata, agent=decider,
        )  # fmt: skip

    with refusals("a slate"):
        try:
            slate = await written(log, prepare)
            positions: list[Any] = list(slate)
            call.service.metrics.decided(hosted.name, positions[0], len(positions))
        except TakenIdError:
            positions = await asyncio.to_thread(_slate, hosted, own.id)
        except StoreUnavailableError:
            positions = [deciding.unrecorded(one, own.id) for one in ranked]
    ranking = [wire.RankedArm(str(one.arm), _chance(one.propensity)) for one in positions]
    id, recorded = positions[0].id.removesuffix("/1"), getattr(positions[0], "recorded", True)
    return wire.RankResponse(id=id, ranking=ranking, recorded=recorded)


def _slate(hosted: DecidingBandit, id: str) -> list[Any]:
    """Return the positions of a slate that is in the log."""
    found: list[Any] = []
    while part := _known(hosted, [f"{id}/{len(found) + 1}"]).get(f"{id}/{len(found) + 1}"):
        if part.position != len(found) + 1:  # a decision whose id has this form
            break
        found.append(part)
    if not found:
        raise ApiError(409, "InvalidRequest", f"{shortened(id)} is the id of a decision, not of a slate", "id")
    return found


def _candidates(decider: Any, own: Any) -> Any:
    """Return the features of the candidates, as the log keeps them."""
    return decider.rows.candidates(decider.core.state, own.items, own.arms)


def _decided(made: Any) -> wire.DecideResponse:
    return wire.DecideResponse(
        id=made.id,
        arm=made.arm,
        propensity=_chance(made.propensity),
        arms=list(made.arms),
        propensities=[_chance(one) for one in made.propensities],
        group=made.group,
        recorded=getattr(made, "recorded", True),
    )


def _chance(value: Any) -> float:
    return min(float(value), 1.0)  # rounding may leave it above


# Rewards


async def reward(call: Call) -> wire.RewardResponse:
    """Record the reward of a decision, or of positions of a slate."""
    hosted, own = await hosted_of(call), call.body
    given = own.reward if isinstance(own.reward, dict) else {"": own.reward}
    deciding.check_recorded(own.id)
    with refusals("a reward"):
        if isinstance(own.reward, dict):
            by_position = {_position(key): value for key, value in own.reward.items()}
            found = (await hosted.log.areward(own.id, by_position, name=own.name)).values()
            statuses = dict(zip(given, found, strict=True))
        else:
            statuses = {"": await hosted.log.areward(own.id, own.reward, name=own.name)}
    for position, value in given.items():
        call.service.metrics.rewarded(hosted.name, statuses[position], value)
    hosted.tell()
    return wire.RewardResponse(statuses if isinstance(own.reward, dict) else statuses[""])


def _position(key: str) -> int | str:
    return int(key) if key.isascii() and key.isdigit() and len(key) < 6 and key[0] != "0" else key


async def reward_many(call: Call) -> wire.RewardManyResponse:
    """Record several rewards in one request."""
    hosted, rewards = await hosted_of(call), call.body.rewards
    if any(isinstance(own.reward, dict) for own in rewards):
        raise bad_request("rewards of slates are given one slate at a time: use reward", "rewards")
    for own in rewards:
        deciding.check_recorded(own.id)
    with refusals("rewards"):
        statuses = await hosted.log.areward_many([(own.id, own.reward, own.name) for own in rewards])
    for own, status in zip(rewards, statuses, strict=True):
        call.service.metrics.rewarded(hosted.name, status, own.reward)
    hosted.tell()
    return wire.RewardManyResponse(list(statuses))


async def activate(call: Call) -> wire.ActivateResponse:
    """Activate a decision that was made with ``active: false``."""
    hosted = await hosted_of(call)
    deciding.check_recorded(call.body.id)
    with refusals("an activation"):
        counts = await hosted.log.aactivate(call.body.id)
    hosted.tell()
    return wire.ActivateResponse(bool(counts))


# Looking


async def explain(call: Call) -> wire.ExplainResponse:
    """Return what each key adds to the score of the arm or item that a logged decision chose."""
    hosted = await hosted_of(call)
    made = await asyncio.to_thread(hosted.get, call.body.id)
    with refusals("an explanation"):
        found = await asyncio.to_thread(hosted.decider.explain, made)
    reasons = [wire.Reason(one.key, one.value, one.source, float(one.contribution)) for one in found]  # type: ignore[arg-type]
    return wire.ExplainResponse(made.id, str(made.arm), reasons)


async def evaluate(call: Call) -> wire.EvaluateResponse:
    """Estimate what another policy would have earned."""
    hosted = await hosted_of(call)
    with refusals("an evaluation"):
        return await call.service.background.run(lambda: evaluating.evaluated(hosted, call.body))


async def proof(call: Call) -> wire.ProofResponse:
    """Compare the bandit with a rule, by an interval that is valid however often one looks at it."""
    hosted = await hosted_of(call)
    with refusals("a proof"):
        return await call.service.background.run(lambda: evaluating.proved(hosted, call.body))


async def snapshot(call: Call) -> Reply:
    """Return the model as a file for ``lim2.load``."""
    hosted = await hosted_of(call)
    content = await asyncio.to_thread(hosted.model_file)
    name = f'attachment; filename="{hosted.name}.lim2"'
    return Reply(content, headers={"content-disposition": name}, media=OCTETS)


async def show(call: Call) -> wire.BanditInfo:
    """Return the description and the counts of a bandit."""
    return await asyncio.to_thread(info_of, await hosted_of(call))


async def show_all(call: Call) -> wire.Bandits:
    """Return a page of the list of all bandits, each with its counts, in the order of their names."""
    bandits, query, access = call.service.bandits, call.query, call.access
    with refusals("the list of bandits"):
        if access is None or access.bandits is None:
            failures = call.service.failures
            return await asyncio.to_thread(listed, bandits, failures, query.after, query.limit)
        return await asyncio.to_thread(listed_of, bandits, access.bandits, query.after, query.limit)


async def show_overview(call: Call) -> wire.Overview:
    """Return the figures of a bandit that the dashboard shows."""
    hosted = await hosted_of(call)
    with refusals("an overview"):
        return await call.service.background.run(lambda: overview(hosted, call.query.points, call.query.last))


async def latest(call: Call) -> wire.Decided:
    """Return a decision with its status and reward."""
    hosted = await hosted_of(call)
    return decided(await asyncio.to_thread(hosted.get, call.path["id"]))


# Making and changing


async def create(call: Call) -> Reply:
    """Create a bandit; 200 instead of 201 if an identical one exists."""
    name = call.path["name"]
    new = await asyncio.to_thread(call.service.bandits.create, name, call.body)
    hosted = await call.service.bandits.get(name)
    return Reply(await asyncio.to_thread(info_of, hosted), 201 if new else 200)


async def change(call: Call) -> wire.BanditInfo:
    """Change settings: how rewards are counted, how long decisions are kept, epsilon, or the algorithm."""
    hosted = await hosted_of(call)
    fields = msgspec.structs.asdict(call.body).items()
    settings = {name: value for name, value in fields if value is not msgspec.UNSET}
    await asyncio.to_thread(revisions.change, hosted, settings)
    call.details.update(msgspec.to_builtins(settings))
    await call.service.stepped(hosted)
    return await asyncio.to_thread(info_of, hosted)


async def upload(call: Call) -> Reply:
    """Replace the model by a file of ``lim2.Bandit.save``; it learns from later rewards."""
    hosted = await hosted_of(call)
    await asyncio.to_thread(revisions.upload, hosted, call.body)
    await call.service.stepped(hosted)
    return Reply(status=204)


async def add_arm(call: Call) -> Reply:
    """Add an arm; 200 instead of 201 if it exists."""
    hosted, own = await hosted_of(call), call.body
    call.details["arm"] = own.name
    new, found = await asyncio.to_thread(arms.add, hosted, own.name, own.like, own.features)
    return Reply(wire.Arms(found), 201 if new else 200)


async def remove_arm(call: Call) -> Reply:
    """Remove an arm; later rewards of it are not learned."""
    call.details["arm"] = call.path["arm"]
    await asyncio.to_thread(arms.remove, await hosted_of(call), call.path["arm"])
    return Reply(status=204)


async def delete(call: Call) -> Reply:
    """Delete a bandit, its log and its model."""
    await asyncio.to_thread(call.service.bandits.delete, call.path["name"])
    return Reply(status=204)


async def erase(call: Call) -> wire.EraseResponse:
    """Delete all decisions that were made with a key."""
    hosted = await hosted_of(call)
    with refusals("an erasure"):
        erased = await asyncio.to_thread(hosted.log.erase, call.body.key)
    call.details["decisions"] = erased
    return wire.EraseResponse(erased)


def _operation(name: str, path: str, handler: Any, method: str, **rest: Any) -> Operation:
    summary = (handler.__doc__ or "").split("\n")[0]
    return Operation(name=name, method=method, path=path, handler=handler, summary=summary, tag="Bandits", **rest)


DECIDES: dict[str, Any] = {"method": "POST", "roles": ("decide",)}
READS: dict[str, Any] = {"method": "GET", "roles": ("read",)}

OPERATIONS = [
    _operation("decide", f"{BANDIT}/decide", decide, body=wire.DecideRequest, answer=wire.DecideResponse, **DECIDES),
    _operation("reward", f"{BANDIT}/reward", reward, body=wire.RewardRequest, answer=wire.RewardResponse, **DECIDES),
    _operation("rank", f"{BANDIT}/rank", rank, body=wire.RankRequest, answer=wire.RankResponse, **DECIDES),
    _operation("decide_many", f"{BANDIT}/decide_many", decide_many,
               body=wire.DecideManyRequest, answer=wire.DecideManyResponse, **DECIDES),
    _operation("reward_many", f"{BANDIT}/reward_many", reward_many,
               body=wire.RewardManyRequest, answer=wire.RewardManyResponse, **DECIDES),
    _operation("activate", f"{BANDIT}/activate", activate,
               body=wire.ActivateRequest, most=SMALL, answer=wire.ActivateResponse, **DECIDES),
    _operation("decision", f"{BANDIT}/decisions/{{id:path}}", latest, "GET",
               answer=wire.Decided, roles=("decide", "read")),
    _operation("explain", f"{BANDIT}/explain", explain, "POST",
               body=wire.ExplainRequest, most=SMALL, answer=wire.ExplainResponse, roles=("read",)),
    _operation("evaluate", f"{BANDIT}/evaluate", evaluate, "POST",
               body=wire.EvaluateRequest, most=SMALL, answer=wire.EvaluateResponse, roles=("read",)),
    _operation("proof", f"{BANDIT}/proof", proof, "POST",
               body=wire.ProofRequest, answer=wire.ProofResponse, roles=("read",)),
    _operation("overview", f"{BANDIT}/overview", show_overview, query=wire.Points, answer=wire.Overview, **READS),
    _operation("snapshot", f"{BANDIT}/snapshot", snapshot, answer=bytes, **READS),
    _operation("upload", f"{BANDIT}/snapshot", upload, "PUT", body=bytes, most=MODEL, status=204, audit="uploaded"),
    _operation("show", BANDIT, show, answer=wire.BanditInfo, **READS),
    _operation("create", BANDIT, create, "PUT",
               body=specs.BanditSpec, answer=wire.BanditInfo, status=201, audit="created"),
    _operation("change", BANDIT, change, "PATCH",
               body=wire.SettingsRequest, most=SMALL, answer=wire.BanditInfo, audit="changed"),
    _operation("delete", BANDIT, delete, "DELETE", status=204, audit="deleted"),
    _operation("erase", f"{BANDIT}/erase", erase, "POST",
               body=wire.EraseRequest, most=SMALL, answer=wire.EraseResponse, audit="erased"),
    _operation("add_arm", f"{BANDIT}/arms", add_arm, "POST",
               body=wire.ArmRequest, answer=wire.Arms, status=201, audit="arm added"),
    _operation("remove_arm", f"{BANDIT}/arms/{{arm:path}}", remove_arm, "DELETE", status=204, audit="arm removed"),
    _operation("list", "/v1/bandits", show_all, query=wire.Page, answer=wire.Bandits, **READS),
]  # fmt: skip
