"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15.

layout.py  the bytes of a key group; finds the entries of a state, or of some keys
index.py  where the entries of a state are, as far as lookups have walked
lockstep.py  walks two key groups in step, and finds the entries that they do not share
source.py  the states of a handle
"""
