"""The ETag of a link: it changes when its rows may change.

Savepoints do not change, so the rows of a statement follow from its text and from the savepoints that it reads. A statement has
no tag if it reads the catalog itself, the clock or a random number, or if the storage does not say when a savepoint was written.
"""

from __future__ import annotations

import hashlib
import json
import re

from service.base.version import installed_version
from service.query.encode import SPREADSHEET_CSV, Format
from service.query.running.request import QueryRequest
from service.query.sql.plan import Plan

_DIGEST_BYTES = 16
_WORD = re.compile(r"\w+")
# DuckDB's functions that may answer otherwise the next time, the words that are such functions without parentheses, and samples.
# A column of such a name costs a tag, and nothing else.
CHANGING = frozenset(
    [
        "age",
        "current_catalog",
        "current_connection_id",
        "current_database",
        "current_date",
        "current_localtime",
        "current_localtimestamp",
        "current_query",
        "current_query_id",
        "current_role",
        "current_schema",
        "current_schemas",
        "current_setting",
        "current_time",
        "current_timestamp",
        "current_transaction_id",
        "current_user",
        "currval",
        "error",
        "gen_random_uuid",
        "get_current_time",
        "get_current_timestamp",
        "getvariable",
        "in_search_path",
        "localtime",
        "localtimestamp",
        "nextval",
        "now",
        "rand",
        "random",
        "reservoir",
        "sample",
        "session_user",
        "setseed",
        "setval",
        "sleep_ms",
        "stats",
        "tablesample",
        "today",
        "tomorrow",
        "transaction_timestamp",
        "txid_current",
        "user",
        "uuid",
        "uuidv4",
        "uuidv7",
        "vector_type",
        "write_log",
        "yesterday",
    ]
)


def tag_of(asked: QueryRequest, plan: Plan, wanted: Format) -> str | None:
    """Return the ETag of an answer; None if the same link may have other rows while its savepoints are the same."""
    is_of_savepoints = all(reference.database is not None for reference in plan.tables)
    words = frozenset(map(str.casefold, _WORD.findall(asked.sql)))
    if not is_of_savepoints or plan.incomplete or plan.prefix.startswith("EXPLAIN") or words & CHANGING:
        return None
    versions = [(database.name, database.version) for database in plan.databases]
    if not all(version for _, version in versions):
        return None
    facts = [
        installed_version(), wanted.media_type, wanted == SPREADSHEET_CSV, asked.sql, asked.dialect, asked.schema,
        asked.compat, asked.max_rows, repr(asked.parameters), versions, plan.warnings,
    ]  # fmt: skip
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    # Weak: answers with the same rows differ in the id of the query.
    return f'W/"{digest}"'


def matches(tag: str, header: str) -> bool:
    """Return whether the header If-None-Match names a tag."""
    strong = tag.removeprefix("W/")
    known = {part.strip().removeprefix("W/") for part in header.split(",")}
    return strong in known
