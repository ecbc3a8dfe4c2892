"""All clusters of a service, and the live state of a job of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog import Catalog, Job
from service.base.settings import Settings
from service.tasks.jobs.client import RestClient
from service.tasks.jobs.endpoint import endpoints_of
from service.tasks.jobs.jobs import LiveJob
from service.tasks.jobs.places import Places, place_of
from service.tasks.jobs.poller import ClusterStatus, Poller


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
