"""The packages of this installation that Python must find: another one of the same name may stand before them on its path.

A project's own folder `service/`, on PYTHONPATH or in the folder where `python -m` starts, is such a package.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

_ROOMS = ("service", "catalog", "doctor", "readers", "writers")


class ShadowedPackageError(ImportError):
    """Another package has the name of one of ours, and stands before it on Python's path."""


def check_rooms() -> None:
    """Check that Python finds our packages, without loading them.

    Raises:
        ShadowedPackageError: another package stands before one of them.
    """
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for room in _ROOMS:
        found = _place_of(room)
        own = os.path.join(home, room)
        if found is not None and found != own:
            raise ShadowedPackageError(
                f"{found} hides the package {room!r} of savepointdb, which is in {own}: run it from another folder "
                "and without PYTHONPATH, or install savepointdb in an environment of its own (pipx install savepointdb, or "
                "uv tool install savepointdb)",
                name=room,
            )


def _place_of(room: str) -> str | None:
    """Return the folder, or the file, that Python takes for a package; None if it finds none."""
    loaded = sys.modules.get(room)
    spec = PathFinder.find_spec(room) if loaded is None else loaded.__spec__
    if spec is None or spec.origin is None:
        return None
    origin = os.path.realpath(spec.origin)
    return os.path.dirname(origin) if spec.submodule_search_locations is not None else origin
