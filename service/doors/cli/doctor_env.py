"""`savepointdb doctor-env`: check the environment.

The result of a check is `ok`, `missing` (something optional; the text names its purpose) or `wrong` (something
necessary). A check changes nothing, except that it makes and removes a temporary file.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from catalog import Catalog, CatalogError, Database
from catalog.catalog import Root
from catalog.kernels import COMPILED_UNITS
from catalog.references import labelled
from readers import DEFAULT_OPTIONS, ReaderError, StorageOptions, cache_directory, missing_units
from service.base import machine
from service.base.errors import EngineUnavailableError, FlinkError
from service.base.settings import (
    InvalidSettingError,
    Settings,
    config_path,
    path_map_of,
    read_config,
    settings_of,
)
from service.doors.cli.output import FAILED, OK, ended
from service.doors.cli.sources import roots_of
from service.query.encode import counted, size_text
from service.query.engines.registry import ENGINES, RegisteredEngine, Requirement, Role, loaded
from service.tasks.jobs.answers import RUNNING
from service.tasks.jobs.client import RestClient, endpoints_of
from service.tasks.jobs.jobs import Places, Watch
from service.tasks.task import storage_options

FINE, MISSING, WRONG = "ok", "missing", "wrong"
_NEEDED = ("pyarrow", "numba", "rocksdict", "sqlglot", "fastapi", "uvicorn", "cramjam")
_LEAST_MEMORY = 2 << 30
_LEAST_DISK = 1 << 30


def main(options: Namespace) -> int:
    """Show all checks; return exit code 1 if one of them found something wrong."""
    return ended(_show, options)


def _show(options: Namespace) -> int:
    path = config_path(vars(options), os.environ)
    sources = [*(options.root or ()), *(() if path is None else read_config(path).roots)]
    settings = settings_of(vars(options), os.environ)
    path_map = path_map_of(vars(options), settings)
    code = OK
    for check in checks(settings, roots_of(sources), path_map, storage_options(settings)):
        print(f"{check.state:8}{check.name:16}{check.found}")
        code = FAILED if check.state == WRONG else code
    return code


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, its result, and the text for the user."""

    name: str
    state: str
    found: str


def checks(
    settings: Settings,
    roots: Sequence[Root] = (),
    path_map: Mapping[str, str] | None = None,
    storage: StorageOptions = DEFAULT_OPTIONS,
) -> Iterator[Check]:
    """Run all checks, the most important first.

    Args:
        settings: settings of the service.
        roots: folders that the service shall serve. Of each savepoint `_metadata` is read, and the files that it names are
            looked for; none of these is read.
        path_map: recorded path prefixes and the present ones.
        storage: how files are reached.
    """
    yield Check("python", FINE, f"{platform.python_version()} at {sys.executable}")
    for package in _NEEDED:
        yield _package(package, package, WRONG, "savepointdb needs it: pip install savepointdb")
    for engine in ENGINES:
        for requirement in engine.requirements:
            yield _requirement(engine, requirement)
    yield _package("jwt", "pyjwt", MISSING, "tokens of identity providers: pip install 'savepointdb[oidc]'")
    yield _memory()
    yield _writable("temp directory", settings.storage.temp_directory or tempfile.gettempdir())
    yield _writable("cache", str(cache_directory()))
    yield _compiled()
    yield _keys(settings)
    yield from _conflicts(roots)
    for root in roots:
        yield from _root(root, path_map, storage)
    yield from _clusters(settings, roots)


def _requirement(engine: RegisteredEngine, requirement: Requirement) -> Check:
    # Without the local engine there are no answers; all others only answer who asks for them.
    otherwise = WRONG if engine.role is Role.LOCAL else MISSING
    purpose = f"the engine {engine.title} needs it: {requirement.purpose}"
    if not requirement.check:
        return _package(requirement.name, requirement.distribution or requirement.name, otherwise, purpose)
    try:
        loaded(requirement.check)()
    except EngineUnavailableError as error:
        found = f"{error.message}; without it there is no engine {engine.title}"
        return Check(requirement.name, otherwise, found)
    return Check(requirement.name, FINE, f"{engine.title} runs on it")


def _package(module: str, distribution: str, otherwise: str, purpose: str) -> Check:
    # Looked up, not imported: some of them take seconds to import.
    if find_spec(module) is None:
        return Check(module, otherwise, f"not installed; {purpose}")
    try:
        return Check(module, FINE, version(distribution))
    except PackageNotFoundError:
        return Check(module, FINE, "installed")


