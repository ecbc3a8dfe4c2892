"""Which checkpoints an answer comes from, and which of their files it lacks, wherever formats and protocols have room for it.

| where | what |
|---|---|
| JSON | `databases`: name, checkpoint id and path of each |
| Arrow, Parquet | the same as JSON in the schema's metadata, under `savepointdb.databases`; `savepointdb.query_id` beside it |
| every stream, pages of Trino's protocol | the header `X-Databases`: `"chk-41";checkpoint_id=41, "chk-42";checkpoint_id=42` |
| `GET /api/queries/{id}`, which Trino's `infoUri` names | `databases` as in JSON |

An answer that was allowed to be partial and is also has the member `incomplete`, the metadata `savepointdb.incomplete`, the header
`X-Incomplete` with the number of files, or a warning of Trino's protocol.

The header is a list of RFC 9651. Names are percent-encoded; if there are too many for a header, the last member is
`more;databases=7`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import orjson

from catalog import Database
from service.base.principal import Principal
from service.query.sql.plan import UnreadFile

HEADER = "X-Databases"
INCOMPLETE_HEADER = "X-Incomplete"
INCOMPLETE = "savepointdb.incomplete"
DATABASES = "savepointdb.databases"
QUERY_ID = "savepointdb.query_id"
# Servers and proxies accept 4 to 8 KB of headers, all together.
_HEADER_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint that a query reads.

    Attributes:
        name: the name of its database.
        checkpoint_id: the number that Flink gave it.
        path: its folder.
    """

    name: str
    checkpoint_id: int
    path: str

    @classmethod
    def of(cls, database: Database) -> Origin:
        """Return the origin of rows of a database.

        Raises:
            ReaderError: the savepoint cannot be opened.
        """
        return cls(sendable(database.name), database.checkpoint_id, sendable(database.path))


def may_read(principal: Principal, origins: Sequence[Origin]) -> bool:
    """Return whether a principal may see all the savepoints that an answer comes from."""
    return all(principal.sees(origin.name) for origin in origins)


def headers_of(origins: Sequence[Origin], incomplete: Sequence[UnreadFile] = ()) -> dict[str, str]:
    """Return the headers that list the savepoints and count the files that the answer lacks; no header for none."""
    lacking = {INCOMPLETE_HEADER: str(len(incomplete))} if incomplete else {}
    if not origins:
        return lacking
    members = [f'"{quote(origin.name)}";checkpoint_id={origin.checkpoint_id}' for origin in origins]
    kept = members
    for count in reversed(range(len(members))):
        if len(", ".join(kept)) <= _HEADER_LENGTH:
            break
        kept = [*members[:count], f"more;databases={len(members) - count}"]
    return {HEADER: ", ".join(kept), **lacking}


def metadata_of(
    query_id: str, origins: Sequence[Origin], incomplete: Sequence[UnreadFile]
) -> Mapping[str, bytes]:
    """Return the metadata of the Arrow schema of an answer."""
    lacking = {INCOMPLETE: orjson.dumps(incomplete)} if incomplete else {}
    return {QUERY_ID: query_id.encode(), DATABASES: orjson.dumps(origins), **lacking}


def sendable(text: str) -> str:
    """Return a text with `?` in place of halves of surrogate pairs, which JSON and headers refuse.

    Paths may have bytes that are not UTF-8, which Python keeps as such halves; and in JSON a statement may come with them.
    """
    return text.encode(errors="replace").decode()
