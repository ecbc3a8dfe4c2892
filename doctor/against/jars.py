"""A jar of the new job: which classes it has, the types of these, and the states that its code declares.

A jar alone does not tell which operators the job has. The operators of the savepoint are taken for those of the new job, with the
types that their states get from the jar; what that rests on is named as risks. Where a savepoint of the new job is known too, the
jar only adds its classes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import readers
from doctor.job import Against, Fact, FlinkVersion, JarClasses, Job, JobOperator, JobState
from doctor.report import Risk
from doctor.rules import untold as rules
from doctor.rules.rule import note_of, walk

_AVRO_ARRAY = "org.apache.avro.generic.GenericData$Array"
_MISFIT = "do not fit to their classes: "
_ACCUMULATORS = "accState"  # of GROUP BY; Flink: GroupAggFunction
_PRODUCT = "scala.Product"
_PLAIN = frozenset({"java.lang.String", "java.math.BigDecimal", "java.math.BigInteger"})
_KEYED = frozenset(
    {
        readers.StateKind.VALUE,
        readers.StateKind.LIST,
        readers.StateKind.MAP,
        readers.StateKind.REDUCING,
        readers.StateKind.AGGREGATING,
    }
)
_OPERATOR = frozenset(
    {readers.StateKind.OPERATOR_LIST, readers.StateKind.UNION_LIST, readers.StateKind.BROADCAST}
)
_DECLARABLE = _KEYED | _OPERATOR
_IN_A_ROW = frozenset({readers.StateKind.LIST, readers.StateKind.BROADCAST})
# State → why its values do not fit, and whether only bytes behind them tell so.
_Misfits: TypeAlias = Mapping[tuple[str, readers.StateKind], tuple[str, bool]]

# States that operators of Flink declare: no code of a job names them.
_OF_FLINK = (
    "window-", "merging-window-set", "accState", "distinctAcc_", "left-records", "right-records", "data-state-", "deduplicate-",
    "already-emitted-", "waiting-to-emit", "nfaState", "sharedBuffer", "eventQueues", "writer_raw", "streaming_committer",
    "SourceReaderState", "topic-partition-offset", "rank", "cleanup-", "_timer", "elements-queue", "watermark",
)  # fmt: skip


class JarAgainst(Against):
    """The jar of the new job, and those that it needs.

    Args:
        paths: local jars, in the order of the class path.

    Raises:
        MissingFileError: one does not exist.
        StorageError: one cannot be read.
        CorruptDataError: one is damaged, or larger than allowed.
    """

    order = 10

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        jars = readers.Jar.open_all(paths)
        self._classes = readers.ClassPath(jars, is_foreign=True)
        self._job_classes = readers.JobClasses(jars, is_foreign=True)
        self._paths = [os.fspath(path) for path in paths]

    @property
    def description(self) -> str:
        return ", ".join(self._paths)

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        known = replace(new, classes=JarClasses(self._classes), knows=new.knows | {Fact.CLASSES})
        names = {
            state.name
            for operator in old.operators.values()
            for state in operator.states
            if state.entry.kind in _DECLARABLE and not _is_of_flink(state.name)
        }
        declarations, extractor = readers.read_declarations(
            self._classes, names, flink_major=flink.major, avro_array=_avro_array(old)
        )
        misfits = {each.operator_id: self._misfits(each) for each in old.operators.values()}
        if Fact.STATES in new.knows:
            corrected = _corrected(known, old, declarations)
            return replace(corrected, operators=_with_misfits(corrected.operators, misfits))
        model = _Model(declarations, extractor, self._classes, old)
        operators = {
            each.operator_id: model.operator(each, new.operators.get(each.operator_id))
            for each in old.operators.values()
            if Fact.OPERATORS not in new.knows or each.operator_id in new.operators
        }
        is_limited = bool(declarations.max_parallelism) and Fact.MAX_PARALLELISM not in new.knows
        return replace(
            known,
            knows=known.knows | {Fact.STATES} | ({Fact.MAX_PARALLELISM} if is_limited else set()),
            operators=new.operators | _with_misfits(operators, misfits),
            risks=new.risks + tuple(model.risks(is_graph_known=Fact.OPERATORS in new.knows)),
        )

    def _misfits(self, old: JobOperator) -> _Misfits:
        """Try the first values of an operator, and return why those of some states do not fit to the classes of the jar."""
        if old.opened is None or not any(map(_is_tried, old.states)):
            return {}
        states = old.opened.described_by(self._job_classes).states
        # In a native heap snapshot all values stand in a row, and in lists and broadcast state those of a key.
        is_framed = "hashmap" not in old.formats
        return {
            (state.name, state.kind): (
                contradiction.message.partition(_MISFIT)[2] or contradiction.message,
                contradiction.leaves_bytes and is_framed and state.kind not in _IN_A_ROW,
            )
            for state in states
            for contradiction in state.contradictions
            if contradiction.source == "jars"
        }


@dataclass(frozen=True, slots=True)
class _Model:
    """The new job, as far as the old one and a jar tell it."""

    declarations: readers.Declarations
    extractor: readers.TypeExtractor
    classes: readers.ClassPath
    old: Job

    def risks(self, *, is_graph_known: bool) -> Iterator[Risk]:
        """Yield what is not known of the job as a whole."""
        if not is_graph_known:
            yield note_of(rules.GRAPH_UNSEEN)
            told = set(map(readers.operator_id_of, self.declarations.texts))
            for operator in self.old.operators.values():
                if operator.has_state and not self._has_uid(operator, told):
                    yield note_of(rules.UID_UNSEEN, operator.title)
        for operator in self.old.operators.values():
            names = [
                state.name
                for state in operator.states
                if state.entry.kind in _DECLARABLE
                and state.name not in self.declarations.states
                and self._is_gone(state)
            ]
            if self._is_key_untold(operator):
                yield note_of(rules.KEY_UNTOLD, operator.title)
            if names and len(names) < len(operator.states):
                yield note_of(rules.NAME_GONE, f"{', '.join(names)} of {operator.title}")
        if not self.declarations.is_complete:
            yield note_of(rules.CODE_UNREAD)

    def operator(self, old: JobOperator, new: JobOperator | None) -> JobOperator:
        """Return an operator of the savepoint with the types that its states get from the jar."""
        key = self._key(old)
        states = tuple(
            replace(state, entry=replace(state.entry, key=key if state.entry.key is not None else None))
            for state in self._states(old)
        )
        known = new or JobOperator(operator_id=old.operator_id, uid=old.uid, name=old.name)
        return replace(
            known,
            has_state=True,
            assumed=True,
            max_parallelism=known.max_parallelism or self.declarations.max_parallelism or None,
            key=key,
            states=states,
        )

    def _has_uid(self, operator: JobOperator, told: Collection[str]) -> bool:
        """Return whether the code names an operator; `told` has the ids of all texts."""
        if operator.uid is not None and operator.uid in self.declarations.texts:
            return True
        return operator.operator_id in told or operator.operator_id in self.declarations.uid_hashes

    def _states(self, old: JobOperator) -> Iterator[JobState]:
        declares_others = any(state.name in self.declarations.states for state in old.states)
        for state in old.states:
            if state.entry.kind not in _DECLARABLE:
                yield self._again(state)
                continue
            declared = self.declarations.states.get(state.name)
            if _is_accumulator(state) and (accumulators := self._accumulators(state)) is not state:
                yield accumulators
            elif declared:
                yield self._declared(state, declared)
            elif not declares_others or not self._is_gone(state):
                yield replace(self._again(state), risks=(note_of(rules.DECLARATION_UNSEEN, state.name),))

    def _accumulators(self, state: JobState) -> JobState:
        """Return the accumulators of a SQL query, if the one query of the jar fits the one operator that has them."""
        stored = state.entry.value
        inner = stored.value if isinstance(stored, readers.TtlSerializer) else stored
        operators = [
            each
            for each in self.old.operators.values()
            if any(_is_accumulator(other) for other in each.states)
        ]
        queries = self.declarations.queries
        if len(operators) != 1 or len(queries) != 1 or not isinstance(inner, readers.RowDataSerializer):
            return state
        if queries[0].fits(inner):
            return state
        value: readers.Serializer = readers.OpaqueSerializer(
            f"accumulators of {queries[0]}", "its types are those of the query"
        )
        value = readers.TtlSerializer(value) if isinstance(stored, readers.TtlSerializer) else value
        return replace(
            state,
            entry=replace(state.entry, value=value),
            risks=(note_of(rules.QUERY_READ, str(queries[0])),),
        )

    def _is_gone(self, state: JobState) -> bool:
        """Return whether the name of a state is nowhere in the code, as far as the code is known."""
        known = self.declarations.is_complete and not self.declarations.has_unnamed
        return known and not _is_of_flink(state.name) and state.name not in self.declarations.texts

    def _again(self, state: JobState) -> JobState:
        """Return a state as it is, with the classes of the jar."""
        entry = replace(
            state.entry, map_key=self._tree(state.entry.map_key), value=self._tree(state.entry.value)
        )
        return replace(state, entry=entry)

    def _declared(self, state: JobState, declared: tuple[readers.DeclaredState, ...]) -> JobState:
        """Return a state as the code declares it."""
        made = [self._as_declared(state, each) for each in declared]
        fits = [each for each in made if each.entry == self._again(state).entry]
        chosen = fits[0] if fits else made[0]
        if any(each.entry != chosen.entry for each in made):
            risk = note_of(rules.DECLARATIONS_DIFFER, ", ".join(sorted({each.where for each in declared})))
            return replace(chosen, risks=(*chosen.risks, risk))
        return chosen

    def _as_declared(self, state: JobState, declared: readers.DeclaredState) -> JobState:
        old = state.entry
        kind = declared.kind or old.kind
        inner = old.value.value if isinstance(old.value, readers.TtlSerializer) else old.value
        value = declared.value or self._tree(inner)
        map_key = declared.map_key or self._tree(old.map_key)
        is_keyed = kind in _KEYED
        had_ttl = isinstance(old.value, readers.TtlSerializer)
        has_ttl = had_ttl if declared.has_ttl is None else declared.has_ttl
        entry = readers.Entry(
            kind=kind,
            key=old.key if is_keyed else None,
            namespace=old.namespace if is_keyed else None,
            map_key=map_key if kind in (readers.StateKind.MAP, readers.StateKind.BROADCAST) else None,
            value=readers.TtlSerializer(value) if has_ttl and value is not None else value,
        )
        untold = [declared.untold] if declared.untold else []
        if declared.has_ttl is None:
            untold.append("whether it has a time to live")
        risks = (note_of(rules.TYPE_UNTOLD, f"{declared.where}: {'; '.join(untold)}"),) if untold else ()
        is_v2 = state.is_v2 if declared.is_v2 is None else declared.is_v2
        return JobState(name=state.name, keyed=is_keyed, entry=entry, risks=risks, is_v2=is_v2)

    def _key(self, old: JobOperator) -> readers.Serializer | None:
        """Return the type of the keys: the one that the code names, if it names one and all operators had one."""
        again = self._tree(old.key)
        keys = self.declarations.keys
        if self.declarations.has_untold_keys:
            return again
        before = {id(each): each.key for each in self.old.operators.values() if each.key is not None}
        is_one = len({repr(key) for key in before.values()}) == 1
        if old.key is None or len(keys) != 1 or not is_one:
            return again
        return keys[0]

    def _is_key_untold(self, old: JobOperator) -> bool:
        """Return whether the keys of an operator may have become others: the code tells none that are these, or some that are new."""
        keys = self.declarations.keys
        if old.key is None or isinstance(old.key, readers.RowDataSerializer):
            return False
        if len(keys) > 1:
            before = [self._tree(each.key) for each in self.old.operators.values()]
            return self._key(old) not in keys or any(key not in before for key in keys)
        return bool(keys or self.declarations.has_untold_keys) and self._key(old) not in keys

    def _tree(self, tree: readers.Serializer | None) -> readers.Serializer | None:
        """Return a type with the classes as they are in the jar."""
        return None if tree is None else readers.rebuild(tree, self._node)

    def _node(self, node: readers.Serializer) -> readers.Serializer:
        if isinstance(node, readers.PojoSerializer):
            found = self._extracted(node.pojo_class)
            if not isinstance(found, readers.PojoSerializer):
                return found or node
            subclasses = [(name, self._extracted(name) or subclass) for name, subclass in node.non_registered]
            return replace(found, non_registered=tuple(subclasses))
        if isinstance(node, readers.EnumSerializer):
            return self._extracted(node.enum_class) or node
        if isinstance(node, readers.KryoSerializer):
            if node.type_class in self.classes:
                return self._extracted(node.type_class) or node
            return self.extractor.kryo(node.type_class)
        if isinstance(node, readers.AvroSerializer) and node.runtime_class in self.classes:
            found = self._extracted(node.runtime_class)
            reflected = self.extractor.extract_reflected(node.runtime_class).serializer
            return found if isinstance(found, readers.AvroSerializer) else reflected or node
        if isinstance(node, readers.ScalaCaseClassSerializer):
            return self._case_class(node)
        return node

    def _case_class(self, node: readers.ScalaCaseClassSerializer) -> readers.Serializer:
        """Return a case class of Scala with the parameters of its constructor; as it is where the jar does not tell."""
        try:
            found = self.classes.find(node.tuple_class)
            if found is None or _PRODUCT not in found.interfaces:
                return node
            constructors = [each.descriptor for each in found.methods if each.name == "<init>"]
            types = max((readers.method_signature(each).parameters for each in constructors), key=len)
        except (readers.ReaderError, ValueError):
            return node
        fields = []
        for index, each in enumerate(types):
            known = (
                self.extractor.extract(each).serializer
                if each.kind == "primitive" or each.name in _PLAIN
                else None
            )
            old = node.fields[index] if len(types) == node.width else None
            if known is None and old is None:
                known = readers.OpaqueSerializer(each.class_name, "its type is told by the compiler of Scala")
            fields.append(known or old or node)
        return replace(node, fields=tuple(fields))

    def _extracted(self, name: str) -> readers.Serializer | None:
        return self.extractor.extract_class(name).serializer if name in self.classes else None


def _is_tried(state: JobState) -> bool:
    """Return whether values of a state may depend on classes whose fields the savepoint does not hold."""
    trees = state.entry.serializers()
    return any(
        isinstance(node, readers.KryoSerializer | readers.PojoSerializer)
        for tree in trees
        for _, node in walk(tree)
    )


def _with_misfits(operators: dict[str, JobOperator], misfits: dict[str, _Misfits]) -> dict[str, JobOperator]:
    """Return operators whose states know that stored values do not fit to the classes of the jar."""
    changed = dict(operators)
    for operator_id, reasons in misfits.items():
        operator = operators.get(operator_id)
        if operator is not None and reasons:
            states = (_with_misfit(state, reasons) for state in operator.states)
            changed[operator_id] = replace(operator, states=tuple(states))
    return changed


def _with_misfit(state: JobState, reasons: _Misfits) -> JobState:
    reason, leaves_bytes = reasons.get((state.name, state.entry.kind), ("", False))
    return replace(state, misfit=reason, leaves_bytes=leaves_bytes)


def _corrected(new: Job, old: Job, declarations: readers.Declarations) -> Job:
    """Return what a savepoint of the new job tells, with what only the code does: ids that are given."""
    operators = dict(new.operators)
    for operator_id in sorted(declarations.uid_hashes & old.operators.keys() - operators.keys()):
        own = {state.name for state in old.operators[operator_id].states}
        alike = [
            each
            for each in new.operators.values()
            if each.operator_id not in old.operators and own <= {state.name for state in each.states}
        ]
        if len(alike) == 1:
            operators[operator_id] = replace(alike[0], operator_id=operator_id)
    return replace(new, operators=operators)


def _is_accumulator(state: JobState) -> bool:
    return state.name == _ACCUMULATORS and state.entry.kind is readers.StateKind.VALUE


def _is_of_flink(name: str) -> bool:
    return name.startswith(_OF_FLINK)


def _avro_array(old: Job) -> readers.KryoRegistration | None:
    """Return what Kryo registered for Avro's arrays in the old job: flink-avro is on the class path of both or of none."""
    for operator in old.operators.values():
        trees = [operator.key, *(tree for state in operator.states for tree in state.entry.serializers())]
        for tree in trees:
            for _, node in walk(tree) if tree is not None else ():
                for each in node.settings.registrations if isinstance(node, readers.KryoSerializer) else ():
                    if each.class_name == _AVRO_ARRAY:
                        return each
    return None
