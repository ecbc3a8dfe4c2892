"""Use cases that copy a savepoint in another form. The savepoint itself is only read.

convert.py       a savepoint of one Flink → one for another
sample.py        a savepoint → one with some of its keys
mask.py          a savepoint and a file of masks → what the masks do
forget.py        a savepoint → one without what belongs to some ids, and the proof of it
columngroups.py  groups of columns of a file of masks
pruning.py       nested values → those without elements and entries that have an id
export/          tables → Parquet files, tables of Iceberg and Delta
"""
