"""Native RocksDB and ForSt snapshots: the files of one database instance, opened as one.

    source.py       the states of an instance; the entries that differ between two
    database.py     an instance, opened when it is read: entries of a column family; chooses the reader
    files.py        where the files are: on this machine, or in an object store
    sst/            our reader of SST files

Our reader reads all ranges; rocksdict (RocksDB itself) reads those that it refuses, and is the oracle of its tests. The
measurements behind this are in docs/decisions.md.
"""
