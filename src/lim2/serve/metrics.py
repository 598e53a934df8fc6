"""What Prometheus reads: requests, decisions, rewards, and what the learner does."""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from lim2.decision import Decision
    from lim2.info import Info
    from lim2.serve.deciding import RecordedDecision
    from lim2.serve.hosted import Hosted
    from lim2.serve.spool import Outage

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"  # where workers keep their counts, if there are several
LATENCY = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 4.096)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counts of one process.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("rank", 201, 0.002)
    >>> 'lim2_requests_total{operation="rank",status="201"} 1.0' in metrics.text().decode()
    True
    """

    def __init__(self) -> None:
        own = self._own = CollectorRegistry()
        self._requests = Counter("lim2_requests", "Requests.", ["operation", "status"], registry=own)
        self._latency = Histogram(
            "lim2_request_seconds", "Time to an answer.", ["operation"], buckets=LATENCY, registry=own
        )
        self._bad = Counter("lim2_bad_requests", "Requests that were refused, by error code.", ["code"], registry=own)
        self._decisions = Counter("lim2_decisions", "Decisions that were logged.", ["bandit"], registry=own)
        self._rewards = Counter("lim2_rewards", "Rewards that came, by status.", ["bandit", "status"], registry=own)
        self._reward_sum = Counter(
            "lim2_reward_positive_sum", "Sum of the positive rewards that came.", ["bandit"], registry=own
        )
        self._propensity = Histogram(
            "lim2_chosen_propensity", "Propensity of what was chosen.", ["bandit"],
            buckets=(0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), registry=own,
        )  # fmt: skip
        self._exploration = Summary(
            "lim2_exploration", "Effective exploration: 1 minus the largest propensity.", ["bandit"], registry=own
        )
        self._learned = Counter("lim2_learned_rewards", "Rewards that were learned.", ["bandit"], registry=own)
        self._learning = Counter("lim2_learning_seconds", "Time spent learning.", ["bandit"], registry=own)
        self._failures = Counter("lim2_learner_failures", "Failed passes of the learner.", ["bandit"], registry=own)
        gauge: dict[str, Any] = {"labelnames": ["bandit"], "registry": own, "multiprocess_mode": "mostrecent"}
        self._lag = Gauge("lim2_learner_lag_events", "Events of the log not yet learned.", **gauge)
        self._pending = Gauge("lim2_pending_decisions", "Decisions that wait for a reward.", **gauge)
        self._late = Gauge("lim2_late_rewards", "Rewards that came too late.", **gauge)
        self._dropped = Gauge("lim2_dropped_decisions", "Decisions that expired without a default.", **gauge)
        self._defaults = Gauge("lim2_default_rewards", "Decisions that expired with the default.", **gauge)
        self._rounds = Gauge("lim2_model_rounds", "Rewards that the model has learned.", **gauge)
        self._changes = Gauge("lim2_changes_detected", "Changes of the world that the model has detected.", **gauge)
        self._refits = Gauge("lim2_refits", "Times that the model was refitted to new features.", **gauge)
        self._loss = Gauge("lim2_training_loss", "Training loss of the latest update.", **gauge)
        self._drift = Gauge(
            "lim2_feature_drift", "Drift of the features at the latest update that changed them.", **gauge
        )
        self._leads = Gauge(
            "lim2_leads", "Whether this service learns the bandit.", ["bandit"], registry=own, multiprocess_mode="max"
        )
        self._answers = Gauge(
            "lim2_learner_answers", "Whether the process that learns answers.", registry=own,
            multiprocess_mode="mostrecent",
        )  # fmt: skip
        self._age = Gauge("lim2_model_age_seconds", "Since the model that decides was made or taken over.", **gauge)
        whole: dict[str, Any] = {"registry": own, "multiprocess_mode": "livemax"}
        self._away = Gauge(
            "lim2_database_unreachable_seconds", "Since the database was lost; 0 while it is there.", **whole
        )
        whole["multiprocess_mode"] = "livesum"
        self._waits = Gauge("lim2_spool_bytes", "Writes that wait on disk for the database.", **whole)
        kept = "Writes that were kept on disk, those that the database has got since, and those that it has refused."
        self._spooled = Gauge("lim2_spool_writes", kept, ["outcome"], **whole)

        # To find a metric by its labels takes as long as to count.
        self._of_requests = functools.cache(
            lambda operation, status: (self._requests.labels(operation, str(status)), self._latency.labels(operation))
        )
        self._of_decisions = functools.cache(
            lambda bandit: (
                self._decisions.labels(bandit), self._propensity.labels(bandit), self._exploration.labels(bandit)
            )
        )  # fmt: skip

    # What happens

    def request(self, operation: str, status: int, seconds: float) -> None:
        """Count an answer.

        Parameters
        ----------
        operation
            Its name.
        status
            Of the answer.
        seconds
            That it took.
        """
        requests, latency = self._of_requests(operation, status)
        requests.inc()
        latency.observe(seconds)

    def bad(self, code: str) -> None:
        """Count a request that was refused.

        Parameters
        ----------
        code
            The error code.
        """
        self._bad.labels(code).inc()

    def decided(self, bandit: str, made: Decision | RecordedDecision, count: int = 1) -> None:
        """Count a decision.

        Parameters
        ----------
        bandit
            Whose.
        made
            The decision; of a slate, the first.
        count
            Decisions, of a slate.
        """
        decisions, propensity, exploration = self._of_decisions(bandit)
        decisions.inc(count)
        propensity.observe(made.propensity)
        exploration.observe(1.0 - max(made.propensities.tolist()))

    def rewarded(self, bandit: str, outcome: str, reward: float) -> None:
        """Count a reward.

        Parameters
        ----------
        bandit
            Whose.
        outcome
            What became of it.
        reward
            What it was.
        """
        self._rewards.labels(bandit, outcome).inc()
        if outcome == "recorded" and reward > 0:
            self._reward_sum.labels(bandit).inc(reward)

    def learned(self, bandit: str, rewards: int, seconds: float, info: Info | None) -> None:
        """Count a pass of the learner.

        Parameters
        ----------
        bandit
            Whose.
        rewards
            That it has learned.
        seconds
            That it took.
        info
            What the latest update did.
        """
        self._learned.labels(bandit).inc(rewards)
        self._learning.labels(bandit).inc(seconds)
        if info is None:
            return
        known = {self._loss: info.loss, self._drift: info.drift, self._refits: info.refits, self._changes: info.changes}
        for gauge, value in known.items():
            if value is not None:
                gauge.labels(bandit).set(value)

    def learner_failed(self, bandit: str) -> None:
        """Count a pass of the learner that failed.

        Parameters
        ----------
        bandit
            Whose.
        """
        self._failures.labels(bandit).inc()

    def look(self, hosted: Hosted) -> None:
        """Note what a log and a model look like now.

        Parameters
        ----------
        hosted
            The bandit.
        """
        name = hosted.name
        self._rounds.labels(name).set(hosted.rounds)
        self._leads.labels(name).set(hosted.leads)
        self._age.labels(name).set(max(time.time() - hosted.modified, 0.0))
        state = hosted.log.state
        self._lag.labels(name).set(max(state.position - hosted.position, 0))
        self._pending.labels(name).set(state.pending)
        self._late.labels(name).set(state.late)
        self._dropped.labels(name).set(state.dropped)
        self._defaults.labels(name).set(state.defaults)

    def look_at_learner(self, answers: bool) -> None:
        """Note whether the process that learns is there.

        Parameters
        ----------
        answers
            Whether it has answered the last time; also if this process learns itself.
        """
        self._answers.set(answers)

    def look_at_outage(self, outage: Outage) -> None:
        """Note whether the database is unreachable, and what waits for it.

        Parameters
        ----------
        outage
            Of the service's catalog.
        """
        self._away.set(0.0 if outage.since is None else max(time.time() - outage.since, 0.001))
        spool = outage.spool
        if spool is not None:
            self._waits.set(spool.waits)
            for outcome in ("spooled", "replayed", "rejected"):
                self._spooled.labels(outcome).set(getattr(spool, outcome))

    def text(self) -> bytes:
        """Return all counts, of all workers, in Prometheus's text format."""
        if MULTIPROCESS not in os.environ:
            return generate_latest(self._own)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
