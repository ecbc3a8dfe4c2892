"""Rules for what types alone do not tell: what jars, plans and stateInfo files leave open, and what stored values decide.

A risk names what a jar, a plan or a stateInfo file does not tell; the verdict stands unless the risk comes true. What a job declares is
read from constant arguments of calls: see `readers/jars/declared/`.

A look at the first stored values of both savepoints decides where no snapshot describes a class. It is compared with itself by the
objects that both jobs wrote: if no list of fields fits them all, it has changed. That a restore fails is said only if no list of fields
that fits the new objects can read the old ones. The rules `values-…` are for a check with `--values`, which reads all values.
"""

from __future__ import annotations

from doctor.rules.rule import DOUBT, FAILS_DECODING, FINE, LOSES, RISK, UNKNOWN, UNREADABLE_ACCESS

GRAPH_UNSEEN = RISK.rule(
    id="jar-graph-unseen",
    change="operators, their ids and max parallelism, where the job is compared with its jar alone",
    effect="an operator that the new job lacks, under another uid or with another max parallelism, fails the restore",
    remedy="compare with a savepoint of the new job, started once, or with its plan too",
    shown_by="uid-changed maxpar-down op-removed",
)
UID_UNSEEN = DOUBT.rule(
    id="jar-uid-unseen",
    change="no text of the jar is the uid of the operator",
    effect="its uid comes from elsewhere, or was changed, or it has none; a changed one fails the restore",
    remedy="look for the uid in the code; compare with a savepoint of the new job, started once",
    shown_by="uid-changed filesink-uid uid-none-to-uid",
)
TYPE_UNTOLD = DOUBT.rule(
    id="jar-type-untold",
    change="the code computes a type, so that only running it shows the type",
    effect="check assumes the same type, with the classes of the jar",
    remedy="compare with a savepoint of the new job, started once",
    shown_by="scala-case-same o.a.f.api.common.typeinfo.TypeInfoFactory",
)
KEY_UNTOLD = DOUBT.rule(
    id="jar-key-untold",
    change="the code has keys whose types it does not state, or of other types than those of the savepoint",
    effect="check assumes the same keys; others fail the restore",
    remedy="give `keyBy` the type of the keys; compare with a savepoint of the new job, started once",
    shown_by="key-long-to-int key-tuple-arity o.a.f.api.java.functions.KeySelector",
)
DECLARATION_UNSEEN = DOUBT.rule(
    id="jar-declaration-unseen",
    change="no call of the jar declares the state",
    effect="check assumes the same type, with the classes of the jar",
    remedy="compare with a savepoint of the new job, started once",
    shown_by="window-reduce-to-list sql-add-agg cep-pattern-changed",
)
DECLARATIONS_DIFFER = DOUBT.rule(
    id="jar-declarations-differ",
    change="several calls of the jar declare states of one name with other types",
    effect="check assumes that the one that fits the savepoint is of this operator",
    remedy="compare with a savepoint of the new job, started once",
    shown_by="o.a.f.api.common.state.StateDescriptor",
)
NAME_GONE = DOUBT.rule(
    id="jar-name-gone",
    change="the jar declares other states of the operator, and no text in it is the name of this one",
    effect="check assumes that the new job does not declare it",
    remedy="look whether the code builds the name from parts",
    shown_by="state-removed state-renamed",
)
QUERY_READ = DOUBT.rule(
    id="jar-query-read",
    change="the accumulators of a GROUP BY do not fit the one query with aggregates among the texts of the jar",
    effect="check assumes that it is the query of this operator",
    remedy="compare with a savepoint of the new job, started once",
    shown_by="sql-add-agg sql-remove-agg",
)
VALUES_MISFIT = FAILS_DECODING.rule(
    id="jar-values-misfit",
    change=(
        "the first stored values contradict the classes of the jar: a class that Kryo writes, or a subclass of a POJO that the savepoint "
        "does not describe, has other fields"
    ),
    effect="hashmap decodes all values when it restores, and fails; rocksdb fails when the value is read first, or reads garbage",
    flink="KryoException, IndexOutOfBoundsException, EOFException",
    remedy="keep the class as it was, or make it a POJO and write the state anew before the change",
    shown_by="kryo-add-field pojo-list-of-pojo-add-field pojo-subclass-add-field",
)
VALUES_LEFT_OVER = LOSES.rule(
    id="jar-values-left-over",
    change="the first stored values go on where the classes of the jar end: a class that Kryo writes lost its last fields, by their names",
    effect="Flink ignores the bytes that are left: the values of these fields are dropped without an error",
    remedy="keep the fields, or make it a POJO and write the state anew before the change",
    shown_by="kryo-remove-last-field com.esotericsoftware.kryo.serializers.FieldSerializer",
)
CLASS_UNSEEN = UNKNOWN.rule(
    id="jar-class-unseen",
    change="a class that the savepoint names is in none of the jars, nor is any other class of its package",
    effect="the job may not have it; without it the whole operator fails when its state file is opened",
    remedy="compare with the jars that the job needs too, with --against for each",
    shown_by="pojo-class-renamed o.a.f.util.FlinkUserCodeClassLoaders",
)
CODE_UNREAD = DOUBT.rule(
    id="jar-code-unread",
    change="code of the jar that is damaged, or longer than what is looked at",
    effect="what it declares is not known",
    remedy="compare with a savepoint of the new job, started once",
    shown_by="o.a.f.util.FlinkUserCodeClassLoaders",
)


