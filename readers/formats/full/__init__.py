"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15.

layout.py  the bytes of a key group; walks it and finds the entries of a state
lookup.py  finds the entries of some keys, and reads no further than needed
source.py  the states of a handle
"""
