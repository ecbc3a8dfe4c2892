"""State files: a handle of `_metadata` → a `Source` with its states → `Page`s of entries.

A format knows where entries stand and in which order their parts come; it never looks inside a serializer. Its `Source` returns
the `pages(…)` of a state, and its `emit(…)` composes the serializers of an entry into the layout of the format.

In reading order:

    entry.py        the serializers of an entry, whatever its format
    source.py       Source: an opened handle
    differing.py    entries that may differ between two sources
    keybounds.py    where keys stand in entries
    opener.py       Opener: turns a handle into a source
    opening.py      the table of all openers
    beginning.py    headers at the start of streams
    keyedstream.py  the shared part of full/ and heap/: a header and key groups in one stream
    full/           canonical savepoints, full checkpoints of RocksDB: framed composite keys and values
    heap/           checkpoints and native savepoints of the hashmap backend: unframed entries
    composite/      the composite key and value of full/, rocksdb/ and changelog/
    rocksdb/        incremental checkpoints, native savepoints of RocksDB and ForSt
    changelog/      a base and the changes of keyed state since
    operatorstate/  list, union and broadcast state
    rawtimers/      timers in raw keyed state
    channelstate/   records in flight of unaligned checkpoints
    opaque.py       state of unknown layout, as bytes
    snappy.py       the compression of all formats
    unpacked.py     compressed key groups, of any size
"""
