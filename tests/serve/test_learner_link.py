"""Processes that decide and one that learns, played by services of this process: what one knows, the others get."""

import contextlib
import math
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from serve.linked import answered, learning
from serve.running import KEY
from serve.stores import over_all
from starlette.testclient import TestClient

import lim2
from lim2.log.learning import position_of
from lim2.serve import learner_main
from lim2.serve.app import application
from lim2.serve.config import load
from lim2.serve.hosted import Hosted
from lim2.serve.learner_link import Link, LinkError, Question, Report
from lim2.serve.learner_main import Answering
from lim2.serve.messages import receive, send
from lim2.serve.service import Service

pytestmark = over_all

SHOP, SNAPSHOT = "/v1/bandits/shop", "/v1/bandits/personalizer/snapshot"
ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}


class Decides(NamedTuple):
    """A service that decides, whose thread asks only when a test says so, and a client of it."""

    service: Service
    client: TestClient

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return answered(self.client, method, path, body)

    def look(self) -> int:
        return self.service.learner.look()

    def hosted(self, name: str = "shop") -> Hosted:
        return self.service.registry.opened[name]

    def rewarded(self, id: str, reward: float = 1.0) -> None:
        assert self.call("POST", f"{SHOP}/decide", {"items": ITEMS, "id": id})[0] == 200
        assert self.call("POST", f"{SHOP}/reward", {"id": id, "reward": reward}) == (200, {"status": "recorded"})

    @property
    def caught_up(self) -> bool:
        return all(hosted.caught_up for hosted in self.service.registry.open)

    def counted(self, metric: str) -> float:
        lines = self.call("GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f'{metric}{{bandit="shop"}}'))


class Linked(NamedTuple):
    """Two services that decide, and the one that learns for them."""

    one: Decides
    two: Decides
    answering: Answering


@pytest.fixture
def linked(tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Linked]:
    """Each pass looks at all bandits and ends with the last; models are published at first, and when asked for."""
    monkeypatch.setattr(Hosted, "due", True)
    for name in ("PASS", "SHARED", "ALONE"):
        monkeypatch.setattr(learner_main, name, math.inf)
    monkeypatch.setattr("lim2.serve.learner.Learner._run", lambda self: self._wake.wait())
    given = {"api_key": KEY, "data": str(tmp_path / "data"), "synchronous": "normal", "store": store, "poll": 0.001}
    config, headers = load(environment={}, given=given), {"Ocp-Apim-Subscription-Key": KEY}
    with learning(config, tmp_path) as (address, answering):
        services = [Service(config, link=Link(address)) for _ in range(2)]
        clients = [TestClient(application(own), headers=headers, raise_server_exceptions=False) for own in services]
        with clients[0], clients[1]:
            one, two = (Decides(*pair) for pair in zip(services, clients, strict=True))
            yield Linked(one, two, answering)


def test_what_is_learned_reaches_all_who_decide_and_is_counted_once(linked: Linked) -> None:
    one, two, _ = linked
    assert not one.caught_up and not two.caught_up  # nobody has said whether there is something to catch up with
    assert one.call("PUT", SHOP, {"epsilon": 0.1})[0] == 201
    for number in range(5):
        one.rewarded(str(number))
    assert (one.look(), two.look()) == (5, 0)
    assert one.caught_up and two.caught_up
    for process in (one, two):
        own = process.call("GET", SHOP)[1]
        assert (own["rounds"], own["lag"], own["leads"], own["failure"]) == (5, 0, True, None)
        assert process.hosted()._bandit is None  # it only decides
    assert (one.counted("lim2_learned_rewards_total"), two.counted("lim2_learned_rewards_total")) == (5, 0)
    question = {"x": 1.0}, ITEMS
    deciders = [process.hosted().decider for process in (one, two)]
    assert deciders[0].propensities(*question).tobytes() == deciders[1].propensities(*question).tobytes()
    assert deciders[0].core.streams.serve.random() != deciders[1].core.streams.serve.random()
    before = one.hosted().decider
    assert one.look() == 0 and one.hosted().decider is before  # nothing has changed, so nothing is sent


def test_a_change_holds_when_it_is_answered(linked: Linked) -> None:
    one, two, _ = linked
    assert one.call("PUT", "/v1/bandits/banner", {"arms": ["a"], "algorithm": "LinearTS"})[0] == 201
    assert one.call("POST", "/v1/bandits/banner/arms", {"name": "b"})[0] == 201
    assert one.hosted("banner").decider.arms == ("a", "b")
    two.look()
    assert two.call("DELETE", "/v1/bandits/banner/arms/a")[0] == 204
    assert two.hosted("banner").decider.arms == ("b",)
    one.call("PUT", SHOP, {"epsilon": 0.1})
    one.look()
    assert one.call("PATCH", SHOP, {"epsilon": 0.4})[0] == 200
    assert one.hosted().decider.epsilon == 0.4
    assert (
        one.call("PUT", "/v1/bandits/personalizer/snapshot", lim2.Bandit(algorithm="LinearTS", seed=5).to_bytes())[0]
        == 204
    )
    assert one.hosted("personalizer").decider.name == "LinearTS"


def test_the_model_that_is_given_has_learned_everything(linked: Linked) -> None:
    one, two, _ = linked
    one.call("PUT", SHOP, {"seed": 1})
    for number in range(4):
        one.rewarded(str(number), number / 4)
    given = lim2.from_bytes(two.call("GET", f"{SHOP}/snapshot")[1])
    assert (given.rounds, position_of(given)) == (4, 4)
    model = two.hosted().log.model()
    assert model is not None and model.position == 4


class Taken(contextlib.nullcontext[None]):
    """A lock that others hold for longer than any limit."""

    def acquire(self, timeout: float) -> bool:
        return timeout < 0

    def release(self) -> None: ...


def test_a_request_for_a_model_waits_while_others_are_answered(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _, _ = linked
    one.call("PUT", SHOP, {})
    one.rewarded("a")
    monkeypatch.setattr(one.service.learner, "_answering", Taken())
    one.hosted().learn_now()
    assert one.hosted().rounds == 0  # what a request has changed is learned later
    assert lim2.from_bytes(one.call("GET", f"{SHOP}/snapshot")[1]).rounds == 1


def test_a_bandit_made_anew_is_not_mixed_up_with_the_one_before(linked: Linked) -> None:
    one, two, _ = linked
    one.call("PUT", SHOP, {"arms": ["a"], "algorithm": "LinearTS"})
    one.look()
    assert two.call("DELETE", SHOP)[0] == 204
    assert two.call("PUT", SHOP, {"arms": ["b"], "algorithm": "LinearTS"})[0] == 201
    for process in (one, two, one):
        process.look()
        assert process.call("POST", f"{SHOP}/decide", {})[1]["arm"] == "b"
    assert one.hosted().leads and two.hosted().leads
    late = two.hosted()
    two.call("DELETE", SHOP)
    assert late.mark != -1
    report = _report(linked, "personalizer")._replace(name="shop")
    late.take(report)
    assert late.decider.arms == ("b",)  # it is closed
    two.call("PUT", SHOP, {"arms": ["c"], "algorithm": "LinearTS"})
    two.hosted().take(report)
    assert two.hosted().decider.arms == ("c",)  # it is another bandit


def _report(linked: Linked, name: str) -> Report:
    (found,) = [own for own in linked.answering.answer(Question({})).reports if own.name == name]
    return found


def test_who_opens_a_bandit_later_gets_what_was_learned_before(linked: Linked) -> None:
    one, two, _ = linked
    one.call("PUT", SHOP, {})
    for id in ("published", "not"):
        one.rewarded(id)
        one.hosted().learn_now()
    two.look()
    two.service.registry.drop("shop")
    assert two.call("GET", SHOP)[1]["rounds"] == 1
    two.look()
    assert two.call("GET", SHOP)[1]["rounds"] == 2


def test_a_failure_to_learn_is_said_by_those_who_decide(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, answering = linked
    one.call("PUT", SHOP, {})
    one.look()
    one.rewarded("a")
    hosted = answering._registry.opened["shop"]

    def broken(*_: Any, **__: Any) -> int:
        raise ArithmeticError("it does not add up")

    monkeypatch.setattr(hosted.log, "apply", broken)
    one.look()
    two.look()
    for process in (one, two):
        assert process.call("GET", "/readyz")[1]["failures"] == {"shop": "ArithmeticError: it does not add up"}
        assert process.call("POST", f"{SHOP}/decide", {"items": ITEMS})[0] == 200
    assert (one.counted("lim2_learner_failures_total"), two.counted("lim2_learner_failures_total")) == (1, 0)
    monkeypatch.undo()
    answering._learner._retry.clear()
    one.hosted().learn_now()
    assert one.hosted().rounds == 1
    assert one.call("GET", "/readyz")[1]["failures"] == {}


def test_without_the_process_that_learns_decisions_go_on_and_it_is_asked_again(
    linked: Linked, caplog: pytest.LogCaptureFixture
) -> None:
    one, _, _ = linked
    one.call("PUT", SHOP, {})
    one.rewarded("a")
    one.look()
    link = one.service.learner._link
    assert link is not None
    there, link._address = link._address, link._address + "-gone"
    link._hang_up()
    with pytest.raises(LinkError, match="does not answer"):
        link.ask(Question({}))
    one.rewarded("b")
    assert (one.look(), one.look()) == (0, 0)
    assert [record.message for record in caplog.records if "nothing is learned" in record.message][1:] == []
    assert one.call("PATCH", SHOP, {"expire_after": 5, "default_reward": 0.0})[0] == 200  # learned later
    assert (one.hosted().rounds, one.hosted().lag) == (1, 1)
    link._address = there
    assert one.look() == 1
    assert (one.hosted().rounds, one.hosted().lag) == (2, 0)


def test_models_of_another_service_are_followed_and_never_back(linked: Linked) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    for number in range(3):
        one.rewarded(str(number))
    one.look()
    mine = answering._registry.opened["shop"]
    mine.publish()
    one.rewarded("more")
    one.look()
    assert (one.hosted().rounds, one.hosted().leads) == (4, True)
    newest = one.hosted().decider
    mine._release()
    other = Hosted("shop", answering._catalog, publish_every=0.0)
    try:
        other._stand()  # another service learns it from now on
        one.look()
        assert not one.hosted().leads
        assert one.hosted().decider is newest  # what is published has learned less
        one.rewarded("last")
        other.step()
        one.look()
        assert (one.hosted().rounds, one.hosted().lag) == (5, 0)
    finally:
        other.close()


def test_models_of_another_service_are_followed_while_the_process_that_learns_does_not_answer(linked: Linked) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.rewarded("a")
    one.look()
    link = one.service.learner._link
    assert link is not None and one.hosted().leads
    there, link._address = link._address, link._address + "-gone"
    link._hang_up()
    mine = answering._registry.opened["shop"]
    mine._release()  # as the server of a database does with one that stands still
    other = Hosted("shop", answering._catalog, publish_every=0.0)
    try:
        one.rewarded("b")
        other.step()
        one.look()
        assert (one.hosted().rounds, one.hosted().leads) == (2, False)
    finally:
        other.close()
    link._address = there
    mine.has_news()
    one.look()
    assert (one.hosted().rounds, one.hosted().leads) == (2, True)
    there, link._address = link._address, link._address + "-gone"
    link._hang_up()
    one.look()
    link._address = there
    one.look()  # the same report as before
    assert one.hosted().leads


def test_a_process_that_takes_no_answer_is_left_alone(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_main, "SEND", 1)
    linked.one.call("PUT", SHOP, {})
    link = linked.one.service.learner._link
    assert link is not None
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        stuck.connect(link._address)
        send(stuck, Question({}))
        linked.one.rewarded("a")  # which is learned nevertheless
        linked.one.hosted().learn_now()
        assert linked.one.hosted().rounds == 1
        with pytest.raises((EOFError, OSError)):
            receive(stuck)


def restarted(answering: Answering) -> Hosted:
    """Return a bandit as a process has it that learns from now on: with the model that was published last."""
    answering._registry.let_go(answering._registry.opened["shop"], publish=False)
    answering._reports.clear()
    return answering._registry.opening("shop")


def test_a_process_that_learns_and_begins_anew_does_not_take_anybody_back(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.rewarded("published")
    one.hosted().learn_now()
    for number in range(9):
        one.rewarded(str(number))
    one.hosted().learn_now()
    assert one.hosted().rounds == 10
    monkeypatch.setattr("lim2.serve.hosted.FEW", 2)
    monkeypatch.setattr("lim2.serve.hosted.A_WHILE", 0.0)
    again = restarted(answering)
    assert again.rounds == 1
    for _ in range(8):  # it learns two at a time
        one.hosted().learn_now()
        assert one.hosted().rounds == 10
    assert again.rounds == 10


def test_a_process_that_takes_over_and_fails_does_not_take_anybody_back(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.rewarded("a")
    one.hosted().learn_now()
    again = restarted(answering)
    empty = lim2.Bandit(epsilon=0.05).snapshot()
    again.decider, again.rounds = empty, 0  # as it was when this process opened it

    def broken(*_: Any, **__: Any) -> int:
        raise ArithmeticError("it does not add up")

    monkeypatch.setattr(again.log, "apply", broken)
    one.hosted().learn_now()
    assert one.hosted().failure is not None
    assert one.hosted().rounds == 1


def test_a_pass_ends_after_a_while_and_the_next_one_goes_on(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _, answering = linked
    names = ["a", "b", "c"]
    for name in names:
        assert one.call("PUT", f"/v1/bandits/{name}", {"arms": ["x"], "algorithm": "LinearTS"})[0] == 201
    one.look()
    monkeypatch.setattr(learner_main, "PASS", 0.0)  # there is time for one bandit
    seen: list[str] = []
    step = answering._learner._step

    def noted(hosted: Hosted) -> int:
        seen.append(hosted.name)
        return step(hosted)

    monkeypatch.setattr(answering._learner, "_step", noted)
    answers = [answering.answer(Question({})) for _ in range(4)]
    assert sorted(seen) == ["a", "b", "c", "personalizer"]
    assert [answer.unfinished for answer in answers] == [True, True, True, False]
    one.service.learner._wake.clear()
    one.look()
    assert one.service.learner._wake.is_set()  # it asks again at once
    last = seen[-1]
    other = next(name for name in names if name != last)
    answering.answer(Question({}, other))
    assert seen[-1] == other  # a request waits for it


def test_what_nobody_received_is_said_again(linked: Linked) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.rewarded("a")
    lost = answering.answer(Question({}, "shop"))
    assert [lesson.rewards for lesson in lost.lessons] == [1]
    answering.not_received(lost)
    one.look()
    assert (one.hosted().rounds, one.counted("lim2_learned_rewards_total")) == (1, 1)


def test_an_answer_that_cannot_be_read_is_as_if_there_were_none(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.rewarded("a")

    def unreadable(_: Any) -> Any:
        raise AttributeError("of another version")

    monkeypatch.setattr("lim2.serve.learner_link.receive", unreadable)
    assert one.look() == 0 and not one.service.learner.answers
    monkeypatch.undo()
    monkeypatch.setattr(answering, "answer", unreadable)
    assert one.look() == 0
    monkeypatch.undo()
    one.look()
    assert one.service.learner.answers and one.hosted().rounds == 1


def test_a_bandit_made_anew_is_changed_when_it_is_answered(linked: Linked) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.look()
    one.call("DELETE", SHOP)
    one.call("PUT", SHOP, {"seed": 1})
    assert one.call("PATCH", SHOP, {"epsilon": 0.4})[0] == 200
    assert one.hosted().decider.epsilon == 0.4
    one.call("DELETE", SHOP)
    one.look()
    assert set(answering._reports) == {"personalizer"}


def test_a_change_is_tried_at_once_although_learning_has_just_failed(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, answering = linked
    one.call("PUT", SHOP, {})
    one.look()
    hosted = answering._registry.opened["shop"]

    def broken() -> int:
        raise ArithmeticError("it does not add up")

    monkeypatch.setattr(hosted, "step", broken)
    one.look()
    monkeypatch.undo()
    assert one.call("PATCH", SHOP, {"epsilon": 0.4})[0] == 200
    assert one.hosted().decider.epsilon == 0.4
    assert one.hosted().failure is None


def test_a_seed_does_not_let_every_snapshot_draw_the_same(linked: Linked) -> None:
    one, two, _ = linked
    for process in (one, two):
        process.call("PUT", SHOP, {"seed": 3})
    streams = []
    for number in range(3):
        one.rewarded(str(number))
        for process in (one, two):
            process.hosted().learn_now()
            streams.append(process.hosted().decider.core.streams)
    assert streams[0] is streams[2] is streams[4] and streams[1] is streams[3] is streams[5]
    assert streams[0].serve.random() != streams[1].serve.random()
