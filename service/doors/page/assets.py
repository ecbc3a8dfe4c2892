"""The built files of the page, read once and served from memory: a name is looked up, never joined to a path."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file of the page.

    Attributes:
        media_type: value of the header Content-Type.
        content: the bytes.
        compressed: the bytes compressed with gzip.
        etag: value of the header ETag; changes with the content.
    """

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


def read_assets(folder: Path = STATIC) -> Mapping[str, Asset]:
    """Read the files of the page, by name; files that no browser requests are left out."""
    return {
        path.name: asset_of(path.read_bytes(), _MEDIA_TYPES[path.suffix])
        for path in sorted(folder.iterdir())
        if path.suffix in _MEDIA_TYPES
    }


def asset_of(content: bytes, media_type: str) -> Asset:
    """Return a file with its bytes compressed, and its tag."""
    return Asset(
        media_type=media_type,
        content=content,
        # Without the time: the bytes under one ETag must not differ from process to process.
        compressed=gzip.compress(content, mtime=0),
        etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
    )
