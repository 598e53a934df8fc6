"""What counts as a reward, and when: deferred events, waiting, aggregation, learning modes."""

from typing import Any

import pytest
from helpers.clock import Clock
from serve.learning import learned as wait_until_learned
from serve.stores import over_all
from starlette.testclient import TestClient

from lim2.serve.personalizer.multislot import row_of
from lim2.serve.service import Service

pytestmark = over_all

V1, V11 = "/personalizer/v1.0", "/personalizer/v1.1-preview.3"
ACTIONS = [{"id": "a", "features": [{"x": "1"}]}, {"id": "b", "features": [{"x": "2"}]}]


@pytest.fixture
def clock(service: Service) -> Clock:
    made = Clock(1_800_000_000.0)
    service.personalizer.log.clock = made
    return made


def rank(client: TestClient, event: str, **more: Any) -> Any:
    answer = client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": event, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def reward(client: TestClient, event: str, value: float) -> None:
    assert client.post(f"{V1}/events/{event}/reward", json={"value": value}).status_code == 204


def activate(client: TestClient, event: str) -> None:
    assert client.post(f"{V1}/events/{event}/activate").status_code == 204


def configure(client: TestClient, **settings: Any) -> None:
    assert client.patch("/v1/bandits/personalizer", json=settings).status_code == 200


def learned(service: Service, event: str) -> tuple[int, str, float | None]:
    """Return how many rewards were learned, and what has become of an event."""
    service.personalizer.log.expire()  # by the clock of this test
    settings = service.personalizer.stored.personalizer
    if settings is None or settings.learning_mode != "LoggingOnly":
        wait_until_learned(service, "personalizer")
    made = service.personalizer.log.get(event)
    return service.personalizer.rounds, made.status, made.reward


def test_the_first_reward_counts_and_later_ones_are_ignored(client: TestClient, service: Service) -> None:
    rank(client, "e")
    reward(client, "e", 1.0)
    reward(client, "e", 0.25)
    reward(client, "e", 1.0)
    assert learned(service, "e") == (1, "reward", 1.0)


def test_a_reward_that_does_not_come_is_the_default_one(client: TestClient, service: Service, clock: Clock) -> None:
    configure(client, default_reward=0.5, expire_after=600)
    rank(client, "e")
    assert learned(service, "e") == (0, "pending", None)
    clock.now += 601
    assert learned(service, "e") == (1, "default", 0.5)
    reward(client, "e", 1.0)  # too late: logged, not learned
    assert learned(service, "e") == (1, "default", 0.5)
    assert service.personalizer.log.state.late == 1


def test_rewards_are_summed_until_the_wait_is_over(client: TestClient, service: Service, clock: Clock) -> None:
    configure(client, aggregate="sum")
    rank(client, "e")
    reward(client, "e", 0.5)
    reward(client, "e", 0.25)
    assert learned(service, "e")[0] == 0
    clock.now += 601
    assert learned(service, "e") == (1, "reward", 0.75)


def test_a_retry_with_the_clients_request_id_is_summed_once(client: TestClient, service: Service, clock: Clock) -> None:
    configure(client, aggregate="sum")
    rank(client, "e")
    for _ in range(3):
        sent = client.post(
            f"{V1}/events/e/reward", json={"value": 0.5}, headers={"x-ms-client-request-id": "the same call"}
        )
        assert sent.status_code == 204
    clock.now += 601
    assert learned(service, "e") == (1, "reward", 0.5)


def test_a_retry_of_the_rewards_of_slots_is_summed_once(client: TestClient, service: Service, clock: Clock) -> None:
    configure(client, aggregate="sum")
    slots = [{"id": "top", "baselineAction": "a"}]
    made = client.post(f"{V11}/multislot/rank", json={"actions": ACTIONS, "slots": slots, "eventId": "m"})
    assert made.status_code == 201
    given = {"reward": [{"slotId": "top", "value": 0.25}, {"slotId": "top", "value": 0.5}]}
    for _ in range(3):
        headers = {"x-ms-client-request-id": "the same call"}
        assert client.post(f"{V11}/multislot/events/m/reward", json=given, headers=headers).status_code == 204
    clock.now += 601
    assert learned(service, row_of("m", 0)) == (1, "reward", 0.75)


def test_a_deferred_event_without_activation_is_not_learned(client: TestClient, service: Service, clock: Clock) -> None:
    rank(client, "e", deferActivation=True)
    reward(client, "e", 1.0)
    assert learned(service, "e")[0] == 0
    clock.now += 601
    assert learned(service, "e")[:2] == (0, "dropped")


@pytest.mark.parametrize("first", ["reward", "activate"])
def test_a_deferred_event_counts_once_it_is_activated(first: str, client: TestClient, service: Service) -> None:
    rank(client, "e", deferActivation=True)
    if first == "reward":
        reward(client, "e", 1.0)
        activate(client, "e")
    else:
        activate(client, "e")
        reward(client, "e", 1.0)
    assert learned(service, "e") == (1, "reward", 1.0)


