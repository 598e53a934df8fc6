"""Personalizer's published clients for Node, against a server on loopback."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import PATIENCE
from serve.running import KEY, Running

NODE = Path(__file__).parent / "node"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
    pytest.mark.skipif(
        not (NODE / "node_modules").is_dir(),
        reason="the clients for Node are not installed: npm ci --prefix tests/serve/node",
    ),
]


def driven(script: str, server: Running) -> Any:
    done = subprocess.run(
        ["node", script, server.url, KEY], cwd=NODE, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_old_client_ranks_rewards_and_activates(server: Running) -> None:
    out = driven("old.js", server)
    assert out["statuses"] == [201, 204, 204]
    assert out["first"]["eventId"] == "old node/ä"
    assert out["first"]["rewardActionId"] == out["again"]["rewardActionId"]
    assert sum(one["probability"] for one in out["plain"]["ranking"]) == pytest.approx(1)
    assert out["empty"]["status"] == 400 and out["empty"]["body"]["error"]["code"] == "BadRequest"
    assert out["bad"]["status"] == 400
    made = server.call("GET", "/v1/bandits/personalizer/decisions/old%20node%2F%C3%A4")[1]
    assert (made["status"], made["reward"]) == ("reward", 1.0)


def test_the_rest_client_does_all_that_it_can(server: Running) -> None:
    out = driven("rest.js", server)
    statuses = {name: answer["status"] for name, answer in out.items()}
    assert statuses == {
        "rank": 201, "again": 201, "reward": 204, "activate": 204, "bad": 400, "missing": 404,
        "slots": 201, "slot reward": 204, "slot activate": 204, "service": 410, "policy": 410, "evaluations": 410,
    }  # fmt: skip
    assert out["rank"]["body"] == out["again"]["body"]
    assert "GET /v1/bandits/personalizer" in out["service"]["body"]["error"]["message"]
