"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata

DISTRIBUTION = "savepointdb"


def installed_version() -> str:
    """Return the version of the installed package; `0` for a folder of sources that is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"
