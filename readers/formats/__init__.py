"""State files: a handle of `_metadata` → a `Source` with its states → `Page`s of entries.

A format knows where entries stand and in which order their parts come; it never looks inside a serializer. Its `Source` returns
the `pages(…)` of a state, and its `emit(…)` composes the serializers of an entry into the layout of the format.

In reading order:

    entry.py        the serializers of an entry, whatever its format
    source.py       Source: an opened handle
    opener.py       Opener: turns a handle into a source; the table of all openers
    streams.py      streams with a header and key groups: the shared part of full/ and heap/
    full/           canonical savepoints, full checkpoints of RocksDB: framed composite keys and values
    heap/           checkpoints and native savepoints of the hashmap backend: unframed entries
    composite.py    the composite key and value of full/, rocksdb/ and changelog/
    rocksdb/        incremental checkpoints, native savepoints of RocksDB and ForSt
    changelog/      a base and the changes of keyed state since
    operatorstate.py list, union and broadcast state; state of unknown layout, as bytes
    rawtimers.py    timers in raw keyed state
    channelstate.py records in flight of unaligned checkpoints
    inflight.py     where these records stand, and the serializer of each
    snappy.py       the compression of all formats
"""
