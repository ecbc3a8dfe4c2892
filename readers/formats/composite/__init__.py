"""The composite key and the value of an entry, as RocksDB has them; canonical savepoints and changelogs use the same layout.

layout.py  the bytes of key and value
source.py  the shared part of the sources with such entries
"""
