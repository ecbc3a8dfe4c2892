"""One state handle of one subtask: opens its header, and gives the pages of a state.

A `Source` joins a format with the storage. Kinds:

| source | handle | layout |
|---|---|---|
| FullSource | KeyGroupsStateHandle, KeyGroupsSavepointStateHandle | `formats/full.py` |
| HeapSource | KeyGroupsStateHandle | `formats/heap.py` |
| RocksSource | IncrementalRemoteKeyedStateHandle | `formats/rocksdb.py` |
| ChangelogSource | ChangelogStateBackendHandle | `formats/changelog.py`, `formats/replay.py` |
| RawTimerSource | KeyGroupsStateHandle of raw keyed state | `formats/rawtimers.py` |
| OperatorSource | OperatorStreamStateHandle | `formats/operatorstate.py` |
| ChannelSource | ChannelStateHandle | `formats/channelstate.py` |
| BytesSource | what an operator, a coordinator or a hook of the job manager wrote itself | |

Headers are read when a source is opened, entries when `pages` is iterated.

    source.py        what every source gives
    headers.py       which states a stream has, where its key groups are
    composite.py     what those share whose entries are as RocksDB has them
    keyedstreams.py rocksdb.py changelog.py rawtimers.py operatorstate.py channelstate.py opaque.py   the kinds
    snapshots.py opening.py   the source of a handle
    prefetch.py      what is read as soon as a savepoint is opened
"""

from readers.sources.changelog import ChangelogSource
from readers.sources.channelstate import ChannelSource
from readers.sources.keyedstreams import FullSource, HeapSource
from readers.sources.opaque import BytesSource
from readers.sources.opening import (
    coordinator_source,
    keyed_source,
    master_source,
    operator_source,
    raw_keyed_source,
    raw_operator_source,
)
from readers.sources.operatorstate import OperatorSource
from readers.sources.prefetch import beginnings
from readers.sources.rawtimers import RawTimerSource
from readers.sources.rocksdb import RocksSource
from readers.sources.source import Selection, Source, StateName

__all__ = [
    "BytesSource",
    "ChangelogSource",
    "ChannelSource",
    "FullSource",
    "HeapSource",
    "OperatorSource",
    "RawTimerSource",
    "RocksSource",
    "Selection",
    "Source",
    "StateName",
    "beginnings",
    "coordinator_source",
    "keyed_source",
    "master_source",
    "operator_source",
    "raw_keyed_source",
    "raw_operator_source",
]
