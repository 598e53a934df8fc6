"""Wrong, oversized, deep and slow requests: answered, counted, and nothing has changed."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import PATIENCE
from serve.running import KEY, READ, Running

RANK = "/personalizer/v1.1-preview.3/rank"
HEAD = f"POST {RANK} HTTP/1.1\r\nHost: x\r\nOcp-Apim-Subscription-Key: {KEY}\r\n"
GOOD = {"actions": [{"id": "a", "features": [{"x": 1}]}]}


def action(**features: Any) -> dict[str, Any]:
    return {"actions": [{"id": "a", "features": [features]}]}


def nested(levels: int) -> bytes:
    return b'{"actions":[{"id":"a","features":[{"x":' + b'{"y":' * levels + b"1" + b"}" * levels + b"}]}]}"


BAD: dict[str, Any] = {
    "nothing": b"",
    "no JSON": b"{",
    "another type": b"[]",
    "null": b"null",
    "not UTF-8": b'{"actions":[{"id":"\xff","features":[]}]}',
    "half a character": b'{"actions":[{"id":"\\ud800","features":[]}]}',
    "no actions": {"actions": []},
    "51 actions": {"actions": [{"id": str(number), "features": []} for number in range(51)]},
    "the same id twice": {"actions": GOOD["actions"] * 2},
    "a long id": {"actions": [{"id": "x" * 257, "features": []}]},
    "an empty id": {"actions": [{"id": "", "features": []}]},
    "a number as id": {"actions": [{"id": 1, "features": []}]},
    "features that are no objects": {"actions": [{"id": "a", "features": ["x"]}]},
    "all excluded": {**GOOD, "excludedActions": ["a"]},
    "a long event id": {**GOOD, "eventId": "x" * 257},
    "a control character": {**GOOD, "eventId": "a\x1f1"},
    "NaN": b'{"actions":[{"id":"a","features":[{"x":NaN}]}]}',
    "infinity": b'{"actions":[{"id":"a","features":[{"x":1e999}]}]}',
    "a huge number": action(x=10**400),
    "a list of lists": action(x=[[1], [2]]),
    "a mixed list": action(x=[1, "a", None, {}]),
    "too deep": nested(40),
    "very deep": nested(5000),
    "deep lists": b"[" * 100_000,
    "many values": action(**{f"k{number}": number for number in range(5000)}),
    "a long path": action(**{"x" * 5000: 1}),
    "a string as a truth value": {**GOOD, "deferActivation": "yes"},
}


def decisions(server: Running) -> int:
    return int(server.call("GET", "/v1/bandits/personalizer", key=READ)[1]["decisions"])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_rank_is_refused_and_changes_nothing(name: str, server: Running) -> None:
    before = decisions(server)
    status, answer = server.call("POST", RANK, BAD[name])
    assert status == 400, answer
    assert answer["error"]["code"] and answer["error"]["message"]
    assert decisions(server) == before


@pytest.mark.parametrize("body", [{"value": 1.5}, {"value": -2}, {"value": "1"}, {"value": None}, {}, [], b"", b"NaN"])
def test_a_bad_reward_is_refused(body: Any, server: Running) -> None:
    event = server.call("POST", RANK, GOOD)[1]["eventId"]
    assert server.call("POST", f"/personalizer/v1.0/events/{event}/reward", body)[0] == 400
    assert server.call("GET", f"/v1/bandits/personalizer/decisions/{event}")[1]["reward"] is None


def test_unknown_paths_methods_and_events(server: Running) -> None:
    assert server.call("GET", "/personalizer/v1.0/nothing")[0] == 404
    assert server.call("GET", RANK)[0] == 405
    assert server.call("POST", "/personalizer/v1.0/multislot/rank", {})[0] == 404
    for path in ("/events/never/reward", "/events/%2F/reward", "/events/%FF/reward", f"/events/{'x' * 256}/reward"):
        status, answer = server.call("POST", f"/personalizer/v1.0{path}", {"value": 1})
        assert (status, answer["error"]["code"]) == (404, "ResourceNotFound"), path
    assert server.call("POST", f"/personalizer/v1.0/events/{'x' * 257}/reward", {"value": 1})[0] == 400
    assert server.call("POST", "/personalizer/v1.0/events/never/activate")[0] == 404


def test_wrong_keys(server: Running) -> None:
    before = decisions(server)
    for key in (None, "", "wrong", KEY + "x", KEY[:-1], "ä"):
        assert server.call("POST", RANK, GOOD, key=key)[0] == 401
    assert server.call("POST", RANK, GOOD, key=READ)[0] == 403
    assert decisions(server) == before


def test_an_oversized_body_is_not_read(server: Running) -> None:
    large = json.dumps({**GOOD, "contextFeatures": [{"x": "y" * 3_000_000}]}).encode()
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(f"{HEAD}Content-Length: {len(large)}\r\n\r\n".encode() + large[:1000])  # the rest never comes
        assert b" 413 " in line.recv(1000)


def test_a_body_without_a_length_is_cut_off(server: Running) -> None:
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        head = (
            f"POST {RANK} HTTP/1.1\r\nHost: x\r\nOcp-Apim-Subscription-Key: {KEY}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        line.sendall(head.encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        answer = b""
        try:
            for _ in range(40):
                line.sendall(chunk)
            answer = line.recv(1000)
        except (BrokenPipeError, ConnectionResetError):
            answer = answer or line.recv(1000)
        assert b" 413 " in answer


def test_a_slow_client_is_answered_and_others_do_not_wait(tmp_path: Any) -> None:
    with (
        Running(tmp_path / "data", body_timeout=3.0) as server,
        socket.create_connection((server.host, server.port), timeout=PATIENCE) as line,
    ):
        line.sendall(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())
        assert server.call("POST", RANK, GOOD)[0] == 201
        assert b" 408 " in line.recv(1000)


def test_memory_is_flat(server: Running) -> None:
    def resident() -> int:
        with Path(f"/proc/{server.process.pid}/statm").open() as file:
            return int(file.read().split()[1]) * 4096

    def trouble() -> None:
        for name in ("very deep", "many values", "deep lists", "51 actions"):
            server.call("POST", RANK, BAD[name])
        server.call("POST", RANK, b"x" * 1_900_000)

    for _ in range(10):
        trouble()
    before = resident()
    for _ in range(40):
        trouble()
    assert resident() - before < 20e6
