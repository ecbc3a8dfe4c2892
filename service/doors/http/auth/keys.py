"""API keys: a file with their hashes and grants. A key itself is shown once, and stored nowhere.

| member of a key | content |
|---|---|
| `name` | its user; BI tools send it as the user, and the key as the password |
| `sha256` | SHA-256 of the key, in hex; a key has 256 random bits, so a slow hash is not needed |
| `grants` | patterns of database names |
| `mask` | name of the masks of what its user sees; may be missing |
| `created`, `expires` | ISO 8601, UTC; `expires` may be missing |

The file is JSON, `{"version": 1, "keys": […]}`, readable by its owner only. A running service reads changes within a
second.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.base.machine import write_whole
from service.base.principal import Principal, Source, checked_grants

PREFIX = "spdb_"
VERSION = 1
_KEY_BYTES = 32
_LOOK_EVERY_S = 1.0
# The service reads the file while it runs: a wrong path must not fill its memory.
_MAX_FILE_BYTES = 16 << 20
_LONGEST_NAME = 200


class KeyFileError(ValueError):
    """A file of keys cannot be read or written, or a key is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The record of a key: everything but the key itself."""

    name: str
    sha256: str
    grants: tuple[str, ...]
    created: str
    expires: str | None = None
    mask: str | None = None

    @property
    def has_expired(self) -> bool:
        """True if the key has expired."""
        return self.expires is not None and datetime.fromisoformat(self.expires) <= datetime.now(UTC)


class KeyFile:
    """The keys of a file; safe to share between threads.

    Args:
        path: path of the file, which need not exist yet.

    Raises:
        KeyFileError: the file exists but is no file of keys.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._looked = time.monotonic()
        self._by_hash: dict[str, Key] = {}
        self._load()

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys, including expired ones."""
        return tuple(self._current().values())

    def principal(self, secret: str) -> Principal | None:
        """Return the principal of a key; None for an unknown or expired key."""
        # The time of this lookup reveals at most how similar two hashes are, and that leads to no key.
        key = self._current().get(hashlib.sha256(secret.encode()).hexdigest())
        return None if key is None or key.has_expired else _principal(key)

    def create(
        self, name: str, grants: Sequence[str], expires: datetime | None = None, mask: str | None = None
    ) -> str:
        """Create a key and return it; it is stored nowhere else.

        Raises:
            KeyFileError: the name or a pattern is not valid, the name is taken, or the file cannot be written.
        """
        # Basic credentials end the name at the first colon.
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or ":" in name:
            raise KeyFileError(f"expected a name without a colon, found {name!r:.100}")
        try:
            granted = checked_grants(grants)
        except ValueError as error:
            raise KeyFileError(str(error)) from error
        keys = self._current()
        if any(key.name == name for key in keys.values()):
            raise KeyFileError(f"expected a new name, found {name!r} taken; revoke it first")
        secret = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        key = Key(
            name=name,
            sha256=hashlib.sha256(secret.encode()).hexdigest(),
            grants=granted,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            expires=None if expires is None else expires.astimezone(UTC).isoformat(timespec="seconds"),
            mask=mask,
        )
        self._write([*keys.values(), key])
        return secret

    def revoke(self, name: str) -> None:
        """Remove a key.

        Raises:
            KeyFileError: no key has this name, or the file cannot be written.
        """
        keys = self._current().values()
        left = [key for key in keys if key.name != name]
        if len(left) == len(keys):
            raise KeyFileError(f"expected the name of a key, found {name!r:.100}")
        self._write(left)

    def _current(self) -> dict[str, Key]:
        with self._lock:
            if time.monotonic() - self._looked > _LOOK_EVERY_S:
                self._looked = time.monotonic()
                self._load()
            return dict(self._by_hash)

    def _load(self) -> None:
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
                if stamp == self._stamp:
                    return
                data = file.read(_MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            self._by_hash, self._stamp = {}, None
            return
        except OSError as error:
            raise KeyFileError(f"expected a file of keys, found {error.strerror}: {self._path}") from error
        self._by_hash = {key.sha256: key for key in _keys_of(data, self._path)}
        self._stamp = stamp

    def _write(self, keys: Sequence[Key]) -> None:
        document = {"version": VERSION, "keys": [_members(key) for key in keys]}
        try:
            write_whole(self._path, json.dumps(document, indent=2) + "\n")
        except OSError as error:
            raise KeyFileError(
                f"expected to write the file of keys, found {error.strerror}: {self._path}"
            ) from error
        with self._lock:
            self._load()


def _principal(key: Key) -> Principal:
    return Principal(name=key.name, grants=key.grants, source=Source.KEY, mask=key.mask)


def _members(key: Key) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if value is not None}


def _keys_of(data: bytes, path: Path) -> list[Key]:
    if len(data) > _MAX_FILE_BYTES:
        raise KeyFileError(f"expected a file of keys, found more than {_MAX_FILE_BYTES} bytes: {path}")
    try:
        document = json.loads(data)
        version, keys = document["version"], [_key(members) for members in document["keys"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"{type(error).__name__}: {error}"
        raise KeyFileError(f"expected a file of keys, found {found}: {path}") from error
    if version != VERSION:
        raise KeyFileError(f"expected a file of keys of version {VERSION}, found {version!r}: {path}")
    return keys


def _key(members: dict[str, Any]) -> Key:
    key = Key(
        name=str(members["name"]),
        sha256=str(members["sha256"]).lower(),
        grants=checked_grants(map(str, members["grants"])),
        created=str(members.get("created", "")),
        expires=None if members.get("expires") is None else str(members["expires"]),
        mask=None if members.get("mask") is None else str(members["mask"]),
    )
    if len(bytes.fromhex(key.sha256)) != hashlib.sha256().digest_size:
        raise ValueError(f"no SHA-256 of {key.name!r}")
    if key.expires is not None and datetime.fromisoformat(key.expires).tzinfo is None:
        raise ValueError(f"expires of {key.name!r} without a time zone")
    return key
