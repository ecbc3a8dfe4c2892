"""Savepoints of any size with known rows, for tests and benchmarks: no Flink is needed to write them.

savepoints.py  canonical ones
rocksdb.py     native RocksDB ones, with the same rows
onekey.py      one key that has all the state
"""
