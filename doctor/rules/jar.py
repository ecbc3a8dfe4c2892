"""Rules for what the code of a jar does not tell. A risk names it; the verdict stands unless the risk comes true.

What a job declares is read from constant arguments of calls: see `readers/jars/declared/`.
"""

from __future__ import annotations

from doctor.rules.rule import DOUBT, FAILS_RESTORE, LOSES, RISK, UNKNOWN, UNREADABLE_ACCESS, Rule

GRAPH_UNSEEN = Rule(
    id="jar-graph-unseen",
    change="operators, their ids and max parallelism, where the job is compared with its jar alone",
    effect="an operator that the new job lacks, under another uid or with another max parallelism, fails the restore",
    heap=RISK,
    remedy="compare with a savepoint of the new job, started once, or with its plan too",
    shown_by="uid-changed maxpar-down op-removed",
)
UID_UNSEEN = Rule(
    id="jar-uid-unseen",
    change="no text of the jar is the uid of the operator",
    effect="its uid comes from elsewhere, or was changed, or it has none; a changed one fails the restore",
    heap=DOUBT,
    remedy="look for the uid in the code; compare with a savepoint of the new job, started once",
    shown_by="uid-changed filesink-uid uid-none-to-uid",
)
TYPE_UNTOLD = Rule(
    id="jar-type-untold",
    change="the code gives a type in a way that is not told without running it",
    effect="the type is taken for unchanged, with the classes as they are in the jar",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, started once",
    shown_by="scala-case-same o.a.f.api.common.typeinfo.TypeInfoFactory",
)
KEY_UNTOLD = Rule(
    id="jar-key-untold",
    change="the code has keys whose types it does not tell, or of other types than those of the savepoint",
    effect="its keys are taken for unchanged; others fail the restore",
    heap=DOUBT,
    remedy="give `keyBy` the type of the keys; compare with a savepoint of the new job, started once",
    shown_by="key-long-to-int key-tuple-arity o.a.f.api.java.functions.KeySelector",
)
DECLARATION_UNSEEN = Rule(
    id="jar-declaration-unseen",
    change="no call of the jar declares the state",
    effect="it is taken for unchanged, with the classes as they are in the jar",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, started once",
    shown_by="window-reduce-to-list sql-add-agg cep-pattern-changed",
)
DECLARATIONS_DIFFER = Rule(
    id="jar-declarations-differ",
    change="several calls of the jar declare states of one name with other types",
    effect="the one that fits the savepoint is taken for that of this operator",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, started once",
    shown_by="o.a.f.api.common.state.StateDescriptor",
)
NAME_GONE = Rule(
    id="jar-name-gone",
    change="the jar declares other states of the operator, and no text in it is the name of this one",
    effect="it is taken for a state that the new job does not declare",
    heap=DOUBT,
    remedy="look whether the code builds the name from parts",
    shown_by="state-removed state-renamed",
)
QUERY_READ = Rule(
    id="jar-query-read",
    change="the accumulators of a GROUP BY do not fit the one query with aggregates among the texts of the jar",
    effect="it is taken for the query of this operator",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, started once",
    shown_by="sql-add-agg sql-remove-agg",
)
VALUES_MISFIT = Rule(
    id="jar-values-misfit",
    change=(
        "the first stored values contradict the classes of the jar: a class that Kryo writes, or a subclass of a POJO that the savepoint "
        "does not describe, has other fields"
    ),
    effect="hashmap decodes all values when it restores, and fails; rocksdb fails when the value is read first, or reads garbage",
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="KryoException, IndexOutOfBoundsException, EOFException",
    remedy="keep the class as it was, or make it a POJO and write the state anew before the change",
    shown_by="kryo-add-field pojo-list-of-pojo-add-field pojo-subclass-add-field",
)
VALUES_LEFT_OVER = Rule(
    id="jar-values-left-over",
    change="the first stored values go on where the classes of the jar end: a class that Kryo writes lost its last fields, by their names",
    effect="Flink passes over the bytes that are left: the values of these fields are dropped, and nothing says so",
    heap=LOSES,
    remedy="keep the fields, or make it a POJO and write the state anew before the change",
    shown_by="kryo-remove-last-field com.esotericsoftware.kryo.serializers.FieldSerializer",
)
CLASS_UNSEEN = Rule(
    id="jar-class-unseen",
    change="a class that the savepoint names is in none of the jars, nor is any other class of its package",
    effect="whether the job has it cannot be told; without it the whole operator fails when its state file is opened",
    heap=UNKNOWN,
    remedy="compare with the jars that the job needs too, with --against for each",
    shown_by="pojo-class-renamed o.a.f.util.FlinkUserCodeClassLoaders",
)
CODE_UNREAD = Rule(
    id="jar-code-unread",
    change="code of the jar that is damaged, or longer than what is looked at",
    effect="what it declares is not known",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, started once",
    shown_by="o.a.f.util.FlinkUserCodeClassLoaders",
)