def _memory() -> Check:
    total = machine.memory_bytes()
    found = f"{size_text(total)}, {machine.cores()} cores"
    return Check("memory", FINE if total >= _LEAST_MEMORY else WRONG, found)


def _compiled() -> Check:
    missing = missing_units(COMPILED_UNITS)
    if missing:
        found = f"{len(missing)} of {len(COMPILED_UNITS)} parts would be compiled at first use: savepointdb compile"
        return Check("compiled code", MISSING, found)
    return Check("compiled code", FINE, f"all {len(COMPILED_UNITS)} parts, for this machine")


def _writable(name: str, folder: str) -> Check:
    try:
        os.makedirs(folder, exist_ok=True)
        # The mode of a folder does not show a read-only or full file system.
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name, WRONG, f"{folder}: {error.strerror}")
    found = f"{folder}, {size_text(free)} free"
    return Check(name, FINE if free >= _LEAST_DISK else WRONG, found)


def _keys(settings: Settings) -> Check:
    if not settings.auth.keys_file and not settings.auth.oidc_issuer:
        return Check(
            "keys", MISSING, "none; without them the service accepts only requests from this machine"
        )
    path = Path(settings.auth.keys_file)
    if not settings.auth.keys_file:
        return Check("keys", FINE, f"tokens of {settings.auth.oidc_issuer}")
    if not path.is_file():
        return Check("keys", WRONG, f"{path} is not there: savepointdb keys create")
    shared = path.stat().st_mode & 0o077  # any permission of group or others
    return Check("keys", WRONG if shared else FINE, f"{path}{' is readable by others' if shared else ''}")


def _conflicts(roots: Sequence[Root]) -> Iterator[Check]:
    try:
        labelled(roots)
    except CatalogError as error:
        yield Check("roots", WRONG, str(error))


def _root(root: Root, path_map: Mapping[str, str] | None, storage: StorageOptions) -> Iterator[Check]:
    """Yield a check of a root, then one for each savepoint under it that lacks something."""
    try:
        databases = Catalog([root], path_map=path_map, options=storage).described()
    except (ReaderError, CatalogError, OSError) as error:
        reason = error.message if isinstance(error, ReaderError) else error
        yield Check("root", WRONG, f"{root.path} cannot be read: {reason}")
        return
    faults = [fault for database in databases if (fault := _fault(database))]
    count = counted(len(databases), "savepoint")
    if not databases:
        yield Check("root", MISSING, f"{root.path}: no savepoint is there yet")
    elif faults:
        yield Check("root", WRONG, f"{root.path}: {len(faults)} of {count} cannot be read whole")
    else:
        yield Check("root", FINE, f"{root.path}: {count}, all files are there")
    for found in faults:
        yield Check("savepoint", WRONG, found)


def _clusters(settings: Settings, roots: Sequence[Root]) -> Iterator[Check]:
    """Yield a check of each cluster, then one for each of its jobs whose checkpoints are under no root."""
    try:
        endpoints = endpoints_of(settings)
        places = Places.of(settings, [root.path for root in roots])
    except InvalidSettingError as error:
        yield Check("cluster", WRONG, str(error))
        return
    if not endpoints:
        return
    for endpoint in endpoints:
        watch = Watch(RestClient(endpoint, settings.flink.timeout_s), places)
        try:
            watch.look()
        except FlinkError as error:
            yield Check("cluster", WRONG, error.told)
            continue
        jobs = watch.jobs()
        running = sum(job.state == RUNNING for job in jobs)
        found = f"{endpoint.label}: Flink {watch.version}, {running} of {len(jobs)} jobs run"
        yield Check("cluster", FINE, found)
        for job in jobs:
            if not places.has_served(job.paths):
                where = f"its checkpoints, such as {max(job.paths)}, are under no root: --root, or --flink-path-map"
                yield Check("job", MISSING, f"{endpoint.label}: {job.name}: {where}")


def _fault(database: Database) -> str:
    """Return what a savepoint lacks; empty if `_metadata` can be read and all files are as long as it says."""
    try:
        errors, count = database.damaged_files()
    except ReaderError as error:
        return f"{database.name}: {error}"
    if not errors:
        return ""
    return f"{database.name}: {len(errors)} of {count} files missing or cut: {errors[0]}"
