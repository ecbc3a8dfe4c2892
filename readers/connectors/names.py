"""The names of states whose layout a connector decides on: what has none of them needs no connector.

| name | kind of state |
|---|---|
| SourceReaderState, writer_raw_states, bucket-states, streaming_committer_raw_states | OPERATOR_LIST |
| coordinator state | COORDINATOR |
"""

from __future__ import annotations

COORDINATOR_STATE = "coordinator state"
READER_STATE = "SourceReaderState"
CONNECTOR_STATES = frozenset(
    {READER_STATE, COORDINATOR_STATE, "writer_raw_states", "bucket-states", "streaming_committer_raw_states"}
)
