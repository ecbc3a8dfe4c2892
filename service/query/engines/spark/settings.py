"""The settings of Spark, parsed from those of the service.

| setting | Spark runs |
|---|---|
| none | in a JVM of its own on this machine, with all cores |
| `spark_master` | on a cluster: `spark://…`, `k8s://…`, `yarn`; or on this machine: `local[2]` |
| `spark_remote` | on a Spark Connect server: `sc://…` |
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from service.base.settings import InvalidSettingError, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Settings of Spark: its place and its options.

    Attributes:
        master: Spark's master; empty for this machine.
        remote: address of a Spark Connect server, in place of a master; empty for none.
        python: path of Python on the workers; empty for the path of this one.
        options: further settings of Spark.
        export_directory: folder to which executors write answers that are too long for the driver; it has the same path
            for them and for this process. Empty for a temporary one, which works on this machine only.
        threshold_bytes: bytes above which a query goes to the cluster; None for the memory of this machine.
    """

    master: str = ""
    remote: str = ""
    python: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    export_directory: str = ""
    threshold_bytes: int | None = None

    @property
    def is_local(self) -> bool:
        """True if Spark runs on this machine, in a JVM of this process."""
        return not self.remote and (not self.master or self.master.startswith("local"))

    @property
    def address(self) -> str:
        """The address for people: without the parameters of a Connect server, which may have a token."""
        return self.remote.partition("/;")[0] or self.master or "local[*]"


def spark_settings(settings: Settings) -> SparkSettings:
    """Parse the group `spark` of the service's settings.

    Raises:
        InvalidSettingError: `spark_options` are not NAME=VALUE, or both a master and a Connect server are set.
    """
    if settings.spark.master and settings.spark.remote:
        raise InvalidSettingError("expected spark_master or spark_remote, found both")
    return SparkSettings(
        master=settings.spark.master,
        remote=settings.spark.remote,
        python=settings.spark.python,
        options=_parsed_options(settings.spark.options),
        export_directory=settings.spark.export_directory,
        threshold_bytes=settings.spark.threshold_bytes or None,
    )


def _parsed_options(text: str) -> dict[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise InvalidSettingError(f"spark_options: {error}") from error
    # A name without `spark.` is one of another program: Spark ignores it silently.
    for name, separator, _ in pairs:
        if not (name.startswith("spark.") and separator):
            raise InvalidSettingError(f"spark_options: expected spark.NAME=VALUE, found {name + separator!r}")
    return {name: value for name, _, value in pairs}