def test_a_deferred_event_with_activation_and_no_reward_learns_the_default(
    client: TestClient, service: Service, clock: Clock
) -> None:
    configure(client, default_reward=-0.5)
    rank(client, "e", deferActivation=True)
    activate(client, "e")
    clock.now += 601
    assert learned(service, "e") == (1, "default", -0.5)


def test_apprentice_answers_the_first_action_and_learns_from_it(client: TestClient, service: Service) -> None:
    configure(client, learning_mode="Apprentice")
    for number in range(4):
        answer = rank(client, f"e{number}", excludedActions=["a"] if number == 3 else [])
        assert answer["rewardActionId"] == ("b" if number == 3 else "a")
        assert {one["id"]: one["probability"] for one in answer["ranking"]} == (
            {"a": 0.0, "b": 1.0} if number == 3 else {"a": 1.0, "b": 0.0}
        )
        reward(client, f"e{number}", 1.0)
    assert learned(service, "e0") == (4, "reward", 1.0)
    assert rank(client, "e0")["rewardActionId"] == "a"


def test_logging_only_learns_nothing_until_it_is_left(client: TestClient, service: Service) -> None:
    configure(client, learning_mode="LoggingOnly")
    assert rank(client, "e")["rewardActionId"] == "a"
    reward(client, "e", 1.0)
    assert learned(service, "e") == (0, "reward", 1.0)
    configure(client, learning_mode="Online")
    assert learned(service, "e")[0] == 1


def test_features_are_read_as_personalizer_reads_them(client: TestClient, service: Service) -> None:
    context = [{"user": {"age": 31, "_id": "secret", "plan": None}}, {"user": {"at": [0.5, 1]}}, {"_note": "x"}]
    rank(client, "e", contextFeatures=context)
    assert service.personalizer.log.get("e").raw == {"user": {"age": 31, "at": [0.5, 1], "plan": None}}


def test_dates_are_categories_as_all_strings_are(client: TestClient, service: Service) -> None:
    """Personalizer makes one-hots of strings, so two dates are two values, and not two points in time."""
    day = {"day": "2026-11-16", "hour": 10}
    actions = [{"id": f"a{place}", "features": [{"since": since}]} for place, since in enumerate(("2026-11-01", "x"))]
    for event in ("e1", "e2"):
        rank(client, event, actions=actions, contextFeatures=[day])
        reward(client, event, 1.0)
    wait_until_learned(service, "personalizer")
    columns = service.personalizer.decider.columns
    assert {one.name: one.kind for one in columns["context"]} == {"day": "category", "hour": "number"}
    assert {one.kind for one in columns["item"]} == {"category"}
    made = client.put("/v1/bandits/native", json={})
    assert made.status_code == 201  # the native protocol's strings in ISO format are times
    asked = {"context": day, "items": {"a": {"since": "2026-11-01"}}, "id": "d"}
    assert client.post("/v1/bandits/native/decide", json=asked).status_code == 200
    assert client.post("/v1/bandits/native/reward", json={"id": "d", "reward": 1}).status_code == 200
    wait_until_learned(service, "native")
    kinds = service.bandits.opened["native"].decider.columns
    assert [(one.name, one.kind) for one in kinds["item"]] == [("since", "time")]


def test_the_same_event_gets_the_same_answer_whatever_is_asked(client: TestClient) -> None:
    answers = [rank(client, "e", excludedActions=["b"] if number else []) for number in range(3)]
    assert answers[0] == answers[1] == answers[2]


def test_slots_are_rewarded_one_by_one(client: TestClient, service: Service) -> None:
    slots = [{"id": "top", "baselineAction": "b"}, {"id": "side", "baselineAction": "a", "excludedActions": ["b"]}]
    for event in (*"abcdefgh", "m"):
        body = {"actions": ACTIONS, "slots": slots, "eventId": event}
        answer = client.post(f"{V11}/multislot/rank", json=body).json()
        # `side` may not have b, so that `top` must
        assert answer["slots"] == [{"id": "top", "rewardActionId": "b"}, {"id": "side", "rewardActionId": "a"}]
    assert client.post(f"{V11}/multislot/rank", json=body).json() == answer
    one = {"reward": [{"slotId": "side", "value": 1.0}]}
    assert client.post(f"{V11}/multislot/events/m/reward", json=one).status_code == 204
    wait_until_learned(service, "personalizer")
    assert service.personalizer.rounds == 1
    assert client.post(f"{V11}/events/m/reward", json={"value": 1.0}).status_code == 404  # that is another kind


def test_another_algorithm_learns_the_log_again(client: TestClient, service: Service) -> None:
    for number in range(6):
        rank(client, f"e{number}")
        reward(client, f"e{number}", float(number % 2))
    configure(client, algorithm="LinearTS")
    assert service.personalizer.rounds == 6
    assert client.get("/v1/bandits/personalizer").json()["spec"]["algorithm"] == "LinearTS"
    refused = client.patch("/v1/bandits/personalizer", json={"algorithm": "Oracle", "epsilon": 0.5})
    assert (refused.status_code, service.personalizer.stored.spec.epsilon) == (400, 0.03)
