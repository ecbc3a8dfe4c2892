"""All clusters of a service, and the live state of a job of the catalog.

Each cluster is looked at again and again, in a thread of its own, and the catalog learns what it says. When a checkpoint below a root
has completed that the catalog does not know, the catalog looks at its roots at once: so `latest` follows a job within seconds. A
cluster that does not answer holds up nobody: databases and what was learned stay, with the reason and the time of the last answer, and
the next looks come less often.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog import Catalog, Job, JobFacts
from readers import ReaderError
from service.base.errors import FlinkError
from service.base.settings import Settings
from service.tasks.jobs.answers import COMPLETED
from service.tasks.jobs.client import RestClient, endpoints_of
from service.tasks.jobs.jobs import LiveJob, Places, Watch, place_of

logger = logging.getLogger("savepointdb")

_LONGEST_PAUSE_S = 30.0
_LEAST_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """What is known of a cluster now.

    Attributes:
        label: of the cluster.
        version: of Flink; None before its first answer.
        last_seen_at: when it answered last; None before the first time.
        error: why it does not answer; None if it does.
        jobs: as it has described them.
    """

    label: str
    version: str | None = None
    last_seen_at: datetime | None = None
    error: str | None = None
    jobs: tuple[LiveJob, ...] = ()


class Poller:
    """Follows one cluster.

    Args:
        client: asks the cluster.
        places: its paths, and ours.
        catalog: learns, and looks at its roots.
        pause_s: seconds between two looks.
        observer: is called after each look with the label and whether the cluster has answered.
    """

    def __init__(
        self,
        client: RestClient,
        places: Places,
        catalog: Catalog,
        pause_s: float,
        observer: Callable[[str, bool], None],
    ) -> None:
        self.client = client
        self.status = ClusterStatus(label=client.endpoint.label)
        self._places = places
        self._catalog = catalog
        self._pause_s = max(_LEAST_PAUSE_S, pause_s)
        self._observer = observer
        self._watch = Watch(client, places)
        self._learned: dict[str, JobFacts] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flink {self.status.label}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more; does not wait for a cluster that does not answer."""
        self._ended.set()

    def look(self) -> None:
        """Look once; a cluster that does not answer changes only the status."""
        error = None
        try:
            self._watch.look()
        except FlinkError as failure:
            error = failure.message
        self._watch.keep(self._known_places())
        self._tell(error)
        self._learn()
        self._observer(self.status.label, error is None)

    def _run(self) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            try:
                self.look()
            except Exception:  # the thread must not end, whatever a library raises
                logger.exception("cluster %s: a look failed", self.status.label)
            # A cluster that is down is not asked every second.
            longer = min(_LONGEST_PAUSE_S, 2 * max(pause_s, self._pause_s))
            pause_s = self._pause_s if self.status.error is None else max(longer, self._pause_s)

    def _tell(self, error: str | None) -> None:
        """Keep the new status, and log a cluster that stops to answer, or answers again."""
        before = self.status
        if error is not None and error != before.error:
            logger.warning("cluster %s does not answer; its savepoints are served: %s", before.label, error)
        if error is None and before.error is not None:
            logger.warning("cluster %s answers again", before.label)
        self.status = ClusterStatus(
            label=before.label,
            version=self._watch.version,
            last_seen_at=datetime.now(UTC) if error is None else before.last_seen_at,
            error=error,
            jobs=tuple(self._watch.jobs()),
        )

    def _learn(self) -> None:
        facts = self._watch.facts()
        for one in facts:
            if self._learned.get(one.job_id) != one:
                self._catalog.learn(one)
        new = self._new_paths(facts)
        self._learned = {one.job_id: one for one in facts}
        if new:
            try:
                self._catalog.refresh()
            except (ReaderError, OSError) as error:
                # The next look at the roots may find it.
                logger.warning("cluster %s: %s is new, but: %s", self.status.label, new[0], error)

    def _new_paths(self, facts: Sequence[JobFacts]) -> list[str]:
        """Return the paths of checkpoints that were not there at the last look, and of which the catalog knows nothing."""
        before = {path for one in self._learned.values() for path in one.checkpoints}
        now = {
            path
            for one in facts
            for path, checkpoint in one.checkpoints.items()
            if path not in before and checkpoint.status == COMPLETED and self._places.is_served(path)
        }
        return sorted(now - self._known_places())

    def _known_places(self) -> set[str]:
        return {place_of(database.path) for database in self._catalog.known()}


class Clusters:
    """The clusters that the settings name, each followed in a thread of its own; none if they name none.

    Args:
        settings: names of clusters, and how to ask them.
        catalog: learns what they say.
        roots: folders that are served.

    Raises:
        InvalidSettingError: an address, a file or a path map is not usable.
    """

    def __init__(self, settings: Settings, catalog: Catalog, roots: Sequence[str] = ()) -> None:
        self.places = Places.of(settings, roots)
        self._observers: list[Callable[[str, bool], None]] = []
        self._pollers = [
            Poller(
                RestClient(endpoint, settings.flink.timeout_s),
                self.places,
                catalog,
                settings.flink.poll_s,
                self._looked,
            )
            for endpoint in endpoints_of(settings)
        ]

    def start(self) -> None:
        """Begin to follow them."""
        for poller in self._pollers:
            poller.start()

    def close(self) -> None:
        """Follow them no more."""
        for poller in self._pollers:
            poller.close()

    def look(self) -> None:
        """Look at each cluster once, in this thread."""
        for poller in self._pollers:
            poller.look()

    def add_observer(self, observer: Callable[[str, bool], None]) -> None:
        """Call the observer after each look with the cluster's label and whether it has answered, from any thread."""
        self._observers.append(observer)

    @property
    def statuses(self) -> tuple[ClusterStatus, ...]:
        """What is known of each cluster now."""
        return tuple(poller.status for poller in self._pollers)

    def live(self, job: Job) -> LiveJob | None:
        """Return what a cluster says of a job of the catalog; None if no cluster knows it, or several may.

        Only paths that a cluster names decide: who writes savepoints chooses the names of folders, and so the ids in them. A job
        that one cluster no longer has may be another's now.
        """
        places = {place_of(database.path) for database in job.databases}
        known = [
            (status.error or live.error, live)
            for status in self.statuses
            for live in status.jobs
            if any(map(live.has_made, places))
        ]
        found = [live for error, live in known if error is None] or [live for _, live in known]
        return found[0] if len(found) == 1 else None

    def error_of(self, label: str) -> str | None:
        """Return why a cluster does not answer; None if it does."""
        return next((status.error for status in self.statuses if status.label == label), None)

    def client_of(self, label: str) -> RestClient:
        """Return what asks a cluster."""
        return next(poller.client for poller in self._pollers if poller.client.endpoint.label == label)

    def _looked(self, label: str, answered: bool) -> None:
        for observer in self._observers:
            observer(label, answered)
