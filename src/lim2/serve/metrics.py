"""What Prometheus reads: requests, decisions, rewards, and what the learner does."""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, Summary, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

import lim2

if TYPE_CHECKING:
    from lim2.decision import Decision
    from lim2.info import Info
    from lim2.serve.bandits import DecidingBandit
    from lim2.serve.deciding import RecordedDecision
    from lim2.serve.outage import Outage

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"  # where workers keep their counts, if there are several
LATENCY = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 4.096)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Read as a whole from a log or a model, so gauges here; they only grow, so counters for Prometheus.
ACCUMULATED = {
    f"lim2_{name}"
    for name in ("late_rewards", "dropped_decisions", "default_rewards", "model_rounds", "changes_detected", "refits")
}
NOT_SUMMED = {"lim2_training_loss", "lim2_feature_drift"}  # of one bandit; a sum over bandits says nothing
MAXIMA = {"lim2_model_age_seconds"}


class Metrics:
    """The counts of one process; without ``per_bandit`` the series of all bandits are summed.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("rank", 201, 0.002)
    >>> 'lim2_requests_total{operation="rank",status="201"} 1.0' in metrics.text().decode()
    True
    """

    def __init__(self, per_bandit: bool = True) -> None:
        self._per_bandit = per_bandit
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
            "lim2_leads",
            "Whether this process learns the bandit, or follows who does.",
            ["bandit"],
            registry=own,
            multiprocess_mode="max",
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
        self._failed = Gauge("lim2_failed_bandits", "Bandits that cannot be opened or learned.", **whole)

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
        """Count an answer."""
        requests, latency = self._of_requests(operation, status)
        requests.inc()
        latency.observe(seconds)

    def bad(self, code: str) -> None:
        """Count a request that was refused."""
        self._bad.labels(code).inc()

    def decided(self, bandit: str, made: Decision | RecordedDecision, count: int = 1) -> None:
        """Count a decision, or the positions of a slate whose first one is ``made``."""
        decisions, propensity, exploration = self._of_decisions(bandit)
        decisions.inc(count)
        propensity.observe(made.propensity)
        exploration.observe(1.0 - max(made.propensities.tolist()))

    def rewarded(self, bandit: str, status: str, reward: float) -> None:
        """Count a reward, and what became of it."""
        self._rewards.labels(bandit, status).inc()
        if status == "recorded" and reward > 0:
            self._reward_sum.labels(bandit).inc(reward)

    def learned(self, bandit: str, rewards: int, seconds: float, info: Info | None) -> None:
        """Count a pass of the learner."""
        self._learned.labels(bandit).inc(rewards)
        self._learning.labels(bandit).inc(seconds)
        if info is None:
            return
        known = {self._loss: info.loss, self._drift: info.drift, self._refits: info.refits, self._changes: info.changes}
        for gauge, value in known.items():
            if value is not None:
                gauge.labels(bandit).set(value)

    def learner_failed(self, bandit: str) -> None:
        """Count a pass of the learner that failed."""
        self._failures.labels(bandit).inc()

    def look(self, hosted: DecidingBandit) -> None:
        """Note what a log and a model look like now."""
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

    def look_at_lease(self, bandit: str, leads: bool) -> None:
        """Note whether this process may learn a bandit."""
        self._leads.labels(bandit).set(leads)

    def look_at_learner(self, answers: bool, failed: int) -> None:
        """Note whether the process that learns is there."""
        self._answers.set(answers)
        self._failed.set(failed)

    def look_at_outage(self, outage: Outage) -> None:
        """Note whether the database is unreachable."""
        self._away.set(0.0 if outage.since is None else max(time.time() - outage.since, 0.001))

    def text(self, bandits: Iterable[str] | None = None) -> bytes:
        """Return the counts of all workers in Prometheus's text format; of these bandits, if they are named."""
        registry = self._own
        if MULTIPROCESS in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        known = None if bandits is None else set(bandits)
        shown = CollectorRegistry()
        shown.register(_Families([*_of_process(), *(self._family(found, known) for found in registry.collect())]))
        return generate_latest(shown)

    def _family(self, family: Metric, known: set[str] | None) -> Metric:
        """Return a family without bandits that are gone, and with the type and the labels that are shown."""
        samples = [one for one in family.samples if known is None or one.labels.get("bandit", "") in known | {""}]
        if not self._per_bandit and any("bandit" in one.labels for one in samples):
            samples = [] if family.name in NOT_SUMMED else _without_bandits(samples, family.name in MAXIMA)
        made = Metric(family.name, family.documentation, family.type)
        if family.name in ACCUMULATED:
            made = CounterMetricFamily(family.name, family.documentation)
            samples = [Sample(f"{family.name}_total", one.labels, one.value) for one in samples]
        made.samples = samples
        return made


class _Families:
    """A collector of families that are there."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        """Return them."""
        return self._families


@functools.cache
def _build() -> Metric:
    made = Metric("lim2_build_info", "Version of lim2 and of Python.", "gauge")
    made.add_sample("lim2_build_info", {"version": lim2.__version__, "python": platform.python_version()}, 1.0)
    return made


def _of_process() -> list[Metric]:
    """Return what is known of the process that answers."""
    return [_build(), *ProcessCollector(registry=None).collect()]


def _without_bandits(samples: Iterable[Sample], largest: bool) -> list[Sample]:
    """Return samples in which bandits are summed, or the largest of theirs is taken."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for one in samples:
        labels = tuple((name, value) for name, value in one.labels.items() if name != "bandit")
        before = found.get((one.name, labels))
        value = one.value if before is None else max(before, one.value) if largest else before + one.value
        found[one.name, labels] = value
    return [Sample(name, dict(labels), value) for (name, labels), value in found.items()]
