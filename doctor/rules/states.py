"""Rules for the job graph and for states as a whole: names, kinds, keys, namespaces, TTL, timers, the layout of native savepoints.

Flink applies those of the job graph on the job manager, before any task runs and any state is read.

Flink: HeapKeyedStateBackend#tryRegisterStateTable, RocksDBKeyedStateBackend#tryRegisterKvStateInformation,
DefaultOperatorStateBackend#getListState
"""

from __future__ import annotations

from doctor.rules.rule import (
    FAILS_GRAPH,
    FAILS_REGISTER,
    FAILS_RESTORE,
    FINE,
    LOSES,
    RISK,
    UNKNOWN,
    UNREADABLE_ACCESS,
    Verdict,
    refused,
)

METADATA_TOO_NEW = FAILS_GRAPH.rule(
    id="metadata-too-new",
    change="`_metadata` has a version that this Flink does not read",
    effect="nothing is restored: savepoints of newer versions of Flink are not read by older ones",
    flink="Unrecognized checkpoint version number",
    remedy="restore it with the version of Flink that wrote it, or a newer one",
    shown_by="pojo-same kryo-type-uuid o.a.f.runtime.checkpoint.metadata.MetadataSerializers",
)
METADATA_TOO_OLD = FAILS_GRAPH.rule(
    id="metadata-too-old",
    change="`_metadata` of Flink 1.2",
    effect="nothing is restored: no newer Flink reads it",
    flink="This savepoint / checkpoint version (Flink 1.1 / 1.2) is no longer supported.",
    remedy="restore it with an older Flink first, step by step, and take a savepoint there",
    shown_by="o.a.f.runtime.checkpoint.metadata.MetadataV1Serializer",
)
OPERATOR_MISSING = FAILS_GRAPH.rule(
    id="operator-missing",
    change="an operator with state is not in the new job (removed, or its uid changed)",
    effect="the job does not start",
    flink="Cannot map checkpoint/savepoint state for operator … to the new program",
    remedy=(
        "give the operator its old uid, or the old id by setUidHash; --allowNonRestoredState starts the job without this "
        "state"
    ),
    shown_by="uid-changed op-removed uid-none-to-uid filesink-uid o.a.f.runtime.checkpoint.Checkpoints",
)
OPERATOR_DROPPED = LOSES.rule(
    id="operator-dropped",
    change="an operator with state is not in the new job, and --allowNonRestoredState is given",
    effect="the job starts; the state of the operator is dropped, its classes are never loaded",
    remedy="give the operator its old uid, or the old id by setUidHash, to keep the state",
    shown_by="uid-changed op-removed kafka-legacy-other-uid o.a.f.runtime.checkpoint.Checkpoints",
)
MAX_PARALLELISM_DIFFERS = FAILS_GRAPH.rule(
    id="max-parallelism-differs",
    change="the new job sets another max parallelism than the savepoint has",
    effect="the job does not start: key groups cannot be dealt out anew; --allowNonRestoredState changes nothing",
    flink="Max parallelism mismatch between checkpoint/savepoint state and new program",
    remedy=(
        "set the max parallelism of the savepoint, or set none: then the job takes the saved one; or write the savepoint anew "
        "by `ALTER TABLE … SET (max_parallelism = …)`"
    ),
    shown_by="maxpar-up maxpar-down maxpar-via-config o.a.f.runtime.checkpoint.Checkpoints",
)
PARALLELISM_ABOVE_MAX = FAILS_GRAPH.rule(
    id="parallelism-above-max",
    change="the parallelism of the new job is greater than the max parallelism of the savepoint",
    effect="the job does not start: there are fewer key groups than subtasks",
    flink="Max parallelism mismatch between checkpoint/savepoint state and new program",
    remedy=(
        "lower the parallelism, or write the savepoint anew by `ALTER TABLE … SET (max_parallelism = …)`"
    ),
    shown_by="maxpar-below-par o.a.f.runtime.checkpoint.StateAssignmentOperation",
)
MAX_PARALLELISM_UNSET = RISK.rule(
    id="max-parallelism-unset",
    change="the new job has the max parallelism that Flink derives where none is set, the savepoint another one",
    effect="if the job sets none, it takes the saved one; if it sets this very number, it does not start",
    remedy="look whether the job, or pipeline.max-parallelism, sets a max parallelism",
    shown_by="maxpar-unset maxpar-up o.a.f.runtime.checkpoint.StateAssignmentOperation",
)

