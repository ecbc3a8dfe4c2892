"""Serializer snapshots: the schema that Flink stores before the data, read into `Serializer`s.

Reading order:

    reading.py  the frames around snapshots: versioned, nested, composite, pairs; the table of snapshot classes
    legacy.py   config snapshots, which Flink stored before 1.8
    java.py     serializers that Flink stored as Java objects
"""
