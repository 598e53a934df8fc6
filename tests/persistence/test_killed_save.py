"""kill -9 at random moments during save: what was acknowledged is never lost, and the file always loads."""

import os
import random
import signal
import sys
from pathlib import Path

import pytest

import lim2

TIMES = int(os.environ.get("LIM2_KILLS", "20"))


def save_forever(path: Path, acknowledge: int) -> None:
    agent = lim2.load(path)
    while True:
        agent.update([1.0, 2.0], agent.rounds % 2, 1.0)
        agent.save(path)
        os.write(acknowledge, agent.rounds.to_bytes(8, "little"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and kill")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "agent.lim2"
    lim2.LinearTS(2, 2, seed=0).save(path)
    rng, acknowledged, interrupted = random.Random(0), 0, 0
    for _ in range(TIMES):
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                save_forever(path, writes)
            finally:
                os._exit(1)
        os.close(writes)
        for _ in range(rng.randrange(4)):  # let some saves return
            acknowledged = int.from_bytes(os.read(reads, 8), "little")
        for _ in range(rng.randrange(60_000)):  # and go on to anywhere in the next
            pass
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        while word := os.read(reads, 8):
            acknowledged = int.from_bytes(word, "little")
        os.close(reads)

        loaded = lim2.load(path)
        assert acknowledged <= loaded.rounds <= acknowledged + 1
        interrupted += len(list(tmp_path.iterdir())) > 1
        for left in tmp_path.glob(".*.part"):
            left.unlink()
        expected = lim2.LinearTS(2, 2, seed=0)
        expected.update([[1.0, 2.0]] * loaded.rounds, [t % 2 for t in range(loaded.rounds)], [1.0] * loaded.rounds)
        assert loaded.to_bytes() == expected.to_bytes()
    assert interrupted, "no kill came in the middle of a save"
