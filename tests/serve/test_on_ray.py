"""Many bandits on a Ray cluster of two nodes: rewards reach the right bandit, whoever dies, in bounded memory.

`LIM2_RAY_BANDITS` says how many bandits there are.
"""

import contextlib
import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import postgres
from helpers.ports import free_port
from helpers.waiting import PATIENCE, until

from lim2.serve.config import load

BANDITS = int(os.environ.get("LIM2_RAY_BANDITS", "40"))
HOT = max(BANDITS // 20, 2)
MODELS = 6  # open at most, in each replica and in each learner
KEY = "a-key-for-the-tests"
# A loaded machine takes longer than Ray gives its proxies, whose processes would have the lowest priority, too.
PATIENT = {
    "RAY_worker_niceness": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
    # A replica that does not say in time how busy it is counts as full, and another one is asked.
    "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "60",
    "RAY_SERVE_MAX_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "60",
}

needed = [name for name in ("ray", "grpc", "starlette") if find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(needed), reason=f"not installed: {', '.join(needed)}; pip install 'lim2[ray]'"),
    pytest.mark.skipif(postgres.missing() is not None, reason=str(postgres.missing())),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


class Cluster:
    """Two nodes, a database, and the service on them."""

    def __init__(self, folder: Path) -> None:
        import ray
        from ray.cluster_utils import Cluster as Nodes

        from lim2.serve.on_ray.deploy import NAME, deploy

        port = free_port()
        self.config = load(
            environment={},
            given={
                "store": postgres.database(), "data": str(folder), "port": port, "api_key": KEY, "on": "ray",
                "ray": {"replicas": 2, "learners": 2, "models": MODELS, "cpus": 0.5},
            },
        )  # fmt: skip
        self.nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        try:
            self.nodes.add_node(num_cpus=2)
            ray.init(address=self.nodes.address, namespace=NAME, log_to_driver=False)
            deploy(self.config)
        except BaseException:
            self.end()  # nobody else would
            raise

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.config.port, timeout=PATIENCE)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {"Ocp-Apim-Subscription-Key": KEY}
            )
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(content) if content else None

    def states(self) -> list[dict[str, Any]]:
        """Return how the learners are doing."""
        import ray

        from lim2.serve.on_ray.deploy import learners

        return [ray.get(actor.state.remote(), timeout=PATIENCE) for actor in learners()]

    def close(self) -> None:
        from lim2.serve.on_ray.deploy import withdraw

        withdraw()
        self.end()

    def end(self) -> None:
        """End the nodes, whatever runs on them."""
        import ray
        from ray import serve

        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()
        self.nodes.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**PATIENT, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}.items():
            patch.setenv(name, value)
        made = Cluster(tmp_path_factory.mktemp("ray"))
        yield made
        made.close()


def name_of(number: int) -> str:
    return f"customer-{number:04d}"


def visit(cluster: Cluster, number: int, event: int, best: str) -> None:
    """Decide once, and reward it: only one arm is any good, another one for every bandit."""
    name = name_of(number)
    status, decision = cluster.call(
        "POST", f"/v1/bandits/{name}/decide", {"context": {"n": event % 3}, "id": f"{name}-{event}"}
    )
    assert status == 200, decision
    reward = {"id": decision["id"], "reward": float(decision["arm"] == best)}
    status, answer = cluster.call("POST", f"/v1/bandits/{name}/reward", reward)
    assert status == 200, answer


def info(cluster: Cluster, number: int) -> Any:
    status, found = cluster.call("GET", f"/v1/bandits/{name_of(number)}")
    assert status == 200, found
    return found


