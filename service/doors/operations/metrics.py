"""Numbers of a service for Prometheus, in its text format.

| name | kind | labels |
|---|---|---|
| savepointdb_queries_total | counter | state, engine, code (of the error) |
| savepointdb_query_seconds | histogram | state; from the request to the last row found |
| savepointdb_queue_seconds | histogram | |
| savepointdb_read_bytes_total, savepointdb_answer_rows_total | counters | |
| savepointdb_queries_open | gauge | state |
| savepointdb_queries_stalled | gauge | ; queries that hold a worker while their rows are not read |
| savepointdb_spooled_bytes | gauge | ; answers that wait on the disk |
| savepointdb_databases | gauge | |
| savepointdb_writes_total | counter | state, code (of the error) |
| savepointdb_writes_open | gauge | state |
| savepointdb_checks_total | counter | outcome, code (of the error) |
| savepointdb_checks_open | gauge | ; checks that run or wait |
| savepointdb_flink_looks_total | counter | cluster, outcome (answered, failed) |
| savepointdb_flink_up | gauge | cluster; 1 if it answered the last time |
| savepointdb_flink_age_seconds | gauge | cluster; since its last answer |
| savepointdb_flink_jobs | gauge | cluster, state |
| savepointdb_savepoints_total | counter | format, code (of the error); savepoints that clients asked for |
| savepointdb_savepoints_open | gauge | |
| savepointdb_followers | gauge | ; clients that follow a job |
| savepointdb_rule_firing | gauge | job, rule; 1 if it is violated |
| savepointdb_rule_error | gauge | job, rule; 1 if it cannot be tested |
| process_* | several | ; numbers of the operating system for the serving process |

Labels hold only names of states, engines and codes, and the labels of clusters in the settings, never a value of a user. Of rules
each client gets those of the jobs that it sees: their labels have names.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from catalog import Catalog
from doctor import Outcome
from service.base.principal import Principal
from service.query.running.run import QueryState
from service.query.serving.query import Query, QueryRecord
from service.query.serving.registry import Queries
from service.tasks.check.registry import Checks
from service.tasks.follow.sharing import Followers
from service.tasks.jobs.answers import STATES
from service.tasks.jobs.clusters import Clusters
from service.tasks.jobs.triggers import SavepointRecord, Triggers
from service.tasks.time.test.serving import ServedRules
from service.tasks.time.test.states import Condition
from service.tasks.write.serving.writes import WriteRecord, Writes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)


class Metrics:
    """Counts queries that end; the state of running queries is read when Prometheus asks.

    Args:
        queries: queries of the service.
        writes: its writes.
        checks: its checks.
        catalog: catalog of the service.
        clusters: clusters of Flink that it follows.
        triggers: savepoints that its clients ask for.
        rules: rules that it tests on each new checkpoint.
        followers: those who follow jobs.
    """

    def __init__(
        self,
        queries: Queries,
        writes: Writes,
        checks: Checks,
        catalog: Catalog,
        clusters: Clusters,
        triggers: Triggers,
        rules: ServedRules,
        followers: Followers,
    ) -> None:
        self._queries = queries
        self._writes = writes
        self._checks = checks
        self._catalog = catalog
        self._clusters = clusters
        self._triggers = triggers
        self._rules = rules
        self._followers = followers
        # Not the global registry: two applications in one process, as in tests, would collide.
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self._registry)
        self._ended = counter("savepointdb_queries", "queries that ended", ("state", "engine", "code"))
        self._seconds = histogram(
            "savepointdb_query_seconds", "from the request to the last row found", ("state",)
        )
        self._queued = histogram("savepointdb_queue_seconds", "waiting for a slot")
        self._bytes = counter("savepointdb_read_bytes", "bytes of savepoints that were read")
        self._rows = counter("savepointdb_answer_rows", "rows of answers")
        self._written = counter("savepointdb_writes", "writes that ended", ("state", "code"))
        self._checked = counter("savepointdb_checks", "checks that ended", ("outcome", "code"))
        self._looks = counter("savepointdb_flink_looks", "looks at clusters", ("cluster", "outcome"))
        self._savepoints = counter(
            "savepointdb_savepoints", "savepoints that clients asked for", ("format", "code")
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(self)
        queries.add_observer(self.ended)
        writes.add_observer(self.written)
        checks.add_observer(self.checked)
        clusters.add_observer(self.looked)
        triggers.add_observer(self.triggered)

    def ended(self, query: Query) -> None:
        """Count a query that ended."""
        record: QueryRecord = query.record
        code = record.error.code if record.error else ""
        self._ended.labels(record.state.value, record.engine, code).inc()
        self._seconds.labels(record.state.value).observe(record.elapsed_ms / 1000)
        self._queued.observe(record.queued_ms / 1000)
        self._bytes.inc(record.progress.bytes_read)
        self._rows.inc(record.row_count)

    def written(self, record: WriteRecord) -> None:
        """Count a write that ended."""
        self._written.labels(record.state.value, record.error.code if record.error else "").inc()

    def checked(self, outcome: str, code: str) -> None:
        """Count a check that ended."""
        # The process that answers has read what a client sent: its words are no labels.
        self._checked.labels(outcome if outcome in _OUTCOMES else "", code).inc()

    def looked(self, cluster: str, answered: bool) -> None:
        """Count a look at a cluster."""
        self._looks.labels(cluster, "answered" if answered else "failed").inc()

    def triggered(self, record: SavepointRecord) -> None:
        """Count a savepoint that a client asked for."""
        self._savepoints.labels(record.format, record.error.code if record.error else "").inc()

    def collect(self) -> Iterable[Metric]:
        """Yield the current numbers, as the registry of Prometheus requests them."""
        yield _by_state("queries", self._queries.open_states(), QueryState)
        yield _by_state("writes", self._writes.open_states(), (QueryState.QUEUED, QueryState.RUNNING))
        for name, meaning, value in (
            (
                "queries_stalled",
                "queries that hold a worker while their rows are not read",
                self._queries.blocked,
            ),
            (
                "spooled_bytes",
                "bytes of answers that wait on the disk for their client",
                self._queries.spool.size_bytes,
            ),
            ("checks_open", "checks that run or wait", self._checks.open),
            ("savepoints_open", "savepoints that clients wait for", self._triggers.open),
            ("followers", "clients that follow a job", self._followers.count),
            ("databases", "savepoints that are served", len(self._catalog.databases)),
        ):
            yield GaugeMetricFamily(f"savepointdb_{name}", meaning, value)
        yield from self._of_clusters()

    def _of_clusters(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("savepointdb_flink_up", "1 if it answered the last time", labels=("cluster",))
        age = GaugeMetricFamily("savepointdb_flink_age_seconds", "since the last answer", labels=("cluster",))
        jobs = GaugeMetricFamily("savepointdb_flink_jobs", "jobs by state", labels=("cluster", "state"))
        for status in self._clusters.statuses:
            up.add_metric((status.label,), status.error is None and status.last_seen_at is not None)
            if status.last_seen_at is not None:
                seconds = (datetime.now(UTC) - status.last_seen_at).total_seconds()
                age.add_metric((status.label,), seconds)
            # A cluster's own words are no labels.
            states = Count(job.state if job.state in STATES else "OTHER" for job in status.jobs)
            for state, count in sorted(states.items()):
                jobs.add_metric((status.label, state), count)
        yield from (up, age, jobs)

    def text(self, caller: Principal) -> bytes:
        """Return the numbers that a client sees in the text format."""
        return generate_latest(self._registry) + generate_latest(_RuleMetrics(self._rules, caller))


class _RuleMetrics(CollectorRegistry):
    """The states of rules for jobs that a client sees."""

    def __init__(self, rules: ServedRules, caller: Principal) -> None:
        super().__init__()
        self._states = [] if rules.states is None else rules.states.seen_by(caller)

    def collect(self) -> Iterable[Metric]:
        """Yield the current numbers."""
        labels = ("job", "rule")
        firing = GaugeMetricFamily("savepointdb_rule_firing", "1 if the rule is violated", labels=labels)
        error = GaugeMetricFamily("savepointdb_rule_error", "1 if it cannot be tested", labels=labels)
        for one in self._states:
            firing.add_metric((one.job, one.rule.name), one.state is Condition.FIRING)
            error.add_metric((one.job, one.rule.name), one.state is Condition.ERROR)
        yield from (firing, error)


def _by_state(what: str, found: Iterable[QueryState], states: Iterable[QueryState]) -> Metric:
    count = Count(found)
    family = GaugeMetricFamily(f"savepointdb_{what}_open", f"{what} by state", labels=("state",))
    for state in states:
        family.add_metric((state.value,), count[state])
    return family