NO_UID = RISK.rule(
    id="operator-without-uid",
    change="a stateful operator without a uid: its id is a hash of its place in the job graph",
    effect=(
        "any change of the graph before it, of its outputs or of chaining gives it another id: the restore fails, or another "
        "operator takes the id over and the state is dropped without an error"
    ),
    remedy="set a uid, and the old id by setUidHash for the first start; or name the operator with `ALTER TABLE … RENAME TO`",
    shown_by=(
        "uid-none-same uid-none-append uid-none-unchain uid-none-insert-map-uid uid-none-chain-global "
        "o.a.f.streaming.api.graph.StreamGraphHasherV2"
    ),
)
ANONYMOUS_CLASS = RISK.rule(
    id="anonymous-class",
    change="an anonymous class or a lambda among the classes that the savepoint names",
    effect="the compiler numbers them: code that is added before it gives the class another name, or its name to another class",
    remedy="give the class a name",
    shown_by="pojo-class-renamed kryo-class-renamed java.lang.Class",
)


NOT_DECLARED = LOSES.rule(
    id="state-not-declared",
    change="the new job does not declare the state (removed, renamed, or declared as keyed, list or broadcast state instead)",
    effect="the job starts; the state is not read, and every later savepoint carries it along",
    remedy=(
        "declare it by its old name; rename it in the savepoint with `ALTER TABLE … RENAME TO`, or drop it with `DROP TABLE …`; a "
        "state that is declared after the start only is read then"
    ),
    shown_by="state-removed state-renamed kind-oplist-to-broadcast kind-value-to-oplist op-swapped-uids sql-dedup-same",
)
STATE_NEW = FINE.rule(
    id="state-new",
    change="a state that the savepoint does not have",
    effect="it is empty",
    shown_by="state-added",
)
OPERATOR_STATELESS = LOSES.rule(
    id="operator-without-keyed-state",
    change="the new job has an operator of this id, and it has no keyed state",
    effect="the job starts, without --allowNonRestoredState; the keyed state is dropped without an error",
    remedy=(
        "look whether the id now belongs to another operator, as generated ids do where operators have no uid; set uids, or "
        "setUidHash with the old id on the right operator"
    ),
    shown_by="op-merged-removed-nokeyed o.a.f.streaming.api.operators.StreamTaskStateInitializerImpl",
)
KIND_CHANGED = FAILS_REGISTER.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="kind-changed",
    change="another kind of keyed state under the same name, as value → list, window reduce → process",
    effect="the state is refused when it is declared, even if the bytes are the same",
    flink="Incompatible key/value state types",
    remedy="give the new state another name, and write its values with `CREATE TABLE … AS SELECT`",
    shown_by="kind-value-to-list kind-list-to-map kind-value-to-reducing window-reduce-to-list",
)
MODE_CHANGED = FAILS_REGISTER.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="distribution-mode-changed",
    change="operator list state ↔ union list state",
    effect="the state is refused when it is declared",
    flink="Incompatible state assignment modes",
    remedy="give the new state another name, and write its values with `CREATE TABLE … AS SELECT`",
    shown_by="kind-opunion-to-oplist",
)
KEY_CHANGED = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="key-changed",
    change="another type of key; a key may only stay as it is or be reconfigured, so a key field added fails too",
    effect="the whole operator fails when its state file is opened",
    flink="The new key serializer must be compatible",
    remedy="keep the type of the key; write the state anew under a new operator with `CREATE TABLE … AS SELECT`",
    shown_by="key-long-to-int key-tuple-arity key-tuple-wrap avro-specific-key-add sql-group-key",
)
NAMESPACE_CHANGED = FAILS_REGISTER.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="namespace-changed",
    change="another type of namespace, as time windows → global windows",
    effect="the state is refused when it is declared",
    flink="The new namespace serializer must be compatible; priority queue serializer must not be incompatible",
    remedy="keep the kind of windows, or give the window operator a new uid",
    shown_by="window-global",
)
MAP_KEY_MIGRATED = FINE.but(verdict=Verdict.MIGRATION, rocksdb=FAILS_REGISTER).rule(
    id="map-key-migrated",
    change="the key of a MapState needs a migration, as a POJO with a new field",
    effect="hashmap migrates it; rocksdb refuses, as its keys are bytes that are compared",
    flink="migration for MapState currently only allows value schema evolutions",
    remedy="restore with hashmap from a canonical savepoint of Flink 1.13 or later once, or keep the key",
    shown_by="nested-add-field-map-key nested-add-field-broadcast-key",
)
TTL_1 = refused(
    id="ttl-switched",
    change="TTL switched on or off, Flink 1.x",
    remedy="keep TTL as it is, with a very long time instead of none; or upgrade to 2.x first, which migrates",
    shown_by="ttl-on-value ttl-off-value ttl-off-list ttl-off-map ttl-on-reducing sql-ttl-off",
)
TTL_2 = FINE.but(verdict=Verdict.MIGRATION).rule(
    id="ttl-migrated",
    change="TTL switched on or off, Flink 2.x",
    effect="the values are migrated, and stay the same",
    shown_by="ttl-on-value ttl-off-map ttl-on-pojo-add-field sql-ttl-off",
)
TIMERS_CHANGED = FAILS_REGISTER.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="timers-changed",
    change="timers of another type of key or namespace",
    effect="the timers are refused when the operator opens",
    flink="The new priority queue serializer must not be incompatible",
    remedy="keep the types of key and window, or give the operator a new uid",
    shown_by="window-global o.a.f.runtime.state.heap.HeapPriorityQueuesManager",
)
NATIVE_FORMAT = FAILS_RESTORE.rule(
    id="native-other-backend",
    change="a native savepoint or a checkpoint of another state backend",
    effect="the backend cannot read the files",
    flink="EOFException; ClassCastException of the state handle",
    remedy="restore it with its own backend in Flink 1.13 or later, and take a canonical savepoint there: all backends read these",
    shown_by="backend-native o.a.f.runtime.state.heap.HeapRestoreOperation",
)
TWO_NATIVE_FORMATS = FAILS_RESTORE.rule(
    id="native-two-backends",
    change="native state of hashmap and native state of rocksdb, in different operators",
    effect="no backend reads both",
    flink="EOFException; ClassCastException of the state handle",
    remedy="change state of the operators of one backend with `savepointdb write`, which writes all of theirs as canonical",
    shown_by="backend-native o.a.f.runtime.state.heap.HeapRestoreOperation",
)
FORMATS_DIFFER = FINE.rule(
    id="formats-differ",
    change="operators in several formats, or of several versions of Flink",
    effect="each is restored by itself, by a backend that reads all of them",
    remedy="restore it with such a backend",
    shown_by="o.a.f.runtime.checkpoint.StateAssignmentOperation",
)
TIMERS_LEFT_OUT = LOSES.rule(
    id="heap-timers-left-out",
    change="windows in a native savepoint of rocksdb, taken from a job with timers on the heap",
    effect="the savepoint holds no timers, and Flink restores none: the windows in it never fire, and no error is raised",
    remedy="take a canonical savepoint of the running job instead, or restore a retained checkpoint: both hold these timers",
    shown_by="o.a.f.contrib.streaming.state.snapshot.RocksNativeFullSnapshotStrategy",
)
OFFSET_IMPOSSIBLE = UNREADABLE_ACCESS.rule(
    id="offset-impossible",
    change="a source that would read on from an offset that it cannot have, as one below 0",
    effect="the job starts, and the source fails when it seeks to the offset",
    flink="IllegalArgumentException: seek offset must not be a negative number",
    remedy="set an offset that it can have, with `UPDATE source_offsets SET starting_offset = …`, into a new savepoint",
    shown_by="org.apache.kafka.clients.consumer.KafkaConsumer",
)
STATE_API = UNKNOWN.rule(
    id="state-api-changed",
    change="a state of the synchronous state API is declared by the asynchronous one (`enableAsyncState`), or the reverse",
    effect="no restore in real Flink has shown what happens",
    remedy="restore a copy of the savepoint in a test cluster, or keep the API",
    shown_by="o.a.f.runtime.state.v2.RegisteredKeyValueStateBackendMetaInfo",
)
STATES_UNREAD = UNKNOWN.rule(
    id="state-unread",
    change="a state file that is missing or damaged, of the savepoint or of that of the new job",
    effect="what it holds could not be checked",
    remedy="mend or fetch the file, and check again",
    shown_by="o.a.f.runtime.state.StateObject",
)
IN_FLIGHT = RISK.rule(
    id="records-in-flight",
    change="an unaligned checkpoint, with records in flight between operators",
    effect=(
        "they are read by the serializers of the new job, and sent on in its graph: the job fails where types of records, or the "
        "operators around them, have changed"
    ),
    remedy="take a savepoint, which is aligned, and restore that",
    shown_by="o.a.f.runtime.checkpoint.channel.RecoveredChannelStateHandler",
)
RAW_STATE = RISK.rule(
    id="raw-state",
    change="raw state, which an operator writes and reads by itself",
    effect="no snapshot describes its bytes: the new operator must read what the old one wrote",
    remedy="make sure that the operator reads the bytes of its old version",
    shown_by="o.a.f.runtime.state.StateSnapshotContext",
)
UNSEEN = FINE.rule(
    id="unseen",
    change="what no comparison of types sees: sizes and gaps of windows, TTL durations, the code of functions",
    effect="the job uses the new ones from then on, without an error",
    remedy="compare these by hand",
    shown_by="window-size ttl-duration",
)
KEY_SELECTOR_UNSEEN = FINE.rule(
    id="key-selector-unseen",
    change="the key selector of an operator with keyed state: a savepoint has its keys and their type, not how they are made",
    effect="one that makes other keys of the same type never finds the old ones; no error is raised",
    remedy="compare what both jobs give to keyBy",
    shown_by="key-values-change o.a.f.api.java.functions.KeySelector",
)
BACKEND_NAME_UNSEEN = FINE.rule(
    id="backend-name-unseen",
    change="state.backend.type of the cluster that restores: it is in no savepoint and in no jar",
    effect=(
        "2.x knows no backends `filesystem` and `jobmanager`, 1.x no factory `org.apache.flink.state.rocksdb…`: with such a name no task "
        "starts (ClassNotFoundException)"
    ),
    remedy="look at state.backend.type: `hashmap` and `rocksdb` are names in all versions",
    shown_by="config-backend-jobmanager config-backend-rocksdb-new-factory o.a.f.runtime.state.StateBackendLoader",
)
CHANGELOG_UNSEEN = FINE.rule(
    id="changelog-unseen",
    change="state.changelog.enabled of the cluster that restores: it is in no savepoint and in no jar",
    effect=(
        "with the changelog switched on, the first checkpoint of 2.x after a restore in the mode NO_CLAIM fails: `does not support "
        "enforcing a full snapshot`"
    ),
    remedy="look at state.changelog.enabled; restore in the mode CLAIM, or switch it on after a first checkpoint",
    shown_by="changelog-on o.a.f.state.changelog.ChangelogKeyedStateBackend",
)

# The rules of words of caution → what to compare by hand, in a word.
CAUTIONS = {
    KEY_SELECTOR_UNSEEN.id: "key selectors",
    BACKEND_NAME_UNSEEN.id: "state.backend.type",
    CHANGELOG_UNSEEN.id: "state.changelog.enabled",
    UNSEEN.id: "windows, TTLs, code",
}
