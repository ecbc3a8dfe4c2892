"""Benchmarks: `python -m benchmarks` (`make bench`). Timings live here, never in tests.

Reading order:

    __main__.py     scans, lookups and peak memory on savepoints written for the purpose
    growth.py       time, processor time and memory of works on 1, 10 and 100 million keys
    growthsources.py its savepoints
    encode.py       decoding and encoding, a type a row, side by side
    write.py        savepoints written by SQL, beside Flink's SavepointWriter
    writesources.py its sources, and writes in a process that has written before
    cache.py        the same queries with and without the cache of decoded states
    load.py         many clients at the same time
    lookups.py      lookups over HTTP, beside another checkout
    lists.py        lists of the tables of thousands of savepoints
    countingstore.py an object store that counts requests and bytes
    objectstore.py  small questions about a large savepoint in an object store
    spark.py        scans by Spark, on one worker and on two
    peers/          savepointdb beside Flink's own readers

The savepoints that they measure are written by `tools.synthetic`, the servers started by `tools.servers`.
"""
