"""State of sinks with a two-phase commit: `TwoPhaseCommitSinkFunction`, and the Kafka producers of 1.4–1.14 on it.

| serializer | snapshot | bytes |
|---|---|---|
| State | composite 4: bool may be null; [transaction, context] | [bool present,] holder, i4 n, n × holder, bool present, context |
| its holder | | transaction, i8 start time |
| Kafka: TransactionState | – | bool transactional, [utf id,] i8 producer id, i2 epoch |
| Kafka: ContextState | – | i4 n, n × utf id |
| Kafka: NextTransactionalIdHint | – | i8 next free id, i4 last parallelism |

Up to composite version 2 a transaction is never null; in version 3 it may be; version 4 has the bool. The class moved to
`…sink.legacy` in 2.0. The producer of Kafka 0.11 has classes of its own with the same bytes.

Flink: TwoPhaseCommitSinkFunction, FlinkKafkaProducer, FlinkKafkaProducer011
"""

from __future__ import annotations

from dataclasses import dataclass

from readers.serializers.base import Serializer, Snapshot, SnapshotBody, simple_body
from readers.serializers.primitives import BasicSerializer
from readers.serializers.structs import (
    INT,
    LONG,
    MILLISECONDS,
    SHORT,
    UTF,
    ListLayout,
    OptionalLayout,
    StructLayout,
    StructSerializer,
)

_SINK = "org.apache.flink.streaming.api.functions.sink."
TWO_PHASE_COMMIT = _SINK + "TwoPhaseCommitSinkFunction$StateSerializer"
_KAFKA = "org.apache.flink.streaming.connectors.kafka."
_NULLABLE_VERSION, _FLAGGED_VERSION = 3, 4  # of the composite snapshot


@dataclass(frozen=True)
class TransactionsSerializer(StructSerializer):
    """The open transaction, those that wait for their commit, and the sink's own context."""

    transaction: Serializer
    context: Serializer
    may_be_null: bool = False

    java_class = TWO_PHASE_COMMIT
    name = "Transactions"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("transaction", self.transaction), ("context", self.context))

    @property
    def layout(self) -> StructLayout:
        holder = StructLayout(("transaction", self.transaction), ("start_time", MILLISECONDS))
        return StructLayout(
            ("pending", OptionalLayout(holder) if self.may_be_null else holder),
            ("pending_commits", ListLayout(holder)),
            ("context", OptionalLayout(self.context)),
        )


class TransactionStateSerializer(StructSerializer, BasicSerializer, package=_KAFKA + "FlinkKafkaProducer$"):
    """A transaction of a Kafka producer; without an id the producer is not transactional."""

    name = "KafkaTransactionState"
    layout = StructLayout(("transactional_id", OptionalLayout(UTF)), ("producer_id", LONG), ("epoch", SHORT))


class ContextStateSerializer(BasicSerializer, package=_KAFKA + "FlinkKafkaProducer$"):
    """The ids that a Kafka producer uses for its transactions."""

    name, layout = "KafkaTransactionContext", ListLayout(UTF)


class NextTransactionalIdHintSerializer(
    StructSerializer, BasicSerializer, package=_KAFKA + "FlinkKafkaProducer$"
):
    """The ids that a Kafka producer may take when it starts with another parallelism."""

    name, fixed_length = "NextTransactionalIdHint", 12
    layout = StructLayout(("next_free_transactional_id", LONG), ("last_parallelism", INT))


def _state(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    may_be_null = version == _NULLABLE_VERSION or (version >= _FLAGGED_VERSION and snapshot.cursor.boolean())
    transaction, context = snapshot.nested(2)
    return TransactionsSerializer(transaction, context, may_be_null)


# By serializer class, which is all that the config snapshots of before 1.8 hold.
KAFKA_SERIALIZERS: dict[str, BasicSerializer] = {
    f"{_KAFKA}{producer}${type(serializer).__name__}": serializer
    for producer in ("FlinkKafkaProducer", "FlinkKafkaProducer011")
    for serializer in (
        TransactionStateSerializer(),
        ContextStateSerializer(),
        NextTransactionalIdHintSerializer(),
    )
}

SNAPSHOTS: dict[str, SnapshotBody] = {
    **{
        f"{package}TwoPhaseCommitSinkFunction$StateSerializerSnapshot": _state
        for package in (_SINK, _SINK + "legacy.")
    },
    **{
        f"{name}${type(serializer).__name__}Snapshot": simple_body(serializer)
        for name, serializer in KAFKA_SERIALIZERS.items()
    },
}
