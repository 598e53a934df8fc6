"""Processes are replaced one after another under load: no request fails, none is even lost."""

import http.client
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.ports import free_port
from helpers.waiting import until
from serve.cluster import Balancer, Client, Cluster
from serve.running import Running
from serve.stores import fresh_database

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "replicas" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


def test_a_rolling_restart_loses_no_request(tmp_path: Path) -> None:
    with fresh_database() as store, Cluster(tmp_path, store) as cluster:
        old = cluster.start("all", drain=3600.0)
        assert old.call("PUT", "/v1/bandits/shop", {"algorithm": "LinearTS"})[0] == 201
        balancer = Balancer([old])
        clients = [Client(balancer, "shop", f"client {number}") for number in range(3)]
        for client in clients:
            client.start()
            client.send(40)
        balancer.deciders.append(cluster.start("all"))
        old.process.terminate()  # it says that it is not ready, and goes on answering
        balancer.wait_without(old)
        status, found = old.call("GET", "/readyz")
        assert (status, found["ready"], found["draining"]) == (503, False, True)
        assert _is_closed(old)  # a client's next request goes elsewhere
        for client in clients:
            client.send(5)
            client.wait()  # nobody asks it any more
        cluster.stop(old)  # by a second signal, instead of waiting until `drain` is over
        for client in clients:
            client.end()
        balancer.close()
        assert [client.lost for client in clients] == [[]] * 3
        assert [client.refused for client in clients] == [[]] * 3
        assert balancer.deciders[-1].call("GET", "/v1/bandits/shop")[1]["decisions"] == 3 * 45


def _is_closed(server: Running) -> bool:
    """Return whether a server closes a connection when it has answered."""
    line = http.client.HTTPConnection(server.host, server.port)
    line.request("GET", "/healthz")
    answer = line.getresponse()
    answer.read()
    line.close()
    return answer.status == 200 and answer.headers["connection"] == "close"


class Front(NamedTuple):
    """Where a balancer listens."""

    host: str
    port: int

    def chosen(self, _: random.Random) -> "Front":
        """Return it: the balancer chooses."""
        return self


@contextmanager
def haproxy(folder: Path, ports: list[int]) -> Iterator[Front]:
    """Run the balancer of the compose file, with deciders on these ports."""
    assert HAPROXY is not None
    own = free_port()
    head, _, _ = (
        CONFIGURATION.read_text().replace("bind :8300", f"bind 127.0.0.1:{own}").partition("    server-template")
    )
    file = folder / "haproxy.cfg"
    file.write_text(head + "".join(f"    server decider{port} 127.0.0.1:{port}\n" for port in ports))
    process = subprocess.Popen([HAPROXY, "-q", "-f", str(file)])
    try:
        yield Front("127.0.0.1", own)
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(
    "LIM2_HAPROXY" not in os.environ or HAPROXY is None, reason="LIM2_HAPROXY=1 runs it, where haproxy is installed"
)
def test_behind_the_balancer_of_the_compose_file_not_even_a_kill_is_noticed(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    with fresh_database() as store, Cluster(tmp_path, store) as cluster, haproxy(tmp_path, ports) as front:
        running = [cluster.start("all", port=port, drain=5.0) for port in ports]
        assert running[0].call("PUT", "/v1/bandits/shop", {"algorithm": "LinearTS"})[0] == 201
        until(lambda: Running.call(front, "GET", "/readyz")[0] == 200, "a decider that is ready")  # type: ignore[arg-type]
        clients = [Client(front, "shop", f"client {number}") for number in range(4)]  # type: ignore[arg-type]
        for client in clients:
            client.start()
        for number in range(6):
            for client in clients:
                client.send(50)
            old = running.pop(0)
            end = cluster.kill if number % 2 else cluster.stop
            end(old)
            running.append(cluster.start("all", port=old.port, drain=5.0))
            for client in clients:
                client.wait()
        for client in clients:
            client.end()
        assert [client.lost for client in clients] == [[]] * 4
        assert [client.refused for client in clients] == [[]] * 4
        assert running[0].call("GET", "/v1/bandits/shop")[1]["decisions"] == 4 * 6 * 50
