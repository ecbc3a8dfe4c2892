"""Serializer snapshots: the schema that Flink stores before the data, read into `Serializer`s.

reading.py    the frames around snapshots: versioned, nested, composite, pairs
registry.py   the table of snapshot classes
legacy.py     serializers as Flink stored them before 1.8: config snapshots, Java objects
"""
