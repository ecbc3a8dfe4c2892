"""All engines, one line each: to add an engine, write its module and add its line to `ENGINES`.

The command line, the schema of the API, Trino's session properties, the choice of an engine and the workers read this
table, and no other module names an engine. The table holds names and import paths only: the command line lists the
engines before it loads anything, so an engine's modules are loaded when it is opened.

What an engine can do it answers itself, once it is open (`service.query.engines.engine.Engine`): `cluster` is what it runs on,
`refusal` is why it does not answer a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.base.settings import Settings
    from service.query.engines.engine import Engine

AUTO = "auto"
"""The request leaves the choice of an engine to `service.query.running.session`."""

HERE = "local"
"""The process that writes makes all state itself."""


class Role(Enum):
    """When an engine runs a query whose request names none.

    Attributes:
        LOCAL: unless another takes it; exactly one engine. It runs on this machine, and the others may use it.
        CLUSTER: when the query reads more than this machine should, and the engine has a cluster.
        NAMED: never; only a request that names the engine gets it.
        SCAN: when the statement is short (`service.query.sql.short`), and no cluster gets it; at most one engine. It answers
            nothing else.
    """

    LOCAL = 1
    CLUSTER = 2
    NAMED = 3
    SCAN = 4


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that an engine needs on this machine.

    Attributes:
        name: of the Python package, as it is imported, or of the program.
        purpose: how to get it, and what for.
        distribution: of the package, where that has another name.
        check: `module:name` of a function that raises an EngineUnavailableError if the program is missing; empty for a package.
    """

    name: str
    purpose: str
    distribution: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredEngine:
    """An engine that is not opened yet.

    Attributes:
        name: as requests call it.
        title: for texts.
        role: when it runs a query whose request names no engine.
        opener: `module:name` of a function or class: the local engine is made of the settings, any other of the
            settings and the local engine.
        requirements: what it needs on this machine; `doctor-env` looks for it.
    """

    name: str
    title: str
    role: Role
    opener: str
    requirements: tuple[Requirement, ...] = ()

    def load(self) -> Callable[..., Engine]:
        """Load the engine's modules and return its opener."""
        return loaded(self.opener)


def loaded(place: str) -> Callable[..., Any]:
    """Load the function or class at `module:name`."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = attrgetter(name)(import_module(module))
    return found


def local_engine() -> RegisteredEngine:
    """Return the engine that runs on this machine."""
    (engine,) = engines_of(Role.LOCAL)
    return engine


def open_engines(
    settings: Settings, local: Engine | None = None, *, later: bool = False
) -> dict[str, Engine]:
    """Open all engines and return them by name, the local one first; those that nobody has set up wait for their first query.

    Args:
        settings: of the service.
        local: the local engine, if it is open already; it is opened in this process if None.
        later: whether the local engine waits for its first query, too.

    Raises:
        InvalidSettingError: settings of one engine contradict each other.
    """
    # The local engine is opened first: the others get it.
    first = local_engine()
    if local is None:
        local = _later(first, settings) if later else first.load()(settings)
    others = {engine.name: _opened(engine, settings, local) for engine in ENGINES if engine is not first}
    return {first.name: local, **others}


def _opened(engine: RegisteredEngine, settings: Settings, local: Engine) -> Engine:
    group = getattr(settings, engine.name, None)
    # Without settings it has no cluster, so only requests that name it need it.
    if group is None or group != type(group)():
        return engine.load()(settings, local)
    return _later(engine, settings, local)


def _later(engine: RegisteredEngine, *arguments: object) -> Engine:
    later: Engine = import_module("service.query.engines.engine").LaterEngine(
        engine.name, lambda: engine.load()(*arguments)
    )
    return later


def names() -> tuple[str, ...]:
    """Return the names of all engines; the settings of an engine are in the group of its name."""
    return tuple(engine.name for engine in ENGINES)


def choices() -> tuple[str, ...]:
    """Return all names that a request may give."""
    return (AUTO, *names())


def work_choices() -> tuple[str, ...]:
    """Return all names that a request to write may give."""
    return (AUTO, HERE, *(engine.name for engine in engines_of(Role.CLUSTER)))


def choices_text() -> str:
    """Return the names for a text: `auto, one or another`."""
    *others, last = choices()
    return f"{', '.join(others)} or {last}"


def engines_of(role: Role) -> tuple[RegisteredEngine, ...]:
    """Return the engines of a role."""
    return tuple(engine for engine in ENGINES if engine.role is role)


def title_of(name: str) -> str:
    """Return the title of an engine."""
    return next(engine.title for engine in ENGINES if engine.name == name)


def may_scan(name: str) -> bool:
    """Return whether a request that names this engine, or leaves the choice, may be answered by a scan."""
    return name == AUTO or any(engine.name == name for engine in engines_of(Role.SCAN))


def titles_of(role: Role) -> str:
    """Return the titles of the engines of a role for a text; empty if the role has no engine."""
    return " or ".join(engine.title for engine in engines_of(role))


ENGINES = (
    RegisteredEngine(
        "duckdb",
        "DuckDB",
        Role.LOCAL,
        "service.query.engines.duckdb.engine:DuckDBEngine",
        (Requirement("duckdb", "pip install savepointdb"),),
    ),
    RegisteredEngine(
        "spark",
        "Spark",
        Role.CLUSTER,
        "service.query.engines.spark.engine:SparkEngine.of",
        (
            Requirement("pyspark", "pip install 'savepointdb[spark]'"),
            Requirement("grpc", "Spark Connect: pip install 'savepointdb[connect]'", distribution="grpcio"),
            Requirement("java", "Java 17 or newer", check="service.query.engines.spark.sessions:check_java"),
        ),
    ),
    RegisteredEngine("scan", "the scan itself", Role.SCAN, "service.query.engines.engine:ScanEngine"),
)
