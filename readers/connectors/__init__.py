"""State of connectors, which is bytes to Flink → columns.

FLIP-27 sources and FLIP-143 sinks write their state with a `SimpleVersionedSerializer`: a version and bytes, without a class
name. So a layout is *recognised*, and only if it is certain: every value of the state, in all subtasks, must be readable
in this layout to its last byte, and must contain nothing that its connector cannot have written. All other state stays
bytes.

    layout.py       `Layout`: the bytes of a connector → a value; the framing that all connectors share
    kafka.py        KafkaSource, KafkaSink; the committables of every sink
    files.py        FileSource, FileSink
    sequences.py    NumberSequenceSource, DataGeneratorSource; enumerators without state
    cdc.py          the sources of Flink CDC: MySQL's, and those of Postgres, Oracle, SQL Server, MongoDB
    kinesis.py      KinesisStreamsSource
    pulsar.py       PulsarSource
    recognition.py  state name → the layout that fits; a `Source` whose values are read with it
"""
