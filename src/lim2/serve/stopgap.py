"""The log as it will be, over the log as it is; goes when the log has these methods."""

import asyncio
from pathlib import Path
from typing import Any

import lim2
from lim2.log import ConflictingRewardError, DecisionLog, LogError


class TakenIdError(LogError):
    pass


class Model:
    def __init__(self, version: int, data: bytes) -> None:
        self.version, self.data = version, data


class Lease:
    def close(self) -> None: ...


class Log(DecisionLog):
    def __init__(self, path: Path, *, aggregate: str | None = None, **rest: Any) -> None:
        super().__init__(path, **rest)
        self._more: dict[str, Any] = {}
        self._model: Model | None = None
        self.path = path

    async def adecide(self, agent: Any, context: Any, *, metadata: Any = None, active: bool = True, key: Any = None, id: Any = None, **rest: Any) -> Any:
        try:
            made = await asyncio.to_thread(self.decide, agent, context, id=id, **rest)
        except LogError as error:
            if "taken" in str(error) or id is not None:
                raise TakenIdError(str(error)) from error
            raise
        self._more[made.id] = metadata
        object.__setattr__(made, "metadata", metadata)
        return made

    async def arecord(self, decision: Any, *, metadata: Any = None, active: bool = True, key: Any = None, **rest: Any) -> Any:
        made = await asyncio.to_thread(self.record, decision, **rest)
        self._more[made.id] = metadata
        object.__setattr__(made, "metadata", metadata)
        return made

    async def areward(self, id: str, reward: Any, *, name: Any = None) -> Any:
        try:
            return await asyncio.to_thread(self.reward, id, reward)
        except ConflictingRewardError:
            return "ignored"

    async def areward_many(self, pairs: Any) -> Any:
        return await asyncio.to_thread(self.reward_many, pairs)

    async def aactivate(self, id: str) -> bool:
        self.get(id)
        return True

    def get(self, id: str) -> Any:
        made = super().get(id)
        object.__setattr__(made, "metadata", self._more.get(id))
        return made

    def apply(self, agent: Any, limit: Any = None, batch: Any = 1) -> int:
        return super().apply(agent, limit)

    def publish(self, agent: Any) -> int:
        version = 1 if self._model is None else self._model.version + 1
        agent.save(self.path.with_suffix(".lim2"))
        self._model = Model(version, self.path.with_suffix(".lim2").read_bytes())
        return version

    def model(self, after: int = 0) -> Model | None:
        file = self.path.with_suffix(".lim2")
        if self._model is None and file.exists():
            self._model = Model(1, file.read_bytes())
        return self._model if self._model and self._model.version > after else None

    def lead(self) -> Lease | None:
        return Lease()


def from_bytes(data: bytes, seed: Any = None) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return lim2.load(file.name, seed=seed)


def recent(log: Log, last: int) -> Any:
    from lim2.log.reading import entries
    newest = log._store.read("SELECT coalesce(max(seq), 0) FROM decisions")[0][0]
    return list(entries(log._store, "d.seq > ? AND d.slot <= 1", (max(newest - last, 0),)))
