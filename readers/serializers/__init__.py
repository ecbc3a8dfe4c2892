"""How one value is laid out: Flink's `TypeSerializer`s, one family a file.

A serializer does not decode. It declares its column type and emits the instructions that read its bytes: see `base.py`
and `readers.decode`. Each family lists in its `SNAPSHOTS` the snapshot classes that its serializers are made from;
`readers.snapshots.reading` joins these tables.

    base.py        `Serializer`: what every serializer declares; `Snapshot`: how it reads the schema that Flink stored
    structs.py     serializers whose fields stand one after the other: tuples, rows, Either
    primitives.py  numbers, text, bytes, dates and times; `org.apache.flink.types.Value`
    containers.py  lists, maps, sets, arrays, nullables, enums
    pojo.py        POJOs and records
    avro.py        Avro records
    scala.py       Scala's types
    kryo/          objects that Flink leaves to Kryo
    protobuf.py    protobuf messages
    table/         SQL's internal data
    operators.py   windows, timers, TTL, records that operators wrap, sinks with a two-phase commit
    cep.py         complex event processing
    named.py       serializers of types by their names, in `stateInfo` and in SQL
    jsontree.py    JSON text of values that have no column type

To add a type: a class and its line in the family's `SNAPSHOTS`, a strategy in the tests, a fixture; see
`tests/readers/serializers/test_registry.py`.
"""
