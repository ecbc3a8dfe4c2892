"""The command that exports tables.

arguments.py  what the command line knows of it
export.py     `savepointdb export`: the tables of savepoints as Parquet files, or as tables of Iceberg or Delta
"""
