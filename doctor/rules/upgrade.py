"""Rules for an upgrade of Flink while the job stays: snapshot classes and connectors that the new version does not have.

The lists come from the class files of all jars of Flink 1.20.3 and 2.3.0.
"""

from __future__ import annotations

from doctor.job import FlinkVersion
from doctor.rules.rule import (
    DOUBT,
    FAILS_DECODING,
    FAILS_RESTORE,
    FINE,
    RISK,
    UNREADABLE_ACCESS,
    Comparison,
    Path,
    found,
)
from readers import ExternalSerializer, KryoSerializer, Serializer

SNAPSHOT_GONE = FAILS_RESTORE.rule(
    id="snapshot-class-gone",
    change="1.x → 2.x: a serializer snapshot of a class that 2.x does not have (Scala API, old sinks), declared or not",
    effect="the whole operator fails when its state file is opened",
    flink="ClassNotFoundException",
    remedy="write the state anew with types of Java before the upgrade, or drop it from the savepoint with `DROP TABLE …`",
    shown_by="scala-case-to-java scala-case-not-declared o.a.f.api.scala.typeutils.ScalaCaseClassSerializerSnapshot",
)
CONNECTOR_GONE = FAILS_RESTORE.rule(
    id="connector-class-gone",
    change="1.x → 2.x: state of a connector whose classes 2.x does not have (FlinkKafkaConsumer), declared or not",
    effect="the whole operator fails when its state file is opened",
    flink="ClassNotFoundException: …KafkaTopicPartition",
    remedy=(
        "give the new source another uid, start with --allowNonRestoredState, and let it begin at the offsets that the table "
        "`source_offsets` shows"
    ),
    shown_by="kafka-legacy-other-uid o.a.f.streaming.connectors.kafka.internals.KafkaTopicPartition",
)
CONFIG_SNAPSHOT = FAILS_RESTORE.rule(
    id="config-snapshot",
    change="1.17 or newer: a savepoint of before 1.8, or a serializer of the job's own with a `TypeSerializerConfigSnapshot`",
    effect="the whole operator fails when its state file is opened: these snapshots are no longer read",
    flink="ClassNotFoundException, or IOException of an unknown version",
    remedy=(
        "restore it with Flink 1.8 to 1.16 first (1.8 to 1.10 if rocksdb has states with a Row), and take a savepoint there"
    ),
    shown_by="o.a.f.api.common.typeutils.TypeSerializerConfigSnapshot",
)
OLD_ROW = FINE.but(rocksdb=UNREADABLE_ACCESS).rule(
    id="row-of-1-7",
    change="1.11 to 1.16: a `Row` in a savepoint of before 1.8",
    effect="rocksdb reads the rows as if they had a row kind: a row with a null, or with 7 or 8 fields, fails or gets other values",
    flink="EOFException",
    remedy="restore it with Flink 1.8 to 1.10 first, and take a savepoint there",
    shown_by="o.a.f.api.java.typeutils.runtime.RowSerializer$RowSerializerConfigSnapshot",
)
OLD_KRYO_ROW = FAILS_DECODING.rule(
    id="kryo-row-of-1-10",
    change="1.11 or newer: a `Row` that Kryo of Flink 1.10 or older wrote",
    effect="Kryo expects other fields in a Row since 1.11: hashmap fails at restore, rocksdb at the first access",
    flink="KryoException",
    remedy="stay with Flink 1.8 to 1.10, or start the operator without this state",
    shown_by="o.a.f.types.Row",
)
OLD_SQL = FAILS_RESTORE.rule(
    id="sql-of-1-10",
    change="1.11 or newer: state of a SQL query that Flink 1.9 or 1.10 wrote",
    effect="the whole operator fails when its state file is opened: Flink 1.11 gave the classes of SQL's data other names",
    flink="ClassNotFoundException",
    remedy="start the query without this state",
    shown_by="o.a.f.table.runtime.typeutils.BaseRowSerializer$BaseRowSerializerSnapshot",
)
OLD_EXTERNAL = FAILS_RESTORE.rule(
    id="sql-aggregates-of-1-12",
    change="1.13 or newer: state of a SQL query of Flink 1.12 with values of user-defined or DISTINCT aggregates",
    effect="the whole operator fails when its state file is opened: 1.13 expects one byte more in the snapshot of such a value",
    flink="IOException: Corrupt data, magic number mismatch",
    remedy="start the query without this state",
    shown_by="o.a.f.table.runtime.typeutils.ExternalSerializer$ExternalSerializerSnapshot",
)
OTHER_FLINK = DOUBT.rule(
    id="new-job-of-other-flink",
    change="the savepoint of the new job was taken by Flink 1.x, and 2.x restores, or the reverse",
    effect="the new job has other types there: 2.x has serializers for lists, maps and sets in POJOs, 1.x leaves them to Kryo",
    remedy="start the new job with the version that restores, and compare with its savepoint",
    shown_by="pojo-list-field o.a.f.api.java.typeutils.TypeExtractor",
)
SQL_MEANING = RISK.rule(
    id="sql-meaning",
    change="a query of SQL: its state has types, not the meaning of columns and accumulators",
    effect="an aggregate replaced by another of equal types continues with wrong numbers (SUM → MAX), without an error",
    remedy="keep the query, or start it without this state",
    shown_by="sql-swap-agg-same-type",
)
CEP_PATTERN = RISK.rule(
    id="cep-pattern",
    change="a CEP operator: the names of the pattern's stages are in the values only",
    effect="if a stage was renamed or removed, the job fails when it reads its first partial match",
    flink="State … does not exist in the NFA",
    remedy="keep the names of all stages while partial matches are stored",
    shown_by="cep-pattern-changed",
)

