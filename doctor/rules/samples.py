"""Rules that a look at the first stored values decides: of both savepoints, where no snapshot describes a class.

A class is compared with itself by the objects that both jobs wrote: if no list of fields fits them all, it has changed. That a
restore fails is said only if no list of fields that fits the new objects can read the old ones.
"""

from __future__ import annotations

from doctor.rules.rule import FAILS_RESTORE, UNREADABLE_ACCESS, Rule

_KEEP = "keep the class as it was, or make it a POJO and write the state anew before the change"

KRYO_FIELDS = Rule(
    id="sample-kryo-fields",
    change="a class that Kryo writes: the objects of the new job have other fields, and those of the savepoint end too early for them",
    effect="Flink says nothing; hashmap decodes all values when it restores, and fails; rocksdb fails when the value is read first",
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="KryoException, IndexOutOfBoundsException, EOFException",
    remedy=_KEEP,
    shown_by="kryo-add-field kryo-remove-first-field pojo-list-of-pojo-add-field com.esotericsoftware.kryo.serializers.FieldSerializer",
)
KRYO_CLASS_GONE = Rule(
    id="sample-kryo-class-gone",
    change="objects of a class that Kryo wrote with its name, as one that implements the type of the state, and that no jar has",
    effect="without the class hashmap fails when it restores, rocksdb when the value is read first",
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="KryoException: Unable to find class",
    remedy="keep the class in the jar",
    shown_by="kryo-implementation-gone com.esotericsoftware.kryo.util.DefaultClassResolver",
)
SUBCLASS_FIELDS = Rule(
    id="sample-subclass-fields",
    change="a stored subclass of a POJO that no snapshot lists: its objects of the new job have other fields",
    effect=(
        "the old fields are nowhere recorded, so its objects are read by the new class, and end too early: hashmap fails when it "
        "restores, rocksdb when the value is read first"
    ),
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="EOFException",
    remedy="keep the subclass as it was; or register it in the old job, and take another savepoint, which lists its fields",
    shown_by="pojo-subclass-add-field o.a.f.api.java.typeutils.runtime.PojoSerializer",
)
SUBCLASS_GONE = Rule(
    id="sample-subclass-gone",
    change="a stored subclass of a POJO that no snapshot lists, and that the new job does not have or never stored",
    effect="without the class hashmap fails when it restores, rocksdb when the value is read first",
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="Cannot find class",
    remedy="keep the class in the jar",
    shown_by="pojo-subclass-class-gone o.a.f.api.java.typeutils.runtime.PojoSerializer",
)
CEP_STAGE = Rule(
    id="sample-cep-stage",
    change="a CEP pattern that begins with another stage: partial matches of the savepoint wait in one that the new job's never name",
    effect="the job fails when it reads its first partial match",
    heap=UNREADABLE_ACCESS,
    flink="State … does not exist in the NFA",
    remedy="keep the names of all stages while partial matches are stored",
    shown_by="cep-pattern-changed o.a.f.cep.nfa.NFA",
)
