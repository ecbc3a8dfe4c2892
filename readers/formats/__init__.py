"""How one kind of state file lays out its entries: stream → `Page`s.

A format knows where entries stand and in which order their parts come; it never looks inside a serializer. Each offers
`pages(…)`, and `emit(program, entry)`, which composes the serializers of an entry into the layout of the format.

    entry.py          what an entry is made of, whatever the format
    regions.py        where key groups stand
    full.py           canonical savepoints, full checkpoints of RocksDB: framed composite keys and values
    lookup.py         some keys in a key group of full.py
    heap.py           checkpoints and native savepoints of the hashmap backend: unframed
    gaps.py           where states of heap.py end that cannot be walked
    rocksdb.py        incremental checkpoints, native savepoints of RocksDB and ForSt
    sst/              their SST files, read without RocksDB
    changelog.py      changes of keyed state since a base
    replay.py         a base with its changes applied
    deducedkeys.py    the type of the keys of a changelog without a base
    operatorstate.py  list, union and broadcast state
    rawtimers.py      timers in raw keyed state
    channelstate.py   records in flight of unaligned checkpoints
    snappy.py         the compression of all of these
    unpacked.py       compressed key groups, of any size
"""

from readers.formats.changelog.source import ChangelogSource
from readers.formats.channelstate.source import ChannelSource
from readers.formats.full.source import FullSource
from readers.formats.heap.source import HeapSource
from readers.formats.opaque import BytesSource
from readers.formats.opening import (
    coordinator_source,
    keyed_source,
    master_source,
    operator_source,
    raw_keyed_source,
    raw_operator_source,
)
from readers.formats.operatorstate.source import OperatorSource
from readers.formats.prefetch import beginnings
from readers.formats.rawtimers.source import RawTimerSource
from readers.formats.rocksdb.source import RocksSource
from readers.formats.source import Selection, Source, StateName

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
