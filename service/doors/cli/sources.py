"""`[name=]PATH` → a catalog."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from catalog import Catalog, Database
from catalog.cache.states import StateCache
from catalog.catalog import Root
from catalog.errors import ConflictingRootsError
from catalog.stateinfo import read_uids
from readers import NotASavepointError, cache_directory
from service.base.settings import InvalidSettingError, Settings, parts_of, path_map_of, settings_of
from service.doors.cli.output import WrongUsageError
from service.doors.cli.parser import SOURCE
from service.query.encode import printable
from service.tasks.task import storage_options

if TYPE_CHECKING:
    from catalog.masks.masks import Masks

_SIDES = ("before", "after")


def catalog_of(
    sources: Sequence[str | Root],
    options: Namespace,
    *,
    option: str = "",
    rescan_after_s: float | None = None,
    cache: StateCache | None = None,
    may_be_empty: bool = False,
    masks: Mapping[str, Masks] | None = None,
) -> Catalog:
    """Open the catalog of savepoints or folders, with what `--uids`, `--state-info` and `--jar` know of them.

    Args:
        sources: each `[name=]PATH`, or parsed already.
        options: the parsed command line.
        option: the one that gives the sources, to show how they are labelled.
        rescan_after_s: seconds between two searches for new savepoints; None to search once.
        cache: the cache of decoded states; None for none.
        may_be_empty: True if savepoints may come later; a search may then find a root that is missing now.
        masks: by their names.

    Raises:
        ReaderError: a source does not exist, or none of them holds a savepoint.
        InvalidSettingError: a setting has a wrong value.
        WrongUsageError: two sources have one name, or one is inside another.
    """
    uids = read_uids(options.uids) if options.uids else ()
    settings = settings_of(vars(options), os.environ)
    roots = roots_of(sources)
    try:
        catalog = Catalog(
            roots,
            path_map=path_map_of(vars(options), settings),
            uids=uids,
            state_info=options.state_info,
            jars=parts_of(settings.storage.jar),
            rescan_after_s=rescan_after_s,
            allow_missing_roots=may_be_empty and rescan_after_s is not None,
            cache=cache,
            options=storage_options(settings),
            masks=masks,
        )
    except ConflictingRootsError as error:
        typed = " ".join(f"{option} {shlex.quote(one)}".strip() for one in error.suggestions)
        raise WrongUsageError(f"{error.message}; label them: {typed}" if typed else error.message) from error
    if not may_be_empty and not catalog.databases:
        raise no_savepoint(", ".join(root.path for root in roots))
    return catalog


def add_paths(parser: argparse.ArgumentParser, options: Collection[str]) -> None:
    """Add the paths of a use case: PATH, or BEFORE and AFTER if its request has these options."""
    if "before" not in options:
        more = " Of a folder with several jobs, --job names one." if "job" in options else ""
        parser.add_argument("path", metavar="PATH", help=f"{SOURCE}{more}")
        return
    parser.add_argument(
        "before",
        metavar="BEFORE",
        help=f"[NAME=]PATH. {SOURCE} Of several the newest is compared; without AFTER, with the one before it in its job.",
    )
    parser.add_argument(
        "after", metavar="AFTER", nargs="?", help="[NAME=]PATH of the other one, which may be of another job."
    )


def opened(
    sources: Sequence[str], options: Namespace, cache: StateCache | None
) -> tuple[Catalog, dict[str, str]]:
    """Open the savepoints of a use case; return the catalog, and the names of two savepoints that are compared."""
    if getattr(options, "after", None) is None:
        return catalog_of(sources, options, cache=cache), {}
    given = [options.before, options.after]
    found = [newest_of(catalog_of([source], options), "compared") for source in given]
    if found[0].name.casefold() == found[1].name.casefold():
        roots = [Root(path=one.path, label=name) for name, one in zip(_SIDES, roots_of(given), strict=True)]
        found = [newest_of(catalog_of([root], options), "compared", is_told=False) for root in roots]
    names = dict(zip(_SIDES, (one.name for one in found), strict=True))
    return Catalog.of(found), names


def cache_of(settings: Settings, *, writes: bool) -> StateCache | None:
    """Return the cache of decoded states that the settings describe; None if it is off.

    Args:
        settings: its directory and size.
        writes: True if the cache may grow. A process that ends with its query could not finish what it began to write.

    Raises:
        InvalidSettingError: `cache` is neither on nor off.
    """
    if settings.cache.mode not in ("on", "off"):
        raise InvalidSettingError(f"cache: expected on or off, found {settings.cache.mode!r}")
    if settings.cache.mode == "off":
        return None
    directory = Path(settings.cache.directory) if settings.cache.directory else cache_directory() / "states"
    return StateCache(directory, settings.cache.size_bytes, writes=writes)


def newest_of(catalog: Catalog, doing: str, *, is_told: bool = True) -> Database:
    """Return the savepoint of a path, or the newest below it.

    Args:
        catalog: of the path.
        doing: what is done to it, such as "checked".
        is_told: True to say on standard error which one it is, where there are several.

    Raises:
        WrongUsageError: none can be read.
    """
    found = catalog.newest
    if found is None:
        raise WrongUsageError("expected a savepoint that can be read, found none")
    count = len(catalog.databases)
    if is_told and count > 1:
        print(f"savepointdb: the newest of {count} is {doing}: {printable(found.path)}", file=sys.stderr)
    return found


def no_savepoint(path: str) -> NotASavepointError:
    """Return the error of a folder in which nothing was found."""
    return NotASavepointError(
        f"{path}: expected a savepoint, a checkpoint or a folder with some, found no _metadata in or below it"
    )


def roots_of(sources: Iterable[str | Root]) -> list[Root]:
    """Parse each `[name=]PATH`. A path that exists wins over a name: folders may have `=` in their names."""
    roots = []
    for source in sources:
        if isinstance(source, Root):
            roots.append(source)
            continue
        name, separator, path = source.partition("=")
        named = bool(separator) and "/" not in name and not os.path.exists(source)
        roots.append(Root(path=path, label=name) if named else Root(path=source))
    return roots
