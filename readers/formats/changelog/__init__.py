"""Changelog checkpoints: a materialised base and the changes since.

log.py     the bytes of the changes, and the states that they announce
replay.py  applies the changes to the entries of the base
source.py  the states of a handle; deduces the type of the keys where nothing records it
"""
