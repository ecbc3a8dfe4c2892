"""Kryo: values of classes that Flink knows no serializer for."""
