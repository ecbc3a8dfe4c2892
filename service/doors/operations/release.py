"""The text of `savepointdb --version`: version, commit, and which savepoints this release reads and writes."""

from __future__ import annotations

from doctor import NEWEST_FLINK, flink_version
from readers import NEWEST_METADATA, OLDEST_METADATA, first_flink
from service.base.version import installed_version, source_commit
from writers import NEWEST_WRITTEN_METADATA, OLDEST_WRITTEN_METADATA


def release_text(program: str) -> str:
    """Return the lines of `--version`; the first one is the program and its version, for programs that read it."""
    commit = source_commit()
    return "\n".join(
        [
            f"{program} {installed_version()}",
            *([f"commit  {commit}"] if commit else []),
            f"reads   {_formats(OLDEST_METADATA, NEWEST_METADATA)}",
            f"writes  {_formats(OLDEST_WRITTEN_METADATA, NEWEST_WRITTEN_METADATA)}",
        ]
    )


def _formats(oldest: int, newest: int) -> str:
    last = flink_version(NEWEST_FLINK)
    return f"Flink {first_flink(oldest)} – {last.major}.{last.minor} (_metadata versions {oldest} – {newest})"
