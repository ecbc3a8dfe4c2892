"""Bytes of Flink savepoints → Arrow. Knows Flink; knows no SQL, no HTTP, no table names.

In: the path of a savepoint or checkpoint. Out: its operators and states, and their entries as `pyarrow.RecordBatch`es.

Reading order:

    savepoint.py   Savepoint → Operator → State → rows
    sources/       one state handle of one subtask
    states.py      entries → rows
    formats/       how a kind of state file lays out its entries
    decode/        the machine that turns entries into columns
    compiled/      how it becomes machine code, once
    serializers/   how one value is laid out
    stateinfo/     the headers of state files: which states, in which types
    metadata/      the `_metadata` file
    connectors/    what connectors keep in opaque bytes
    storage.py      which files a savepoint may refer to, and where they are now
    filesystems.py remote.py schemes.py filecache.py   how they are read
    cursor.py keygroups.py errors.py cachefolder.py
"""
