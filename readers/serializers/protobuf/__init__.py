"""Protobuf messages, read with their compiled descriptors.

Reading order:

    serializer.py    messages → JSON trees; `byte[]` that hold messages
    descriptors.py   the wire format, and the descriptors that give it a meaning
"""
