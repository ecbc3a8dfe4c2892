"""What connectors keep in bytes that Flink does not look into → columns.

FLIP-27 sources and FLIP-143 sinks write their state with a `SimpleVersionedSerializer`: a version and bytes, without the name of
a class. So a layout is *recognised*, and only where that is certain: every value of the state, of all subtasks, must read as this
one layout to its last byte, with nothing in it that its connector could not have written. Everything else stays bytes.

    layout.py       `Layout`: a connector's bytes as a value; versioned framing
    recoded.py      such values in a form that the machine reads
    kafka.py        KafkaSource, KafkaSink
    files.py        FileSource, FileSink
    sequences.py    NumberSequenceSource, DataGeneratorSource
    cdc.py          the sources of Flink CDC: MySQL's, and those of Postgres, Oracle, SQL Server, MongoDB
    cdcassigner.py  their enumerators
    kinesis.py      KinesisStreamsSource
    pulsar.py       PulsarSource
    committer.py    the committables of any sink
    recognition.py  state name → layouts, and which of them it is
    source.py       a `Source` whose values are read with a layout
    offsets.py      where sources stand: `source_offsets`
"""
