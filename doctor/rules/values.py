"""Rules that stored values decide: only a check with `--values` reads any."""

from __future__ import annotations

from doctor.rules.rule import FAILS_RESTORE, FINE, LOSES, RISK, UNREADABLE_ACCESS, Rule

_CONVERT = (
    "convert it with `savepointdb convert`, which takes those of Flink 1.16 to 1.20, or make the class a POJO and write the state "
    "anew in 1.x before the upgrade"
)

SAME = Rule(
    id="values-same",
    change="1.x → 2.x: each stored object of Kryo 2 is the same object to Kryo 5, to its last byte",
    effect="the values are the same",
    heap=FINE,
    shown_by="kryo-type-object kryo-type-optional kryo-in-list",
)
LOST = Rule(
    id="values-lost",
    change="1.x → 2.x: a stored object of Kryo 2 has fewer elements to Kryo 5, which leaves bytes unread",
    effect="elements are lost; no error is raised",
    heap=LOSES,
    remedy=_CONVERT,
    shown_by="kryo-type-arraylist kryo-type-linkedlist kryo-type-hashmap",
)
GARBAGE = Rule(
    id="values-garbage",
    change="1.x → 2.x: a stored object of Kryo 2 is another object to Kryo 5",
    effect="other values are read, also in fields behind it; no error is raised",
    heap=LOSES,
    remedy=_CONVERT,
    shown_by="kryo-type-bitset kryo-final-boxed pojo-duration-field",
)
UNREADABLE = Rule(
    id="values-unreadable",
    change="1.x → 2.x: a stored object of Kryo 2 cannot be read by Kryo 5",
    effect="hashmap fails at restore, rocksdb when the value is read first",
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="KryoException, EOFException: Buffer underflow, DateTimeException, IndexOutOfBoundsException",
    remedy=_CONVERT,
    shown_by="kryo-type-uuid kryo-type-locale kryo-type-duration",
)
DAMAGED = Rule(
    id="values-damaged",
    change="the bytes of a stored value contradict its serializer",
    effect="hashmap decodes all values when it restores, and fails; rocksdb fails when the value is read first",
    heap=FAILS_RESTORE,
    rocksdb=UNREADABLE_ACCESS,
    flink="EOFException",
    remedy="DELETE the entry with `savepointdb write`, or take the state from an older savepoint",
    shown_by="o.a.f.runtime.state.heap.HeapSavepointRestoreOperation",
)
UNREAD = Rule(
    id="values-unread",
    change="stored values of classes whose fields are not known here",
    effect="whether they can be read is not told by this check",
    heap=RISK,
    remedy="give the jar of the old job, or describe the classes in a stateInfo file",
    shown_by="kryo-many-fields kryo-serializer-upgrade",
)
