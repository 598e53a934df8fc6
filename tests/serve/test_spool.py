"""Writes that wait on disk: what survives, what is done once, what is refused."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.stores import fresh_database

from lim2.decision import Decision
from lim2.log import DecisionLog, StoreUnavailableError, TakenIdError, UnknownDecisionError
from lim2.log.store import Store, Tables
from lim2.serve.catalog.postgres import PostgresCatalog
from lim2.serve.spec import BanditSpec, Stored
from lim2.serve.spool import GuardedStore, Outage, Spool
from lim2.serve.spool import spool as spooling
from lim2.serve.spool.file import SpoolFile

AWAY = StoreUnavailableError("stopped by the test")
SUM = BanditSpec(expire_after=3600.0, default_reward=0.0, aggregate="sum", seed=0)


# The file


def test_a_record_that_is_not_whole_is_cut_off(tmp_path: Path) -> None:
    file = SpoolFile.new(tmp_path)
    ends = file.append([b"one", b"two"])
    file.append([b"three"])
    file.close()
    content = file.path.read_bytes()
    for length in range(len(content)):
        file.path.write_bytes(content[:length])
        again = SpoolFile.adopted(file.path)
        assert again is not None
        whole = [b"one", b"two"][: sum(end <= length for end in ends)]
        assert [one for _, one in again.records()] == whole
        again.append([b"next"])
        assert [one for _, one in again.records()] == [*whole, b"next"]
        again.close()
    broken = bytearray(content)
    broken[ends[0] + 9] ^= 1
    file.path.write_bytes(bytes(broken))
    damaged = SpoolFile.adopted(file.path)
    assert damaged is not None and [one for _, one in damaged.records()] == [b"one"]
    damaged.close()


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    file = SpoolFile.new(tmp_path)
    assert SpoolFile.adopted(file.path) is None
    file.remove()
    assert SpoolFile.adopted(file.path) is None
    assert not file.path.exists()


# The spool, over a real database that is said to be away


class Decider:
    """A process that has a log open, and a spool of its own."""

    def __init__(self, url: str, folder: Path, limit: int = 10**9) -> None:
        self.spool = Spool(folder, limit)
        self.catalog = PostgresCatalog(url, Outage(self.spool), "normal")
        if "shop" not in self.catalog.names():
            self.catalog.create("shop", Stored(spec=SUM, created=0.0, log=self.catalog.log_name("shop", 0)))
        self.log: DecisionLog = self.catalog.open_log("shop", self.catalog.read("shop"))

    def lose(self) -> None:
        self.catalog.outage.begin(AWAY)

    def regain(self, open: Callable[[str, str], Store] | None = None) -> None:
        self.spool.replay(open or self.catalog.store_of)
        self.catalog.outage.end()

    def decide(self, id: str | None, arm: str = "a") -> Any:
        made = Decision(arm, 0.5, ("a", "b"), [0.0, 0.0], [1.0, 1.0], [0.5, 0.5])  # type: ignore[arg-type]
        return asyncio.run(self._decide(made, id))

    async def _decide(self, made: Decision, id: str | None) -> Any:
        return await self.log.arecord(made, raw={"age": 31}, id=id)

    def reward(self, id: str, value: float, name: str | None = None) -> Any:
        async def rewarded() -> Any:
            return await self.log.areward(id, value, name=name)

        return asyncio.run(rewarded())

    def kept(self, id: str) -> list[tuple[float, str | None]]:
        """Return the rewards of a decision, as the database has them."""

        def work(tables: Tables) -> Any:
            found = tables.find(id)
            assert found is not None
            return tables.rewards(found.seq)

        found: list[tuple[float, str | None]] = self.catalog.store_of("shop", self.catalog.read("shop").log).look(work)
        return found

    def close(self) -> None:
        self.log.close()
        self.catalog.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with fresh_database() as made:
        yield made


@pytest.fixture
def decider(url: str, tmp_path: Path) -> Iterator[Decider]:
    made = Decider(url, tmp_path / "spool")
    yield made
    made.close()


def files(folder: Path) -> list[Path]:
    return list((folder / "spool").glob("*.spool"))


def rejected(folder: Path) -> list[Any]:
    path = folder / "spool" / "rejected.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_what_was_committed_before_a_process_was_killed_is_not_done_again(decider: Decider, tmp_path: Path) -> None:
    decider.decide("k1")
    decider.lose()
    for _ in range(3):
        decider.reward("k1", 1.0)  # summed, and without a name: three times
    decider.decide("k2")

    class Killed:
        """A store whose process is killed when something has been committed."""

        def __init__(self, store: Store) -> None:
            self._store = store

        def write(self, work: Any) -> Any:
            self._store.write(work)
            raise AWAY

    with pytest.raises(StoreUnavailableError):
        decider.regain(lambda bandit, log: Killed(decider.catalog.store_of(bandit, log)))  # type: ignore[arg-type, return-value]
    assert [value for value, _ in decider.kept("k1")] == [1.0, 1.0, 1.0]
    decider.spool.close()
    other = Spool(tmp_path / "spool", 10**9)  # the next process
    assert len(files(tmp_path)) == 1
    other.replay(decider.catalog.store_of)
    assert [value for value, _ in decider.kept("k1")] == [1.0, 1.0, 1.0]
    assert files(tmp_path) == rejected(tmp_path) == []
    head = decider.catalog.store_of("shop", decider.catalog.read("shop").log).look(lambda tables: tables._head())  # type: ignore[attr-defined]
    assert not any(key.startswith("spool") for key in head)


def test_a_decision_that_was_written_while_the_database_was_lost_is_known_again(
    decider: Decider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = decider.log.store.inner  # type: ignore[attr-defined]
    awrite = inner.awrite

    async def lost(work: Any) -> Any:
        await awrite(work)
        error = StoreUnavailableError("lost while it committed")
        error.unknown = True
        raise error

    monkeypatch.setattr(inner, "awrite", lost)
    assert decider.decide("u1").arm == "a"  # which waits on disk, and is in the database
    decider.regain()
    assert rejected(tmp_path) == []
    with pytest.raises(StoreUnavailableError):  # it may have been counted: the client decides
        decider.reward("u1", 1.0)
    decider.regain()
    assert decider.reward("u1", 1.0, name="click") == "spooled"  # a name counts once
    decider.regain()
    assert decider.kept("u1") == [(1.0, None), (1.0, "click")]


def test_the_first_decision_of_an_id_holds(decider: Decider, tmp_path: Path) -> None:
    decider.decide("t1", "a")
    decider.lose()
    assert decider.decide("t1", "b").arm == "b"  # nobody can know
    assert decider.decide("t2", "b").arm == "b"
    with pytest.raises(TakenIdError):
        decider.decide("t2", "a")
    assert decider.log.get("t2").arm == "b"
    decider.regain()
    assert (decider.log.get("t1").arm, decider.log.get("t2").arm) == ("a", "b")
    assert [(one["kind"], one["ids"]) for one in rejected(tmp_path)] == [("insert", ["t1"])]


def test_a_reward_waits_for_a_decision_on_the_disk_of_another_process(
    decider: Decider, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "RETRY", 0.0)
    other = Decider(url, tmp_path / "other")
    decider.lose()
    other.lose()
    other.decide("o1")
    other.decide("o2")
    assert decider.reward("o1", 0.5) == "spooled"
    assert decider.spool._current is not None
    decider.spool._current.since -= 3600.0  # the outage was long
    decider.regain()  # before the other one: the decision is not there yet
    assert len(files(tmp_path)) == 1
    assert decider.reward("o2", 0.25) == "spooled"  # an outage has just ended: the decision may come
    with pytest.raises(UnknownDecisionError):
        decider.log.get("o1")
    decider.spool.replay(decider.catalog.store_of)
    decider.spool.close()
    again = Spool(tmp_path / "spool", 10**9)  # after a restart
    again.replay(decider.catalog.store_of)
    other.regain()
    again.replay(decider.catalog.store_of)
    assert (decider.kept("o1"), decider.kept("o2")) == ([(0.5, None)], [(0.25, None)])
    assert files(tmp_path) == rejected(tmp_path) == []
    monkeypatch.setattr(spooling, "PATIENCE", 0.0)
    third = Decider(url, tmp_path / "spool")
    third.lose()
    third.regain()
    assert third.reward("never", 1.0) == "spooled"
    third.spool.replay(decider.catalog.store_of)
    assert [(one["ids"], one["rewards"]) for one in rejected(tmp_path)] == [(["never"], [["never", 1.0, None]])]
    assert files(tmp_path) == []
    monkeypatch.setattr(spooling, "RECENT", 0.0)
    with pytest.raises(UnknownDecisionError):
        third.reward("never", 1.0)
    other.close()
    third.close()


def test_writes_of_a_bandit_that_was_deleted_are_refused(decider: Decider, tmp_path: Path) -> None:
    decider.lose()
    decider.decide("g1")
    catalog = PostgresCatalog(decider.catalog._url, Outage())
    catalog.delete("shop")
    catalog.close()
    decider.regain()
    assert [one["ids"] for one in rejected(tmp_path)] == [["g1"]]
    assert files(tmp_path) == []


def test_no_more_is_kept_than_may_be(url: str, tmp_path: Path) -> None:
    decider = Decider(url, tmp_path / "spool", limit=2000)
    decider.lose()
    made = 0
    with pytest.raises(StoreUnavailableError, match="2000 bytes"):
        for made in range(100):
            decider.decide(f"n{made}")
    decider.regain()
    assert 2 < made < 20
    assert [decider.log.get(f"n{number}").id for number in range(made)]
    with pytest.raises(UnknownDecisionError):
        decider.log.get(f"n{made}")
    decider.close()


def test_a_guarded_store_asks_nobody_while_the_database_is_away(decider: Decider) -> None:
    guarded = GuardedStore(decider.log.store.inner, "shop", "any", Outage())  # type: ignore[attr-defined]
    guarded._outage.begin(AWAY)
    for call in (guarded.nbytes, guarded.lead, lambda: guarded.look(lambda tables: tables.last())):
        with pytest.raises(StoreUnavailableError):
            call()
    guarded._outage.end()
    assert guarded.look(lambda tables: tables.last()) == 0


def test_a_standby_counts_as_away(decider: Decider, url: str, tmp_path: Path) -> None:
    """As after a failover, until the name of the server leads to the new one."""
    import psycopg

    decider.decide("f1")
    address = decider.catalog.address_of(decider.catalog.read("shop").log)
    with psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=off") as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert decider.decide("f2").arm == "a"
        assert decider.catalog.outage.since is not None and len(files(tmp_path)) == 1
        with pytest.raises(StoreUnavailableError, match=r"cannot be written: .* or it is a standby"):
            DecisionLog(address)
        with DecisionLog(address, read_only=True) as log:
            assert log.get("f1").arm == "a"
        connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    decider.regain()
    assert decider.log.get("f2").arm == "a"
    assert files(tmp_path) == rejected(tmp_path) == []


def test_a_database_that_does_not_answer_counts_as_away(
    decider: Decider, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    decider.decide("h1")
    monkeypatch.setattr("lim2.serve.spool.guard.PATIENCE", 0.2)
    with psycopg.connect(url) as connection:  # whose transaction holds what others need
        connection.execute("SELECT FROM lim2.logs FOR UPDATE")
        assert decider.reward("h1", 1.0, name="click") == "spooled"
        assert decider.catalog.outage.since is not None
        connection.rollback()
    decider.regain()
    assert decider.kept("h1") == [(1.0, "click")]  # though it was written after all
    assert rejected(tmp_path) == []
