"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15.

layout.py  the bytes of a key group; walks it and finds the entries of a state
first.py   finds the first entries of a state, in a few kilobytes
lookup.py  finds the entries of some keys, and reads no further than needed
lockstep.py  walks two key groups in step, and finds the entries that they do not share
differences.py  remembers what differs, and collects it until it is worth decoding
source.py  the states of a handle
"""
