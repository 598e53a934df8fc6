"""What a client does when answers are late, lost or refused; by a service of the tests' own."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from client.answering import DECIDED, STATUS, Answering, Line
from helpers.ports import free_port
from helpers.waiting import PATIENCE

import lim2
from lim2.client import RefusedError, UnreachableError

BUSY: Line = (503, b"busy", {})


class Blocking:
    """The coroutines of `lim2.AsyncClient`, awaited one by one, so that a test serves both clients."""

    def __init__(self, url: str, key: str, bandit: str | None = None, **rest: Any) -> None:
        self._given = ((url, key, bandit), rest)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with lim2.AsyncClient(*self._given[0], **self._given[1]) as client:
                return await getattr(client, name)(*args, **kwargs)

        return lambda *args, **kwargs: asyncio.run(call(*args, **kwargs))


LIMITS: dict[str, Any] = {
    "timeout": PATIENCE,
    "deadline": PATIENCE,
}  # a slow answer of a busy machine is not tried again
both = pytest.mark.parametrize(
    "kind", [partial(lim2.Client, **LIMITS), partial(Blocking, **LIMITS)], ids=["Client", "AsyncClient"]
)


@both
@pytest.mark.parametrize("trouble", [BUSY, (502, b"", {}), (429, b"", {"Retry-After": "0"}), "hang up"])
def test_a_decision_is_tried_again_with_the_same_id(kind: Callable[..., Any], trouble: Any) -> None:
    with Answering(trouble, trouble, (200, DECIDED, {})) as service:
        assert kind(service.url, "a key", "shop").decide({"age": 3}).arm == "a"
    assert len(service.bodies) == 3
    assert service.bodies[0] == service.bodies[1] == service.bodies[2]
    assert len(service.bodies[0]["id"]) == 32
    assert service.keys == ["Bearer a key"] * 3


@both
def test_a_reward_is_tried_again_with_the_same_name(kind: Callable[..., Any]) -> None:
    with Answering("hang up", (200, STATUS, {})) as service:
        client = kind(service.url, "a key", "shop")
        assert client.reward("1", 0.5) == "recorded"
        assert client.reward("1", 0.5) == "recorded"
    first, again, other = (body["name"] for body in service.bodies)
    assert first == again != other


@both
def test_many_rewards_are_tried_again_with_the_same_names(kind: Callable[..., Any]) -> None:
    with Answering(BUSY, "hang up", (200, {"statuses": ["recorded"] * 2}, {})) as service:
        client = kind(service.url, "a key", "shop")
        assert client.reward_many([("1", 1.0), ("2", 1.0, "click")]) == ["recorded"] * 2
    sent = [[reward["name"] for reward in body["rewards"]] for body in service.bodies]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert sent[0][1] == "click" != sent[0][0]


@both
@pytest.mark.parametrize("status", [400, 401, 404, 409, 500])
def test_what_the_service_says_is_raised_at_once(kind: Callable[..., Any], status: int) -> None:
    said = {"error": {"code": "BadRequest", "message": "id is empty", "target": "id"}}
    with (
        Answering((status, said, {})) as service,
        pytest.raises(RefusedError, match=r"BadRequest: id is empty \(at id"),
    ):
        kind(service.url, "a key", "shop").reward("1", 1.0)
    assert len(service.bodies) == 1


@both
def test_a_time_out_is_tried_again_with_the_same_id(kind: Callable[..., Any]) -> None:
    with Answering("silence", (200, DECIDED, {})) as service:
        assert kind(service.url, "a key", "shop", timeout=0.2).decide({}).arm == "a"
    assert len({body["id"] for body in service.bodies}) == 1
    assert len(service.bodies) > 1


@both
def test_silence_until_the_deadline_is_an_error(kind: Callable[..., Any]) -> None:
    with (
        Answering("silence") as service,
        pytest.raises(UnreachableError, match=r"decide got no answer in \d+ tr(y|ies): TimeoutError"),
    ):
        kind(service.url, "a key", "shop", timeout=0.2, deadline=0.4).decide({})


@both
def test_the_last_answer_is_raised_at_the_deadline(kind: Callable[..., Any]) -> None:
    with (
        Answering((503, b"<h1>busy</h1>", {"Retry-After": "600"})) as service,
        pytest.raises(RefusedError, match="503: <h1>busy</h1>") as caught,
    ):
        kind(service.url, "a key", "shop").decide({})
    assert caught.value.status == 503
    assert len(service.bodies) == 1  # to wait as long as it asks would be too long


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes a certificate, is not installed")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=lim2"
    command = [
        openssl,
        *made.split(),
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(path),
        "-out",
        f"{path}.crt",
    ]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@both
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_https_asks_for_a_certificate_that_is_trusted(kind: Callable[..., Any], certificate: Path) -> None:
    with Answering((200, DECIDED, {}), certificate=certificate) as service:
        trust = ssl.create_default_context(cafile=str(certificate))
        assert kind(service.url, "a key", "shop", tls=trust).decide({}).arm == "a"
        with pytest.raises(UnreachableError, match="in 1 try: SSLCertVerificationError"):
            kind(service.url, "a key", "shop").decide({})
    assert len(service.bodies) == 1


@both
def test_nobody_listens(kind: Callable[..., Any]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError, match=r"ConnectionRefusedError|TimeoutError"):  # the last try may be cut off
        kind(url, "a key", "shop", deadline=0.2).decide({})


@both
def test_what_was_deleted_by_an_earlier_try_is_no_error(kind: Callable[..., Any]) -> None:
    gone: Line = (404, {"error": {"code": "ResourceNotFound", "message": "there is no bandit", "target": None}}, {})
    with Answering("hang up", gone) as service:
        client = kind(service.url, "a key", "shop")
        assert client.delete() is None
        with pytest.raises(RefusedError, match="there is no bandit"):
            client.delete()


@both
def test_something_else_answers(kind: Callable[..., Any]) -> None:
    with (
        Answering((200, b"<html>hello</html>", {})) as service,
        pytest.raises(UnreachableError, match="not answered by lim2 serve, check the url: '<html>"),
    ):
        kind(service.url, "a key", "shop").decide({})


def test_a_connection_is_kept_and_replaced_when_the_service_closes_it() -> None:
    fine: Line = (200, STATUS, {})
    with (
        Answering(fine, fine, (200, STATUS, {"Connection": "close"}), fine) as service,
        lim2.Client(service.url, "a key", "shop") as client,
    ):
        for _ in range(4):
            client.reward("1", 1.0)
    assert len(service.connections) == 2


def test_coroutines_share_connections() -> None:
    async def ask(service: Answering) -> None:
        async with lim2.AsyncClient(service.url, "a key", "shop", connections=4) as client:
            await asyncio.gather(*(client.reward("1", 1.0) for _ in range(40)))

    with Answering((200, STATUS, {})) as service:
        asyncio.run(ask(service))
    assert len(service.bodies) == 40
    assert len(service.connections) <= 4


def test_another_event_loop_needs_another_client() -> None:
    with Answering((200, STATUS, {"Connection": "close"})) as service:
        client = lim2.AsyncClient(service.url, "a key", "shop")
        assert asyncio.run(client.reward("1", 1.0)) == "recorded"
        with pytest.raises(RuntimeError, match="belongs to another event loop: create one in each"):
            asyncio.run(client.of("other").reward("1", 1.0))


def test_an_answer_in_chunks_is_read() -> None:
    from lim2.client.streams import received

    async def read(text: bytes) -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data(text)
        reader.feed_eof()
        return await received(reader)

    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer, stays = asyncio.run(read(head + b"4;x=1\r\nab\r\n\r\n2\r\ncd\r\n0\r\nTrailer: 1\r\n\r\n"))
    assert (answer.content, answer.status, stays) == (b"ab\r\ncd", 200, True)
    assert asyncio.run(read(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")) == ((200, {}, b"until the end"), False)
    with pytest.raises(ValueError, match=r"the answer is not HTTP/1\.1"):
        asyncio.run(read(b"SSH-2.0-x\r\n\r\n"))


@pytest.mark.parametrize("url", ["127.0.0.1:8300", "ftp://host", "http://", "http://host/?a=1", "http://me:pw@host"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="address of a service"):
        lim2.Client(url, "a key")


def test_bad_arguments_are_refused_before_anything_is_sent() -> None:
    client = lim2.Client("http://127.0.0.1:9", "a key", "shop")
    decision = lim2.client.ServedDecision(id="1", arm="a", propensity=1.0, arms=("a",), propensities=(1.0,))
    for call, message in {
        lambda: client.decide({"a": b"x"}): "type bytes",
        lambda: client.decide({}, ["a"]): "items must be a mapping",  # type: ignore[arg-type]
        lambda: client.decide({}, {1: {}}): "strings as names, got 1",
        lambda: client.decide({}, arms="ab"): "list of names",
        lambda: client.decide_many([{"context": {}, "active": False}]): "may have context, items, .*, got 'active'",
        lambda: client.decide_many([{"age": 3}]): "must be a dictionary such as",
        lambda: client.reward("1", float("nan")): "one finite number",
        lambda: client.reward("1", {2: 1.0, "slot 2": 0.0}): "each position once",
        lambda: client.update(decision, {1: 1.0}): "a number for a decision",
        lambda: client.update("1", 1.0): "what decide or rank returned",  # type: ignore[arg-type]
        lambda: lim2.Client("http://127.0.0.1:9", "a key").decide({}): "this client has no bandit",
        lambda: lim2.Client("http://127.0.0.1:9", "a\nkey"): "printable ASCII",
        lambda: lim2.Client("http://127.0.0.1:9", "a key", timeout=0.0): "positive seconds",
    }.items():
        with pytest.raises(ValueError, match=message):
            call()  # type: ignore[no-untyped-call]


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(lim2.Client("http://127.0.0.1:9", "secret", "shop"))
