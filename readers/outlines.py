"""The bytes of outlines: what decides on the states of a savepoint and their types.

| parts | of |
|---|---|
| version, text of `stateInfo` | the savepoint |
| id, uid, name, max parallelism, coordinator, layouts of connectors | each operator |
| role, opener, and what `Opener.outline` returns | each handle of it, by subtask |

`Savepoint.outline` makes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

_LENGTH_BYTES = 8
_OUTLINE_BYTES = 32


def framed(parts: Iterable[bytes]) -> bytes:
    """Return parts as one text of bytes, which no other parts have."""
    pieces: list[bytes] = []
    for part in parts:
        pieces += (len(part).to_bytes(_LENGTH_BYTES, "big"), part)
    return b"".join(pieces)


def operator_outline(
    operator_id: str,
    uid: bytes,
    name: bytes,
    max_parallelism: int,
    connectors: Sequence[bytes],
    handles: Iterable[bytes],
) -> bytes:
    """Return the outline of an operator.

    Args:
        operator_id: 32 hex digits.
        uid: empty for none.
        name: empty for none.
        max_parallelism: as recorded.
        connectors: what the values of its states say of connectors.
        handles: the outlines of its handles.
    """
    known = (operator_id.encode(), uid, name, str(max_parallelism).encode(), framed(connectors))
    return framed((*known, *handles))


def handle_outline(role: str, opener: str, found: bytes) -> bytes:
    """Return the outline of a handle: its role, the class of its opener, and what that returns."""
    return b"%b %b %b" % (role.encode(), opener.encode(), found)


def savepoint_outline(version: int, stated: str, operators: Iterable[bytes]) -> bytes:
    """Return the digest of the outlines of all operators.

    Args:
        version: of `_metadata`.
        stated: the text of `stateInfo`.
        operators: the outlines, in order.
    """
    parts = (str(version).encode(), stated.encode("utf-8", "surrogatepass"), *operators)
    return hashlib.blake2b(framed(parts), digest_size=_OUTLINE_BYTES).digest()