def replicas() -> list[int]:
    """Return the processes of Ray Serve that answer, on the nodes of this process: another worker may have its own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if path.read_bytes().startswith(b"ray::ServeReplica:lim2:") and is_below(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def is_below(process: int) -> bool:
    """Return whether a process was started by this one, or by one that this one has started."""
    while process > 1 and process != os.getpid():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == os.getpid()


def test_a_bandit_is_open_in_one_replica(cluster: Cluster) -> None:
    names = [f"routed-{number}" for number in range(4)]
    for name in names:
        assert cluster.call("PUT", f"/v1/bandits/{name}", {"arms": ["a", "b"], "algorithm": "LinearTS"})[0] == 201
    for event in range(40):
        assert cluster.call("POST", f"/v1/bandits/{names[event % 4]}/decide", {"id": str(event)})[0] == 200
    opened = {cluster.call("GET", "/readyz")[1]["bandits"] - 1 for _ in range(40)}  # without Personalizer's
    assert sum(opened) * (1 if len(opened) == 2 else 2) == len(names)
    for name in names:
        assert cluster.call("DELETE", f"/v1/bandits/{name}")[0] == 204


def test_many_bandits_on_a_cluster(cluster: Cluster) -> None:
    arms = ["a", "b", "c"]
    spec = {"arms": arms, "algorithm": "LinearTS", "seed": 0}
    for number in range(BANDITS):
        assert cluster.call("PUT", f"/v1/bandits/{name_of(number)}", spec)[0] == 201
    assert cluster.call("PUT", f"/v1/bandits/{name_of(0)}", spec)[0] == 200  # the very same is there
    assert cluster.call("GET", "/v1/bandits/nobody")[0] == 404

    # All of them once, some of them often.
    for number in range(BANDITS):
        visit(cluster, number, 0, arms[number % 3])
    for event in range(1, 16):
        for number in range(HOT):
            visit(cluster, number, event, arms[number % 3])

    # A learner dies, and so does a replica: nothing is lost, and they come back.
    before = {state["number"]: state["process"] for state in cluster.states()}
    os.kill(before[0], signal.SIGKILL)
    gone = replicas()[0]
    os.kill(gone, signal.SIGKILL)
    until(lambda: gone not in replicas() and len(replicas()) == 2, "another replica in its place")
    until(lambda: all(cluster.call("GET", "/readyz")[0] == 200 for _ in range(20)), "no request meets the dead one")
    for event in range(16, 31):
        for number in range(HOT):
            visit(cluster, number, event, arms[number % 3])
    after = {state["number"]: state["process"] for state in cluster.states()}
    assert after[0] != before[0]
    assert after[1] == before[1]

    # Every reward was learned, by the bandit that it was meant for, each once.
    def caught_up() -> bool:
        return all(info(cluster, number)["lag"] == 0 for number in range(HOT))

    until(caught_up, "all that the hot bandits were rewarded is learned")
    listed = {one["name"]: one for one in until(lambda: learned_all(cluster), "all rewards are learned")}
    for number in range(BANDITS):
        events = 31 if number < HOT else 1
        own = listed[name_of(number)]
        assert (own["decisions"], own["rewards"], own["rounds"]) == (events, events, events), own
    for number in range(HOT):
        status, decision = cluster.call(
            "POST", f"/v1/bandits/{name_of(number)}/decide", {"context": {"n": 1}, "exploit": True}
        )
        assert status == 200
        assert decision["arm"] == arms[number % 3]

    # Memory is bounded by what is hot.
    for state in cluster.states():
        assert len(state["open"]) <= MODELS
        assert not state["failures"]
    status, ready = cluster.call("GET", "/readyz")
    assert status == 200
    assert ready["bandits"] <= MODELS + 1  # and the one behind Personalizer's endpoints


def learned_all(cluster: Cluster) -> list[Any] | None:
    found, after = list[Any](), ""
    while after is not None:
        status, page = cluster.call("GET", f"/v1/bandits?after={after}")
        assert status == 200
        found, after = found + page["bandits"], page["next"]
    own = [one for one in found if one["name"].startswith("customer-")]
    return own if all(one["lag"] == 0 for one in own) and len(own) == BANDITS else None


def test_learners_of_an_earlier_deployment_are_replaced(cluster: Cluster) -> None:
    """As after a crash of the process that has deployed them: their settings, or their number, may be others now."""
    from lim2.serve.on_ray.deploy import start_learners

    before = {state["process"] for state in cluster.states()}
    start_learners(msgspec.json.encode(cluster.config), 1)
    (state,) = cluster.states()
    assert state["number"] == 0 and state["process"] not in before
    name = name_of(HOT + 1)
    assert cluster.call("POST", f"/v1/bandits/{name}/decide", {"id": "after"})[0] == 200
    assert cluster.call("POST", f"/v1/bandits/{name}/reward", {"id": "after", "reward": 1.0})[0] == 200
    until(lambda: info(cluster, HOT + 1)["rounds"] == 2, "the new learner has learned it")


def test_personalizer_s_protocol(cluster: Cluster) -> None:
    actions = [{"id": name, "features": [{"kind": name}]} for name in ("one", "two")]
    status, ranked = cluster.call(
        "POST", "/personalizer/v1.0/rank", {"contextFeatures": [{"day": "monday"}], "actions": actions, "eventId": "e"}
    )
    assert status == 201
    assert cluster.call("POST", "/personalizer/v1.0/events/e/reward", {"value": 1.0})[0] == 204
    again = cluster.call("POST", "/personalizer/v1.0/rank", {"actions": actions, "eventId": "e"})[1]
    assert again["rewardActionId"] == ranked["rewardActionId"]
