"""What sinks with a two-phase commit keep: `TwoPhaseCommitSinkFunction`, and on it the Kafka producers of 1.4–1.14.

| serializer | snapshot | bytes |
|---|---|---|
| State | composite 4: bool may be null; [transaction, context] | [bool present,] holder, i4 n, n × holder, bool present, context |
| its holder | | transaction, i8 start time |
| Kafka: TransactionState | – | bool transactional, [utf id,] i8 producer id, i2 epoch |
| Kafka: ContextState | – | i4 n, n × utf id |
| Kafka: NextTransactionalIdHint | – | i8 next free id, i4 last parallelism |

Composite version 3 has no bool, and transactions may be null; up to version 2 they may not. The class moved to `…sink.legacy`
in 2.0. The producer of Kafka 0.11 has classes of its own with the same bytes.

Flink: TwoPhaseCommitSinkFunction, FlinkKafkaProducer, FlinkKafkaProducer011
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from readers.decode.program import Program
from readers.serializers.base import Serializer
from readers.serializers.primitives import BasicSerializer
from readers.serializers.snapshot import Snapshot, SnapshotBody, simple_body
from readers.serializers.struct import (
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
_NULLABLE_SINCE, _SAID_SINCE = 3, 4


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


class TransactionStateSerializer(StructSerializer, BasicSerializer):
    """A transaction of a Kafka producer; without an id the producer is not transactional."""

    java_class = _KAFKA + "FlinkKafkaProducer$TransactionStateSerializer"
    name = "KafkaTransactionState"
    layout = StructLayout(("transactional_id", OptionalLayout(UTF)), ("producer_id", LONG), ("epoch", SHORT))


class ContextStateSerializer(BasicSerializer):
    """The ids that a Kafka producer uses for its transactions."""

    java_class = _KAFKA + "FlinkKafkaProducer$ContextStateSerializer"
    name, arrow_type = "KafkaTransactionContext", pa.list_(pa.string())

    def emit(self, program: Program) -> None:
        with program.list():
            program.utf()


class NextTransactionalIdHintSerializer(StructSerializer, BasicSerializer):
    """The ids that a Kafka producer may take when it starts with another parallelism."""

    java_class = _KAFKA + "FlinkKafkaProducer$NextTransactionalIdHintSerializer"
    name, fixed_length = "NextTransactionalIdHint", 12
    layout = StructLayout(("next_free_transactional_id", LONG), ("last_parallelism", INT))


def _state(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    may_be_null = version == _NULLABLE_SINCE or (version >= _SAID_SINCE and snapshot.cursor.boolean())
    transaction, context = snapshot.nested(2)
    return TransactionsSerializer(transaction, context, may_be_null)


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
        f"{place}TwoPhaseCommitSinkFunction$StateSerializerSnapshot": _state
        for place in (_SINK, _SINK + "legacy.")
    },
    **{
        f"{name}${type(serializer).__name__}Snapshot": simple_body(serializer)
        for name, serializer in KAFKA_SERIALIZERS.items()
    },
}
