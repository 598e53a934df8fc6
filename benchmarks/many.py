"""`python -m benchmarks.many`: many small bandits in one service, with few open files; one of them is damaged.

Prints how long the service takes to be ready again, how much memory its two processes have, and how much processor time
the learner needs per reward. `--bandits`, `--pairs` and `--files` set the size.
"""

import argparse
import http.client
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.processes import children, cpu_of, is_learner

KEY, ARMS, WORKERS = "a-key-for-benchmarks", ["a", "b", "c", "d", "e"], 4


class Server:
    """``lim2 serve`` on a port that the system chooses."""

    def __init__(self, data: Path, files: int) -> None:
        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        own = {"LIM2_API_KEY": KEY, "LIM2_PORT": "0", "LIM2_SERVE_DATA": str(data), "LIM2_SYNCHRONOUS": "normal"}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lim2", "serve"], env={**os.environ, **own}, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, preexec_fn=limited,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1].removeprefix("http://")

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and value of an answer."""
        connection = http.client.HTTPConnection(self.address, timeout=120)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"authorization": f"Bearer {KEY}"})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def wait(self) -> float:
        """Return the seconds from its start until it is ready."""
        while True:
            try:
                if self.call("GET", "/readyz")[0] == 200:
                    return time.monotonic() - self.began
            except OSError:
                pass
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def memory(process: int) -> float:
    """Return the proportional share of memory of a process in MB."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1e3


def learner_of(server: int) -> int:
    """Return the process that learns."""
    return next(filter(is_learner, children(server)))


def play(server: Server, name: str, pairs: int) -> None:
    """Decide and reward several times."""
    requests = [{"context": {"country": "AT", "age": number % 60}} for number in range(pairs)]
    decisions = server.call("POST", f"/v1/bandits/{name}/decide_many", {"requests": requests})[1]["decisions"]
    rewards = [{"id": one["id"], "reward": float(one["arm"] == "a")} for one in decisions]
    server.call("POST", f"/v1/bandits/{name}/reward_many", {"rewards": rewards})


def learned(server: Server) -> None:
    """Wait until everything is learned and posted."""
    while True:
        found = server.call("GET", "/v1/bandits?limit=1000")[1]["bandits"]
        if not any(one["lag"] for one in found if one["failure"] is None):
            return
        time.sleep(5.0)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bandits", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--files", type=int, default=1024)
    asked = parser.parse_args()
    names = [f"shop-{number}" for number in range(asked.bandits)]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        server = Server(data, asked.files)
        server.wait()
        with ThreadPoolExecutor(WORKERS) as pool:
            statuses = set(pool.map(lambda name: server.call("PUT", f"/v1/bandits/{name}", {"arms": ARMS})[0], names))
            assert statuses == {201}, statuses
            list(pool.map(lambda name: play(server, name, 2), names))
        learned(server)
        server.stop()
        (data / "bandits" / names[-1] / "log.db").write_bytes(b"damaged")
        server = Server(data, asked.files)
        print(f"{asked.bandits} bandits of {len(ARMS)} arms, {asked.files} files: ready after {server.wait():.1f} s")
        learner = learner_of(server.process.pid)
        learned(server)
        before = cpu_of(learner)
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda name: play(server, name, asked.pairs), names[:-1]))
        learned(server)
        spent, rewards = cpu_of(learner) - before, asked.pairs * (len(names) - 1)
        print(f"reward to learned and posted: {1e3 * spent / rewards:.2f} ms of processor time, on average")
        sizes = [memory(process) for process in (server.process.pid, learner)]
        print(f"memory: {sizes[0]:.0f} MB that decide, {sizes[1]:.0f} MB that learn, {sum(sizes):.0f} MB together")
        ready = server.call("GET", "/readyz")
        damaged = server.call("POST", f"/v1/bandits/{names[-1]}/decide", {})[0]
        print(f"/readyz: {ready[0]}, failures: {ready[1]['failures']}; the damaged one answers {damaged}")
        server.stop()


if __name__ == "__main__":
    main()
