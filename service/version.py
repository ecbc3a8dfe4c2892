"""The version of what is installed."""

from __future__ import annotations

from importlib import metadata

DISTRIBUTION = "savepointdb"


def installed_version() -> str:
    """The version of the installed package; `0` when it runs from a folder of sources."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"
