"""Splits of tables → Parquet files in a folder or an object store. Executors of Spark run it, too: it knows nothing else of the service.

Modules:

    destinations.py  where files go: a folder of this machine, or a prefix of an object store
    conversion.py  columns → the types that a format of tables has
    parts.py       splits → the files of a table
"""
