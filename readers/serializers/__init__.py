"""How one value is laid out: Flink's `TypeSerializer`s, one family a file.

A serializer does not decode: it declares its column type and emits instructions; see `base.py` and `readers.decode`.
`registry.py` is the one table of the snapshot classes they are made from.

To add a type: a class and its line in the family's `SNAPSHOTS`, a strategy in the tests, a fixture.
"""
