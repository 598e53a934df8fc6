"""Evaluations and feature importances: work that is asked for by one request, and read by another; a file each."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from lim2.serve import spec as specs
from lim2.serve.errors import ApiError, bad_request, not_found, shortened
from lim2.serve.personalizer.times import moment_of
from lim2.serve.service import Service

logger = logging.getLogger("lim2.serve")

MOST = 1000  # that are kept
PATIENCE = 900  # seconds, after which one that is still running counts as timed out

Job = TypeVar("Job", bound=Any)


class Jobs(Generic[Job]):
    """The jobs of one kind.

    Parameters
    ----------
    kind
        Their type, which has an id, a status and a creation time.
    folder
        Of their files, within the bandit's.
    what
        What one is called in messages.
    """

    def __init__(self, kind: type[Job], folder: str, what: str) -> None:
        self._kind, self._folder, self._what = kind, folder, what

    def all(self, bandit: Path) -> list[Job]:
        """Return all of them, the oldest first.

        Parameters
        ----------
        bandit
            The bandit's folder.
        """
        found = []
        for path in (bandit / self._folder).glob("*.json"):
            try:
                found.append(self._decoded(path.read_bytes()))
            except FileNotFoundError:  # deleted meanwhile
                continue
        return sorted(found, key=lambda job: (job.creation_time, job.id))

    def get(self, bandit: Path, id: str) -> Job:
        """Return one of them; an ApiError if it is not there.

        Parameters
        ----------
        bandit
            The bandit's folder.
        id
            Of the job.
        """
        try:
            return self._decoded(self._path(bandit, id).read_bytes())
        except FileNotFoundError as error:
            raise not_found(f"there is no {self._words} {shortened(id)}", f"{self._what}NotFound") from error

    def delete(self, bandit: Path, id: str) -> None:
        """Remove one; it need not be there.

        Parameters
        ----------
        bandit
            The bandit's folder.
        id
            Of the job.
        """
        self._path(bandit, id).unlink(missing_ok=True)

    def add(self, bandit: Path, job: Job) -> None:
        """Keep a new one; an ApiError if its id is taken.

        Parameters
        ----------
        bandit
            The bandit's folder.
        job
            What to keep.
        """
        folder = bandit / self._folder
        folder.mkdir(exist_ok=True)
        with specs.exclusive(folder):
            if self._path(bandit, job.id).exists():
                message = f"there is a {self._words} {shortened(job.id)} already: delete it first"
                raise ApiError(409, f"{self._what}AlreadyExists", message, "id")
            if len(list(folder.glob("*.json"))) >= MOST:
                raise ApiError(409, "OperationNotAllowed", f"{MOST} are kept at most: delete some first")
            self._write(bandit, job)

    async def run(self, service: Service, bandit: Path, job: Job, work: Callable[[], Job]) -> None:
        """Do the work of a job beside the requests, and keep its result.

        Parameters
        ----------
        service
            For whom.
        bandit
            The bandit's folder.
        job
            The job.
        work
            Returns it with its result.
        """
        await asyncio.to_thread(self.add, bandit, job)

        async def done() -> None:
            result = await asyncio.to_thread(self._result, job, work)
            if self._path(bandit, job.id).exists():  # it may have been deleted meanwhile
                await asyncio.to_thread(self._write, bandit, result)

        service.in_background(done())

    def _result(self, job: Job, work: Callable[[], Job]) -> Job:
        try:
            return work()
        except (ApiError, ValueError, ArithmeticError, MemoryError) as error:
            logger.warning("%s %s failed: %s", self._words, job.id, error)
            return msgspec.structs.replace(job, status="Failed", description=str(error))

    @property
    def _words(self) -> str:
        return {"Evaluation": "evaluation", "FeatureImportance": "feature importance"}[self._what]

    def _path(self, bandit: Path, id: str) -> Path:
        name = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:40]  # an id may be no file name
        return bandit / self._folder / f"{name}.json"

    def _write(self, bandit: Path, job: Job) -> None:
        specs.replace_file(self._path(bandit, job.id), msgspec.json.encode(job))

    def _decoded(self, content: bytes) -> Job:
        job: Job = msgspec.json.decode(content, type=self._kind)
        began = moment_of(job.creation_time) or 0.0
        if job.status == "Running" and time.time() - began > PATIENCE:
            return msgspec.structs.replace(job, status="Timeout")
        return job


def span_of(start: str, end: str, code: str) -> tuple[float, float]:
    """Return a span of time in seconds; an ApiError if it is none.

    Parameters
    ----------
    start, end
        As in ISO 8601.
    code
        Of the error.
    """
    begins, ends = moment_of(start), moment_of(end)
    if begins is None or ends is None:
        target = "startTime" if begins is None else "endTime"
        raise bad_request(f"{target} must be a time as in ISO 8601, such as 2026-11-16T10:00:00Z", target, code)
    if begins >= ends:
        raise bad_request("startTime must be before endTime", "startTime", code)
    return begins, ends
