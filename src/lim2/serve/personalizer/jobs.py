"""Evaluations and feature importances: work that is asked for by one request, and read by another; a document each."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from lim2.serve.catalog import Documents
from lim2.serve.errors import ApiError, bad_request, not_found, shortened
from lim2.serve.hosted import Hosted
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
    documents
        The kind of their documents.
    what
        What one is called in messages.
    """

    def __init__(self, kind: type[Job], documents: str, what: str) -> None:
        self._kind, self._documents, self._what = kind, documents, what

    def all(self, hosted: Hosted) -> list[Job]:
        """Return all of them, the oldest first.

        Parameters
        ----------
        hosted
            The bandit.
        """
        found = [self._decoded(content) for content in self._of(hosted).all()]
        return sorted(found, key=lambda job: (job.creation_time, job.id))

    def get(self, hosted: Hosted, id: str) -> Job:
        """Return one of them; an ApiError if it is not there.

        Parameters
        ----------
        hosted
            The bandit.
        id
            Id of the job.
        """
        content = self._of(hosted).get(id)
        if content is None:
            raise not_found(f"there is no {self._words} {shortened(id)}", f"{self._what}NotFound")
        return self._decoded(content)

    def delete(self, hosted: Hosted, id: str) -> None:
        """Remove one; it need not be there.

        Parameters
        ----------
        hosted
            The bandit.
        id
            Id of the job.
        """
        self._of(hosted).delete(id)

    def add(self, hosted: Hosted, job: Job) -> None:
        """Keep a new one; an ApiError if its id is taken.

        Parameters
        ----------
        hosted
            The bandit.
        job
            What to keep.
        """
        added = self._of(hosted).add(job.id, msgspec.json.encode(job), MOST)
        if added == "taken":
            message = f"the {self._words} {shortened(job.id)} exists already: delete it first, or use another id"
            raise ApiError(409, f"{self._what}AlreadyExists", message, "id")
        if added == "full":
            raise ApiError(409, "OperationNotAllowed", f"{MOST} are kept at most: delete some first")

    async def run(self, service: Service, hosted: Hosted, job: Job, work: Callable[[], Job]) -> None:
        """Do the work of a job beside the requests, and keep its result.

        Parameters
        ----------
        service
            For whom.
        hosted
            The bandit.
        job
            The job.
        work
            Returns it with its result.
        """
        await asyncio.to_thread(self.add, hosted, job)

        def keep(result: Job) -> None:
            self._of(hosted).replace(job.id, msgspec.json.encode(result))  # it may have been deleted meanwhile

        async def done() -> None:
            try:
                await service.background.run(lambda: keep(self._result(job, work)))
            except asyncio.CancelledError:
                ended = "the service ended before this was done: create it again"
                keep(msgspec.structs.replace(job, status="Failed", description=ended))
                raise

        service.in_background(done())

    def _result(self, job: Job, work: Callable[[], Job]) -> Job:
        try:
            return work()
        except (ApiError, ValueError, ArithmeticError, MemoryError, NotImplementedError) as error:
            logger.warning("%s %r failed: %s", self._words, job.id, error)
            return msgspec.structs.replace(job, status="Failed", description=str(error))
        except Exception:  # whoever waits for the result must see that there will be none
            logger.exception("%s %r failed", self._words, job.id)
            return msgspec.structs.replace(job, status="Failed", description="the service failed; see its log")

    @property
    def _words(self) -> str:
        return {"Evaluation": "evaluation", "FeatureImportance": "feature importance"}[self._what]

    def _of(self, hosted: Hosted) -> Documents:
        return hosted.catalog.documents(hosted.name, self._documents)

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
        Code of the error.
    """
    begins, ends = moment_of(start), moment_of(end)
    if begins is None or ends is None:
        target = "startTime" if begins is None else "endTime"
        raise bad_request(f"{target} must be a time as in ISO 8601, such as 2026-11-16T10:00:00Z", target, code)
    if begins >= ends:
        raise bad_request("startTime must be before endTime", "startTime", code)
    return begins, ends
