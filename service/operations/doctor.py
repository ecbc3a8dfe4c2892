"""Checks of the environment: `savepointdb doctor-env`.

The result of a check is `ok`, `missing` (something optional; the text names its purpose) or `wrong` (something
necessary). A check changes nothing, except that it makes and removes a temporary file.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from readers import cache_directory, is_url, missing_units
from service.encode.sizes import size_text
from service.engines.spark.checks import check_java
from service.errors import EngineUnavailableError
from service.process import machine
from service.settings import Settings
from writers import COMPILED_UNITS

OK, MISSING, WRONG = "ok", "missing", "wrong"
_NEEDED = ("duckdb", "pyarrow", "numba", "rocksdict", "sqlglot", "fastapi", "uvicorn", "cramjam")
_OPTIONAL = {
    "pyspark": "the engine spark: pip install 'savepointdb[spark]'",
    "grpc": "Spark Connect: pip install 'savepointdb[connect]'",
    "jwt": "tokens of identity providers: pip install 'savepointdb[oidc]'",
}
# Module → distribution, where they have different names.
_DISTRIBUTIONS = {"grpc": "grpcio", "jwt": "pyjwt"}
_LEAST_MEMORY = 2 << 30
_LEAST_DISK = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check: its name, its result, and the text for the user."""

    name: str
    state: str
    found: str


def checks(settings: Settings, roots: tuple[str, ...] = ()) -> Iterator[Check]:
    """Run all checks, the most important first.

    Args:
        settings: settings of the service.
        roots: folders that the service shall serve; remote folders are not contacted.
    """
    yield Check(name="python", state=OK, found=f"{platform.python_version()} at {sys.executable}")
    for package in _NEEDED:
        yield _package(package, WRONG, "savepointdb needs it: pip install savepointdb")
    for module, purpose in _OPTIONAL.items():
        yield _package(module, MISSING, purpose)
    yield _java()
    yield _memory()
    yield from _folders(settings)
    yield _compiled()
    yield _keys(settings)
    for root in roots:
        yield _root(root)


def _package(module: str, otherwise: str, purpose: str) -> Check:
    # Looked up, not imported: some of them take seconds to import.
    if find_spec(module) is None:
        return Check(name=module, state=otherwise, found=f"not installed; {purpose}")
    try:
        return Check(name=module, state=OK, found=version(_DISTRIBUTIONS.get(module, module)))
    except PackageNotFoundError:
        return Check(name=module, state=OK, found="installed")


def _java() -> Check:
    try:
        check_java()
    except EngineUnavailableError as error:
        return Check(
            name="java", state=MISSING, found=f"{error.message}; without it there is no engine spark"
        )
    return Check(name="java", state=OK, found="Spark runs on it")


def _memory() -> Check:
    total = machine.memory_bytes()
    found = f"{size_text(total)}, {machine.cores()} cores"
    return Check(name="memory", state=OK if total >= _LEAST_MEMORY else WRONG, found=found)


def _folders(settings: Settings) -> Iterator[Check]:
    yield _writable("temp directory", settings.storage.temp_directory or tempfile.gettempdir())
    yield _writable("cache", str(cache_directory()))


def _compiled() -> Check:
    missing = missing_units(COMPILED_UNITS)
    if missing:
        found = f"{len(missing)} of {len(COMPILED_UNITS)} parts would be compiled at first use: savepointdb compile"
        return Check(name="compiled code", state=MISSING, found=found)
    return Check(name="compiled code", state=OK, found=f"all {len(COMPILED_UNITS)} parts, for this machine")


def _writable(name: str, folder: str) -> Check:
    try:
        os.makedirs(folder, exist_ok=True)
        # The mode of a folder does not show a read-only or full file system.
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name=name, state=WRONG, found=f"{folder}: {error.strerror}")
    found = f"{folder}, {size_text(free)} free"
    return Check(name=name, state=OK if free >= _LEAST_DISK else WRONG, found=found)


def _keys(settings: Settings) -> Check:
    if not settings.auth.keys_file and not settings.auth.oidc_issuer:
        return Check(
            name="keys",
            state=MISSING,
            found="none; without them the service accepts only requests from this machine",
        )
    path = Path(settings.auth.keys_file)
    if not settings.auth.keys_file:
        return Check(name="keys", state=OK, found=f"tokens of {settings.auth.oidc_issuer}")
    if not path.is_file():
        return Check(name="keys", state=WRONG, found=f"{path} is not there: savepointdb keys create")
    shared = path.stat().st_mode & 0o077  # any permission of group or others
    return Check(
        name="keys",
        state=WRONG if shared else OK,
        found=f"{path}{' is readable by others' if shared else ''}",
    )


def _root(root: str) -> Check:
    if is_url(root):
        return Check(name="root", state=OK, found=f"{root} (remote: not checked)")
    is_there = os.path.isdir(root) and os.access(root, os.R_OK | os.X_OK)
    return Check(
        name="root", state=OK if is_there else WRONG, found=root if is_there else f"{root} cannot be read"
    )
