"""Paths as Flink sees them → paths as we see them.

| what | how |
|---|---|
| below the OLD of a path map | below its NEW |
| else | the same path |

Nothing is opened by such a path: it is compared with the paths of savepoints that were found under the roots. No name of a folder
stands for a path: the owner of a folder chooses its name, and the paths of a cluster only Flink.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from readers import Location, ReaderError, given_location
from service.base.settings import InvalidSettingError, Settings, parsed_prefixes, parts_of


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of Flink, and ours.

    Attributes:
        path_map: prefixes of Flink's paths → ours, the longest first.
        roots: folders that are served.
    """

    path_map: tuple[tuple[Location, Location], ...] = ()
    roots: tuple[Location, ...] = ()

    @classmethod
    def of(cls, settings: Settings, roots: Iterable[str] = ()) -> Places:
        """Return the places that settings and roots describe.

        Raises:
            InvalidSettingError: a path map is not OLD=NEW.
        """
        pairs = map(parsed_prefixes, parts_of(settings.flink.path_map))
        try:
            mapped = [(Location.parse(old), given_location(new)[0]) for old, new in pairs]
            served = tuple(given_location(root)[0] for root in roots)
        except ReaderError as error:
            raise InvalidSettingError(f"flink_path_map: {error}") from error
        return cls(tuple(sorted(mapped, key=lambda pair: -len(pair[0].path))), served)

    def here(self, recorded: str) -> str:
        """Return our path of a path of Flink."""
        try:
            location = Location.parse(recorded)
        except ReaderError:
            return recorded
        for old, new in self.path_map:
            if location.is_inside(old):
                tail = posixpath.relpath(location.path, old.path)
                return str(new if tail == "." else new / tail)
        return str(location)

    def is_served(self, path: str) -> bool:
        """Return whether one of our paths is below a root."""
        try:
            location, _ = given_location(path)
        except ReaderError:
            return False
        return any(location.is_inside(root) for root in self.roots)

    def has_served(self, paths: Collection[str]) -> bool:
        """Return whether one of the paths of a job is below a root; True for a job that has none yet."""
        return not paths or any(map(self.is_served, paths))


def place_of(path: str) -> str:
    """Return one text for all the ways to write one of our paths; links are not followed."""
    try:
        return str(given_location(path)[0])
    except ReaderError:
        return path