OPERATOR_UNLISTED = DOUBT.rule(
    id="plan-operator-unlisted",
    change="an operator with state that the plan, or the stateInfo file, does not list",
    effect="a plan has the ids of the heads of chains only; if the new job lacks the operator, the restore fails",
    remedy="compare with a savepoint of the new job, started once",
    shown_by="uid-changed op-removed o.a.f.runtime.jobgraph.jsonplan.JsonPlanGenerator",
)
TYPES_BY_NAME = DOUBT.rule(
    id="state-info-names",
    change="a stateInfo file has the names of types, and not the fields of their classes",
    effect="check assumes that a type of the same name has the same fields; it misses added, removed and retyped fields",
    remedy="compare with a savepoint of the new job, or with its jar too",
    shown_by="pojo-retype-int-long pojo-remove-field",
)
TYPE_UNKNOWN = DOUBT.rule(
    id="state-info-type",
    change="the stateInfo file has another type, which is not known by its name alone",
    effect="a type that does not fit fails the restore, or migrates the values",
    remedy="compare with a savepoint of the new job, or with its jar too",
    shown_by="pojo-retype-long-string kind-value-to-list",
)

STATES_UNSEEN = DOUBT.rule(
    id="plan-states-unseen",
    change="the states of the new job, which a plan does not list",
    effect="check assumes the same states; a changed class or type fails the restore, or loses values",
    remedy="compare with a savepoint of the new job, or with its jar too",
    shown_by="pojo-retype-int-long state-renamed o.a.f.runtime.jobgraph.jsonplan.JsonPlanGenerator",
)


_KEEP = "keep the class as it was, or make it a POJO and write the state anew before the change"

