"""What a version of Flink reads and has: facts that do not depend on the job."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.errors import UnknownBackendError, UnknownVersionError

# ForSt reads and registers state as RocksDB does.
BACKENDS = ("hashmap", "rocksdb", "forst")
# The newest Flink whose savepoints were tested; one that is newer may write the same files.
NEWEST_FLINK = "2.3.0"
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?([-.].*)?")

# The newest `_metadata` that each version reads; it reads all older ones from version 2 on.
# Flink: MetadataSerializers (V3 since 1.11, V4 since 1.16, V5 since 2.0, V6 since 2.1)
_METADATA = (((2, 1), 6), ((2, 0), 5), ((1, 16), 4), ((1, 11), 3), ((1, 8), 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkVersion:
    """A version of Flink.

    Attributes:
        text: as it was given.
        major, minor: its first two numbers.
    """

    text: str
    major: int
    minor: int

    @property
    def newest_metadata(self) -> int:
        """The newest version of `_metadata` that it reads."""
        return next(newest for since, newest in _METADATA if (self.major, self.minor) >= since)


def flink_version(text: str) -> FlinkVersion:
    """Parse a version: `2.3.0`, `2.3`, `1.20-SNAPSHOT`.

    Raises:
        UnknownVersionError: no version, or one before 1.8 or after 2.x.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UnknownVersionError(f"expected a version of Flink such as 2.3.0, found {text!r:.60}")
    version = FlinkVersion(text=text.strip(), major=int(match[1]), minor=int(match[2]))
    if not (version.major, version.minor) >= (1, 8) or version.major > 2:
        raise UnknownVersionError(f"expected a version of Flink from 1.8 to 2.x, found {text!r:.60}")
    return version


def known_backend(name: str) -> str:
    """Return a state backend by its name.

    Raises:
        UnknownBackendError: neither `hashmap`, `rocksdb` nor `forst`.
    """
    if name not in BACKENDS:
        raise UnknownBackendError(f"expected a state backend of {', '.join(BACKENDS)}, found {name!r:.60}")
    return name
