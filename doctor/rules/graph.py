"""The rules of the job graph: Flink applies them on the job manager, before any task runs and any state is read."""

from __future__ import annotations

from doctor.rules.rule import FAILS_GRAPH, LOSES, RISK, Rule

METADATA_TOO_NEW = Rule(
    id="metadata-too-new",
    change="`_metadata` has a version that this Flink does not read",
    effect="nothing is restored: savepoints of newer versions of Flink are not read by older ones",
    heap=FAILS_GRAPH,
    flink="Unrecognized checkpoint version number",
    remedy="restore it with the version of Flink that wrote it, or a newer one",
    shown_by="pojo-same kryo-type-uuid o.a.f.runtime.checkpoint.metadata.MetadataSerializers",
)
METADATA_TOO_OLD = Rule(
    id="metadata-too-old",
    change="`_metadata` of Flink 1.2",
    effect="nothing is restored: no newer Flink reads it",
    heap=FAILS_GRAPH,
    flink="This savepoint / checkpoint version (Flink 1.1 / 1.2) is no longer supported.",
    remedy="restore it with an older Flink first, step by step, and take a savepoint there",
    shown_by="o.a.f.runtime.checkpoint.metadata.MetadataV1Serializer",
)
OPERATOR_MISSING = Rule(
    id="operator-missing",
    change="an operator with state is not in the new job (removed, or its uid changed)",
    effect="the job does not start",
    heap=FAILS_GRAPH,
    flink="Cannot map checkpoint/savepoint state for operator … to the new program",
    remedy=(
        "give the operator its old uid, or the old id by setUidHash; --allowNonRestoredState starts the job without this "
        "state"
    ),
    shown_by="uid-changed op-removed uid-none-to-uid filesink-uid o.a.f.runtime.checkpoint.Checkpoints",
)
OPERATOR_DROPPED = Rule(
    id="operator-dropped",
    change="an operator with state is not in the new job, and --allowNonRestoredState is given",
    effect="the job starts; the state of the operator is dropped, its classes are never loaded",
    heap=LOSES,
    remedy="give the operator its old uid, or the old id by setUidHash, to keep the state",
    shown_by="uid-changed op-removed kafka-legacy-other-uid o.a.f.runtime.checkpoint.Checkpoints",
)
MAX_PARALLELISM_DIFFERS = Rule(
    id="max-parallelism-differs",
    change="the new job sets another max parallelism than the savepoint has",
    effect="the job does not start: key groups cannot be dealt out anew; --allowNonRestoredState changes nothing",
    heap=FAILS_GRAPH,
    flink="Max parallelism mismatch between checkpoint/savepoint state and new program",
    remedy=(
        "set the max parallelism of the savepoint, or set none: then the job takes the saved one; or write the savepoint anew "
        "by `ALTER TABLE … SET (max_parallelism = …)`"
    ),
    shown_by="maxpar-up maxpar-down maxpar-via-config o.a.f.runtime.checkpoint.Checkpoints",
)
PARALLELISM_ABOVE_MAX = Rule(
    id="parallelism-above-max",
    change="the parallelism of the new job is greater than the max parallelism of the savepoint",
    effect="the job does not start: there are fewer key groups than subtasks",
    heap=FAILS_GRAPH,
    flink="Max parallelism mismatch between checkpoint/savepoint state and new program",
    remedy=(
        "lower the parallelism, or write the savepoint anew by `ALTER TABLE … SET (max_parallelism = …)`"
    ),
    shown_by="maxpar-below-par o.a.f.runtime.checkpoint.StateAssignmentOperation",
)
MAX_PARALLELISM_UNSET = Rule(
    id="max-parallelism-unset",
    change="the new job has the max parallelism that Flink derives where none is set, the savepoint another one",
    effect="if the job sets none, it takes the saved one; if it sets this very number, it does not start",
    heap=RISK,
    remedy="look whether the job, or pipeline.max-parallelism, sets a max parallelism",
    shown_by="maxpar-unset maxpar-up o.a.f.runtime.checkpoint.StateAssignmentOperation",
)

NO_UID = Rule(
    id="operator-without-uid",
    change="a stateful operator without a uid: its id is a hash of its place in the job graph",
    effect=(
        "any change of the graph before it, of its outputs or of chaining gives it another id: the restore fails, or another "
        "operator takes the id over and the state is dropped, and nothing says so"
    ),
    heap=RISK,
    remedy="set a uid, and the old id by setUidHash for the first start; or name the operator with `ALTER TABLE … RENAME TO`",
    shown_by=(
        "uid-none-same uid-none-append uid-none-unchain uid-none-insert-map-uid uid-none-chain-global "
        "o.a.f.streaming.api.graph.StreamGraphHasherV2"
    ),
)
ANONYMOUS_CLASS = Rule(
    id="anonymous-class",
    change="an anonymous class or a lambda among the classes that the savepoint names",
    effect="the compiler numbers them: code that is added before it gives the class another name, or its name to another class",
    heap=RISK,
    remedy="give the class a name",
    shown_by="pojo-class-renamed kryo-class-renamed java.lang.Class",
)
