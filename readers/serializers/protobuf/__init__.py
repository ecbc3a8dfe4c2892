"""Protobuf messages, read with their compiled descriptors."""