KRYO_FIELDS = FAILS_DECODING.rule(
    id="sample-kryo-fields",
    change="a class that Kryo writes: the objects of the new job have other fields, and those of the savepoint end too early for them",
    effect="Flink says nothing; hashmap decodes all values when it restores, and fails; rocksdb fails when the value is read first",
    flink="KryoException, IndexOutOfBoundsException, EOFException",
    remedy=_KEEP,
    shown_by="kryo-add-field kryo-remove-first-field pojo-list-of-pojo-add-field com.esotericsoftware.kryo.serializers.FieldSerializer",
)
KRYO_CLASS_GONE = FAILS_DECODING.rule(
    id="sample-kryo-class-gone",
    change="objects of a class that Kryo wrote with its name, as one that implements the type of the state, and that no jar has",
    effect="without the class hashmap fails when it restores, rocksdb when the value is read first",
    flink="KryoException: Unable to find class",
    remedy="keep the class in the jar",
    shown_by="kryo-implementation-gone com.esotericsoftware.kryo.util.DefaultClassResolver",
)
SUBCLASS_FIELDS = FAILS_DECODING.rule(
    id="sample-subclass-fields",
    change="a stored subclass of a POJO that no snapshot lists: its objects of the new job have other fields",
    effect=(
        "the old fields are nowhere recorded, so its objects are read by the new class, and end too early: hashmap fails when it "
        "restores, rocksdb when the value is read first"
    ),
    flink="EOFException",
    remedy="keep the subclass as it was; or register it in the old job, and take another savepoint, which lists its fields",
    shown_by="pojo-subclass-add-field o.a.f.api.java.typeutils.runtime.PojoSerializer",
)
SUBCLASS_GONE = FAILS_DECODING.rule(
    id="sample-subclass-gone",
    change="a stored subclass of a POJO that no snapshot lists, and that the new job does not have or never stored",
    effect="without the class hashmap fails when it restores, rocksdb when the value is read first",
    flink="Cannot find class",
    remedy="keep the class in the jar",
    shown_by="pojo-subclass-class-gone o.a.f.api.java.typeutils.runtime.PojoSerializer",
)
CEP_STAGE = UNREADABLE_ACCESS.rule(
    id="sample-cep-stage",
    change="a CEP pattern that begins with another stage: partial matches of the savepoint wait in one that the new job's never name",
    effect="the job fails when it reads its first partial match",
    flink="State … does not exist in the NFA",
    remedy="keep the names of all stages while partial matches are stored",
    shown_by="cep-pattern-changed o.a.f.cep.nfa.NFA",
)


_CONVERT = (
    "convert it with `savepointdb convert`, which takes those of Flink 1.16 to 1.20, or make the class a POJO and write the state "
    "anew in 1.x before the upgrade"
)

SAME = FINE.rule(
    id="values-same",
    change="1.x → 2.x: each stored object of Kryo 2 is the same object to Kryo 5, to its last byte",
    effect="the values are the same",
    shown_by="kryo-type-object kryo-type-optional kryo-in-list",
)
LOST = LOSES.rule(
    id="values-lost",
    change="1.x → 2.x: a stored object of Kryo 2 has fewer elements to Kryo 5, which leaves bytes unread",
    effect="elements are lost; no error is raised",
    remedy=_CONVERT,
    shown_by="kryo-type-arraylist kryo-type-linkedlist kryo-type-hashmap",
)
GARBAGE = LOSES.rule(
    id="values-garbage",
    change="1.x → 2.x: a stored object of Kryo 2 is another object to Kryo 5",
    effect="other values are read, also in fields behind it; no error is raised",
    remedy=_CONVERT,
    shown_by="kryo-type-bitset kryo-final-boxed pojo-duration-field",
)
UNREADABLE = FAILS_DECODING.rule(
    id="values-unreadable",
    change="1.x → 2.x: a stored object of Kryo 2 cannot be read by Kryo 5",
    effect="hashmap fails at restore, rocksdb when the value is read first",
    flink="KryoException, EOFException: Buffer underflow, DateTimeException, IndexOutOfBoundsException",
    remedy=_CONVERT,
    shown_by="kryo-type-uuid kryo-type-locale kryo-type-duration",
)
DAMAGED = FAILS_DECODING.rule(
    id="values-damaged",
    change="the bytes of a stored value contradict its serializer",
    effect="hashmap decodes all values when it restores, and fails; rocksdb fails when the value is read first",
    flink="EOFException",
    remedy="DELETE the entry with `savepointdb write`, or take the state from an older savepoint",
    shown_by="o.a.f.runtime.state.heap.HeapSavepointRestoreOperation",
)
UNREAD = RISK.rule(
    id="values-unread",
    change="stored values of classes whose fields are not known here",
    effect="check cannot decide whether they can be read",
    remedy="give the jar of the old job, or describe the classes in a stateInfo file",
    shown_by="kryo-many-fields kryo-serializer-upgrade",
)