_FIRST_WITHOUT_CONFIG_SNAPSHOTS = (1, 17)
_FIRST_WITH_ROW_KINDS = (1, 11)
_FIRST_WITH_ROW_DATA = (1, 11)
_LAST_WITHOUT_INPUT_FLAG = (1, 12)


_SCALA = "org.apache.flink.api.scala."
_GONE_PREFIXES = (
    _SCALA,
    "org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction$",
    "org.apache.flink.streaming.connectors.kafka.FlinkKafkaProducer",
    "org.apache.flink.cep.nfa.NFA$MigratedNFASerializerSnapshot",
    "org.apache.flink.cep.nfa.SharedBuffer$",
    "org.apache.flink.cep.nfa.sharedbuffer.SharedBufferNode$",
)
_GONE = frozenset(
    {
        "org.apache.flink.api.java.typeutils.runtime.EitherSerializerSnapshot",
        "org.apache.flink.api.common.typeutils.base.GenericArraySerializerConfigSnapshot",
        "org.apache.flink.formats.avro.typeutils.AvroSerializer$AvroSchemaSerializerConfigSnapshot",
    }
)
_OLD_SQL = frozenset(
    f"org.apache.flink.table.runtime.typeutils.{name}Serializer${name}SerializerSnapshot"
    for name in (
        "BaseArray", "BaseMap", "BaseRow", "BinaryGeneric", "BinaryRow", "BinaryString",
        "Decimal", "SqlTimestamp",
    )
)  # fmt: skip
_ROW_CONFIG = "org.apache.flink.api.java.typeutils.runtime.RowSerializer$RowSerializerConfigSnapshot"
_ROW = "org.apache.flink.types.Row"
_CONNECTORS = ("org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition",)


def is_config_snapshot(snapshot_class: str) -> bool:
    """Return whether a snapshot class is of the kind that Flink 1.17 dropped.

    Flink: FLINK-29807
    """
    return "Config" in snapshot_class.rpartition(".")[2] and snapshot_class not in _GONE


def old_snapshot(snapshot_class: str, flink: FlinkVersion, path: Path) -> Comparison:
    """Return the finding about a snapshot class that a newer version of Flink 1.x misreads, or does not have."""
    release = flink.major, flink.minor
    if is_config_snapshot(snapshot_class) and release >= _FIRST_WITHOUT_CONFIG_SNAPSHOTS:
        return found(CONFIG_SNAPSHOT, path, snapshot_class)
    if snapshot_class == _ROW_CONFIG and release >= _FIRST_WITH_ROW_KINDS:
        return found(OLD_ROW, path, snapshot_class)
    if snapshot_class in _OLD_SQL and release >= _FIRST_WITH_ROW_DATA:
        return found(OLD_SQL, path, snapshot_class)
    return Comparison()


def old_type(node: Serializer, flink: FlinkVersion, path: Path) -> Comparison:
    """Return the finding about a type that a newer version of Flink 1.x misreads."""
    release = flink.major, flink.minor
    if isinstance(node, KryoSerializer):
        if node.type_class == _ROW and not node.settings.has_row_kinds and release >= _FIRST_WITH_ROW_KINDS:
            return found(OLD_KRYO_ROW, path, _ROW)
    elif isinstance(node, ExternalSerializer) and node.is_of_1_12 and release > _LAST_WITHOUT_INPUT_FLAG:
        return found(OLD_EXTERNAL, path, node.type_name)
    return Comparison()


def is_gone(snapshot_class: str) -> bool:
    """Return whether a snapshot class of 1.x does not exist in 2.x."""
    return snapshot_class in _GONE or snapshot_class.startswith(_GONE_PREFIXES)


def gone_connector(node: Serializer, path: Path) -> Comparison:
    """Return the finding about a class of a connector that 2.x does not have."""
    if isinstance(node, KryoSerializer) and node.type_class in _CONNECTORS:
        return found(CONNECTOR_GONE, path, node.type_class)
    return Comparison()
