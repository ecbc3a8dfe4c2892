"""Decoded states, kept as Parquet files; and the tables that savepoints have.

Reading order:

    states.py    which states are worth an entry, its rows, and how they are found again
    files.py     a directory of files that appear whole or not at all; the tables of savepoints, remembered for lists
"""
