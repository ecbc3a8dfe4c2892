"""Serializer snapshots: the schema that Flink stores before the data."""
