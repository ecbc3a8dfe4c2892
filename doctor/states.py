"""The stages `restore`, `register`, `access` and `snapshot`: what becomes of each state of an operator.

Flink opens the state files of an operator first, with all serializer snapshots in them, whether the job declares the states or not;
then each state is declared, by name and kind; rocksdb reads values last. A verdict names the first stage that fails.

`required_classes`: the classes that a savepoint names, which Flink loads with the snapshots.

Where the descriptions of both savepoints leave the verdict about a state open, its first values are looked at, at most `_MOST_BYTES` in
either savepoint (`_with_samples`). What is not seen decides nothing: the verdict of the headers stands, with its risk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import ModuleType

import readers
from doctor.job import NO_JAR, Job, JobOperator, JobState
from doctor.report import (
    DROPPED,
    Change,
    Mend,
    RequiredClass,
    Risk,
    Severity,
    Stage,
    StateOutcome,
    StateVerdict,
    max_severity,
)
from doctor.rules import avro, kryo, pojo, types, untold, upgrade
from doctor.rules import states as rules
from doctor.rules.rule import (
    CompareAlike,
    Comparison,
    Context,
    Effect,
    Finding,
    KnownClasses,
    Path,
    Rule,
    Verdict,
    found,
    joined,
    retype,
    risk_of,
    walk,
)

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[\w$]+)*")
# Classes of the JDK, of Flink and of Scala are not in the jar of a job.
_NOT_OF_THE_JOB = ("java.", "javax.", "org.apache.flink.", "scala.", "org.apache.avro.")
_DECLARES = "declares a field"
_ROLES = (
    ("pojo_class", "POJO"),
    ("enum_class", "enum"),
    ("type_class", "Kryo class"),
    ("runtime_class", "Avro class"),
    ("tuple_class", "tuple class"),
    ("component_class", "array component"),
)
_FIRST_WITH_TTL_MIGRATION = 2
_FIRST_WITHOUT_SCALA = 2
_KRYO_5 = 5
_MOST_BYTES = 16 << 10
_OF_KRYO = frozenset({kryo.FIELDS_UNSEEN, kryo.UPGRADE_UNLISTED})
_PATH = ("value",)


def _named_classes(node: readers.Serializer) -> Iterator[tuple[str, str]]:
    """Yield the classes that a node of a type tree names, each with its role."""
    for attribute, role in _ROLES:
        name = getattr(node, attribute, "")
        # Of a Scala collection the snapshot holds source code there.
        if _CLASS_NAME.fullmatch(name):
            yield name, role
    if isinstance(node, readers.OpaqueSerializer) and _CLASS_NAME.fullmatch(node.java_class):
        yield node.java_class, "serializer snapshot"
    if isinstance(node, readers.PojoSerializer):
        for field in node.fields:
            if field.declared_in and not field.hidden:
                yield field.declared_in, _DECLARES
    if isinstance(node, readers.KryoSerializer):
        for registration in node.settings.registrations:
            yield registration.class_name, "registered with Kryo"
            if _CLASS_NAME.fullmatch(registration.serializer):
                yield registration.serializer, "Kryo serializer"


def known_classes(new: Job) -> KnownClasses:
    """Return what the types of the new job, and its jar, tell about its classes."""
    named: set[str] = set()
    pojos: dict[str, readers.PojoSerializer] = {}
    enums: dict[str, readers.EnumSerializer] = {}
    for operator in new.operators.values():
        for tree in _types_of(operator):
            for _, node in walk(tree):
                # A type that was taken from the savepoint shows nothing about the new job.
                if not operator.assumed:
                    named.update(name for name, _ in _named_classes(node))
                if isinstance(node, readers.PojoSerializer):
                    pojos.setdefault(node.pojo_class, node)
                elif isinstance(node, readers.EnumSerializer):
                    enums.setdefault(node.enum_class, node)
    return KnownClasses(named=frozenset(named), pojos=pojos, enums=enums, jar=new.classes)


def required_classes(operator: JobOperator, known: KnownClasses) -> Iterator[RequiredClass]:
    """Yield the classes of the job that the states of an operator name, each once a state and role."""
    roots = [("", operator.key)] if operator.key is not None else []
    roots += [(state.name, tree) for state in operator.states for tree in state.entry.serializers()]
    seen = set()
    for state_name, tree in roots:
        assert tree is not None
        for _, node in walk(tree):
            for name, role in _named_classes(node):
                if (state_name, name, role) in seen or name.startswith(_NOT_OF_THE_JOB):
                    continue
                seen.add((state_name, name, role))
                yield RequiredClass(
                    class_name=name,
                    role=role,
                    operator_id=operator.operator_id,
                    state_name=state_name,
                    exists=known.has(name),
                )


def _types_of(operator: JobOperator) -> Iterator[readers.Serializer]:
    if operator.key is not None:
        yield operator.key
    for state in operator.states:
        yield from state.entry.serializers()


def _with_gone_classes(compared: Comparison, old: JobState, context: Context) -> Comparison:
    """Return the findings about a state with the classes that its first values name, and that no jar has.

    Args:
        compared: what the headers tell.
        old: the state in the savepoint.
        context: what is known beside it.
    """
    is_open = not _OF_KRYO.isdisjoint(finding.rule for finding in compared.findings)
    written = _sample(old) if is_open and context.classes.jar is not NO_JAR else None
    names = written.kryo_classes() if written is not None else frozenset()
    gone = sorted(name for name in names if context.classes.has(name) is False)
    return compared | found(untold.KRYO_CLASS_GONE, _PATH, ", ".join(gone)) if gone else compared


def _with_samples(compared: Comparison, old: JobState, new: JobState, context: Context) -> Comparison:
    """Return the findings about a state; values that settle what they leave open are read.

    Args:
        compared: what the headers tell.
        old: the state in the savepoint.
        new: it in a savepoint of the new job.
        context: what is known beside them.
    """
    rules = {finding.rule for finding in compared.findings}
    if not rules & (_OF_KRYO | {pojo.SUBCLASSES_UNSEEN, upgrade.CEP_PATTERN}):
        return compared
    written, read = _sample(old), _sample(new)
    if written is None or read is None:
        return compared
    for answered, shown in _shown(written, read, rules, context):
        kept = tuple(finding for finding in compared.findings if finding.rule not in answered)
        compared = replace(compared, findings=kept) | shown
    return compared


def _sample(state: JobState) -> readers.ValueSample | None:
    # Who reads the values themselves is told what is wrong with them: here they only add to the headers.
    with suppress(readers.ReaderError):
        return readers.sample_of(state.places, _MOST_BYTES)
    return None


def _shown(
    written: readers.ValueSample, read: readers.ValueSample, rules: set[Rule], context: Context
) -> Iterator[tuple[frozenset[Rule], Comparison]]:
    """Yield the rules that left something open, and what the values show of it."""
    if rules & _OF_KRYO and _is_of_reader(written, read, context):
        name = written.unreadable_class(read)
        if name is not None:
            yield _OF_KRYO, found(untold.KRYO_FIELDS, _PATH, name)
    if pojo.SUBCLASSES_UNSEEN in rules:
        for shown in _subclasses(written, read, context):
            yield frozenset({pojo.SUBCLASSES_UNSEEN}), shown
    if upgrade.CEP_PATTERN in rules:
        gone = _gone_stages(written.stages(), read.stages())
        if gone:
            yield frozenset({upgrade.CEP_PATTERN}), found(untold.CEP_STAGE, _PATH, ", ".join(sorted(gone)))


def _is_of_reader(written: readers.ValueSample, read: readers.ValueSample, context: Context) -> bool:
    """Return whether the new objects are of the Kryo that reads the savepoint, and ids mean the same classes in both."""
    old, new = _kryo_of(written.value), _kryo_of(read.value)
    if old is None or new is None:
        return False
    settings = new.settings
    return (
        settings.version == context.new_kryo
        and [each.class_name for each in settings.registrations]
        == [each.class_name for each in old.settings.registrations]
        # A Kryo serializer of the job's own writes no fields.
        and new.type_class not in settings.serializers
        and not settings.default_serializers
    )


def _kryo_of(value: readers.Serializer) -> readers.KryoSerializer | None:
    """Return the serializer of Kryo that writes a value to its end: it, or the last field of a POJO."""
    tail = (
        value.fields[-1].serializer if isinstance(value, readers.PojoSerializer) and value.fields else value
    )
    return tail if isinstance(tail, readers.KryoSerializer) else None


def _subclasses(
    written: readers.ValueSample, read: readers.ValueSample, context: Context
) -> Iterator[Comparison]:
    described: set[str] = set()
    for sample in (written, read):
        if isinstance(sample.value, readers.PojoSerializer):
            described.update(name for name, _ in sample.value.registered + sample.value.non_registered)
    changed = written.unreadable_subclass(read, described)
    if changed is not None:
        yield found(untold.SUBCLASS_FIELDS, _PATH, changed)
    met = read.subclasses()
    for name in written.subclasses():
        if name in described or name in met:
            continue
        has = context.classes.has(name)
        # As where snapshots list them: a job that has met other subclasses, and not this one, has most likely lost it.
        if has is False or (has is None and met and read.is_whole):
            yield found(
                untold.SUBCLASS_GONE,
                _PATH,
                name if has is False else f"{name}, unless it is still in the jar",
            )


def _gone_stages(old: readers.Stages | None, new: readers.Stages | None) -> frozenset[str]:
    """Return the stages in which old matches begin, and that no match of the new job names.

    A stage may have moved to the second place, so that the new job must have seen more than the first stage.
    """
    if old is None or new is None or not new.first or not new.later:
        return frozenset()
    return old.first - new.first - new.later


def id_of(state: JobState) -> tuple[str, str]:
    """Return the identity of a state in an operator: its space, as Flink keeps states of each apart, and its name."""
    kind = state.entry.kind
    if kind is readers.StateKind.TIMER:
        space = "timers"
    elif state.keyed:
        space = "keyed"
    else:
        space = "broadcast" if kind is readers.StateKind.BROADCAST else "list"
    return space, state.name


def key_findings(old: JobOperator, new: JobOperator | None, context: Context) -> Comparison:
    """Return the findings about the keys of an operator; `new` is None where its types are not known."""
    if old.key is None:
        return Comparison()
    total = _loading(old.key, old.key_classes, context, ("key",))
    written = [
        (path, node) for path, node in walk(old.key, ("key",)) if isinstance(node, readers.KryoSerializer)
    ]
    if context.is_upgrade:
        for path, node in written:
            decoded = kryo.upgraded(node, path)
            if not any(finding.rule is kryo.UPGRADE_SAME for finding in decoded.findings):
                total |= found(kryo.KEY_INVISIBLE, path, node.type_class)
    if new is not None and new.key is not None:
        compared = compare(old.key, new.key, context, ("key",))
        if compared.verdict > Verdict.RECONFIGURED:
            return total | found(rules.KEY_CHANGED, ("key",), f"{old.key.type_name} → {new.key.type_name}")
        total |= compared
    return total


def new_verdict(state: JobState) -> StateVerdict:
    """Return the verdict about a state that only the new job has."""
    return state.verdict(StateOutcome.NEW, message=rules.STATE_NEW.effect, **rules.STATE_NEW.cited)


def state_verdict(old: JobState, new: JobState | None, context: Context, *, assumed: bool) -> StateVerdict:
    """Return the verdict about a state that both jobs have.

    Args:
        old: the state.
        new: it in the new job; None where its types are not known, and taken for unchanged.
        context: what is known beside it.
        assumed: True if what is not known of its new types was taken from the old ones.
    """
    loading = _loading_of(old, context)
    if assumed:
        # A class of a package that is in no jar may be elsewhere on the class path.
        loading |= _needed(old, context, untold.CLASS_UNSEEN)
    compared = _unchanged(old, context) if new is None else _registered(old, new, context)
    values = _decoding(old, context, is_compared=new is not None)
    # Kryo 5 takes other bytes for an error than Kryo 2, by which they were tried: a refused declaration decides.
    is_decided = context.is_upgrade and compared.verdict is Verdict.INCOMPATIBLE
    if new is not None and new.misfit and not is_decided:
        rule = untold.VALUES_LEFT_OVER if new.leaves_bytes else untold.VALUES_MISFIT
        values |= found(rule, ("value",), new.misfit)
    if old.impossible_offset:
        values |= found(rules.OFFSET_IMPOSSIBLE, ("value",), old.impossible_offset)
    total = _with_gone_classes(loading | compared | values, old, context)
    # What fails anyway is not looked at more closely; what was assumed from the savepoint is no second sample.
    if new is not None and not assumed and not _fails(total, context):
        total = _with_samples(total, old, new, context)
    verdict = _verdict(old, total, context, _OUTCOMES[compared.verdict])
    return verdict if new is None or not new.risks else _with_risks(verdict, new.risks)


def _fails(compared: Comparison, context: Context) -> bool:
    effects = (_effect(finding, compared.verdict, context) for finding in compared.findings)
    return any(effect.severity is Severity.FAILS for effect in effects)


def undeclared_verdict(old: JobState, context: Context, *, opened: bool) -> StateVerdict:
    """Return the verdict about a state that the new job does not declare.

    Args:
        old: the state.
        context: what is known beside it.
        opened: False if the operator has no keyed state any more, so that the files are not even opened.
    """
    if not opened:
        return _verdict(old, found(rules.OPERATOR_STATELESS, ()), context, StateOutcome.DROPPED)
    total = _loading_of(old, context)
    # Rocksdb never reads a value of it; hashmap and operator state decode all, with the old serializer.
    if context.decodes_all:
        total |= _decoding(old, context, is_compared=False) | _reassigned(old, context)
    total |= _needed(old, context)
    # Timers that the job no longer sets fire all the same: Flink keeps them in a queue of their own.
    is_lost = old.entry.kind is not readers.StateKind.TIMER
    if is_lost:
        total |= found(rules.NOT_DECLARED, (), old.name, mend=DROPPED)
    return _verdict(old, total, context, StateOutcome.NOT_DECLARED if is_lost else StateOutcome.AS_IS)


def _trees(state: JobState) -> Iterator[tuple[Path, readers.Serializer]]:
    """Yield the type trees of a state, without that of its keys, which belongs to the operator."""
    entry = state.entry
    for name, tree in (("namespace", entry.namespace), ("map_key", entry.map_key), ("value", entry.value)):
        if tree is not None:
            yield (name,), tree


def _nodes(state: JobState) -> Iterator[tuple[Path, readers.Serializer]]:
    for path, tree in _trees(state):
        yield from walk(tree, path)


def _loading_of(state: JobState, context: Context) -> Comparison:
    """Return what fails before any value of a state is read: its snapshots, and the classes that they name."""
    loading = (_loading(tree, frozenset(), context, path) for path, tree in _trees(state))
    return _gone(state.snapshot_classes, context, ()) | joined(loading)


def _loading(
    tree: readers.Serializer, snapshot_classes: Iterable[str], context: Context, path: Path
) -> Comparison:
    total = _gone(snapshot_classes, context, path)
    for at, node in walk(tree, path):
        # A class that only declared a field is not loaded for it: the field counts as removed.
        names = (name for name, role in _named_classes(node) if role != _DECLARES)
        for name in dict.fromkeys(names):
            if context.classes.has(name) is False:
                total |= found(types.CLASS_GONE, at, name, mend=Mend(change=Change.DROP, is_lossy=True))
        if isinstance(node, readers.EnumSerializer):
            changed = types.compare_constants(node, _enum_now(node, context), at)
            if changed.verdict is Verdict.INCOMPATIBLE:
                total |= changed
        if isinstance(node, readers.KryoSerializer):
            total |= kryo.unloadable(node, context, at)
        total |= upgrade.old_type(node, context.flink, at)
        if context.is_upgrade:
            total |= upgrade.gone_connector(node, at)
    return total


def _enum_now(enum: readers.EnumSerializer, context: Context) -> readers.EnumSerializer:
    """Return an enum as the new job has it, by a type that it declares or by its jar; as it was where neither tells."""
    known = context.classes.enums.get(enum.enum_class)
    constants = context.classes.jar.constants(enum.enum_class) if known is None else None
    return known or (enum if constants is None else replace(enum, constants=constants))


def _gone(snapshot_classes: Iterable[str], context: Context, path: Path) -> Comparison:
    flink, total = context.flink, Comparison()
    for name in sorted(snapshot_classes):
        total |= upgrade.old_snapshot(name, flink, path)
        if upgrade.is_gone(name) and flink.major >= _FIRST_WITHOUT_SCALA:
            total |= found(upgrade.SNAPSHOT_GONE, path, name)
    return total


def _needed(state: JobState, context: Context, rule: Rule = types.CLASS_GONE) -> Comparison:
    """Return the classes of a state that no type of the new job names, and that no jar shows."""
    names = {name: path for path, node in _nodes(state) for name, _ in _named_classes(node)}
    # What no type of the new job names is seldom left in its jar.
    return joined(
        found(rule, path, f"{name}, unless it is still in the jar" if rule is types.CLASS_GONE else name)
        for name, path in names.items()
        if not name.startswith(_NOT_OF_THE_JOB) and context.classes.has(name) is None
    )


def _reassigned(state: JobState, context: Context) -> Comparison:
    """Return what fails when values of a state are decoded into classes that have changed."""
    total = Comparison()
    for path, node in _nodes(state):
        now = context.classes.pojos.get(node.pojo_class) if isinstance(node, readers.PojoSerializer) else None
        if now is not None:
            failing = (pojo.FIELD_RETYPED, pojo.COMPONENT_REMOVED, pojo.FIELD_DETACHED)
            met = compare(node, now, context, path).findings
            total |= Comparison(findings=tuple(finding for finding in met if finding.rule in failing))
    return total


def _decoding(state: JobState, context: Context, *, is_compared: bool) -> Comparison:
    """Return what becomes of values of Kryo, and of types whose meaning the snapshot does not hold."""
    total = Comparison()
    for path, node in _nodes(state):
        if isinstance(node, readers.KryoSerializer):
            if context.is_upgrade:
                total |= kryo.upgraded(node, path)
            else:
                total |= kryo.zoned(node, path) if context.old_kryo < _KRYO_5 else kryo.refilled(node, path)
        elif is_compared and node.java_class.endswith(".NFAStateSerializer"):
            total |= found(upgrade.CEP_PATTERN, path)
        elif is_compared and node.java_class.endswith(".RowDataSerializer"):
            total |= found(upgrade.SQL_MEANING, path)
    return total


def _unchanged(old: JobState, context: Context) -> Comparison:
    """Return what an upgrade of Flink does to a state whose declaration stays."""
    total = joined(compare(tree, tree, context, path) for path, tree in _trees(old))
    # What changes of the job might do is not asked where no job is given.
    told = (finding for finding in total.findings if finding.rule.backends.heap.severity is not Severity.RISK)
    total = replace(total, findings=tuple(told))
    if not context.is_upgrade:
        return total
    for path, node in _nodes(old):
        if not isinstance(node, readers.PojoSerializer):
            continue
        for field in node.fields:
            held = field.serializer
            if isinstance(held, readers.KryoSerializer) and held.type_class in kryo.COLLECTION_FIELDS:
                total |= found(kryo.UPGRADE_COLLECTION_FIELD, (*path, field.name), held.type_class)
    return total


def _registered(old: JobState, new: JobState, context: Context) -> Comparison:
    """Compare the declarations of a state."""
    before, after = old.entry, new.entry
    if before.kind is not after.kind:
        rule = rules.KIND_CHANGED if old.keyed else rules.MODE_CHANGED
        return found(rule, (), f"{before.kind.value} → {after.kind.value}")
    if before.kind is readers.StateKind.TIMER:
        return _timers(old, new, context)
    total = found(rules.STATE_API, ()) if old.is_v2 != new.is_v2 else Comparison()
    if before.namespace is not None and after.namespace is not None:
        compared = compare(before.namespace, after.namespace, context, ("namespace",))
        total |= compared
        if compared.verdict > Verdict.RECONFIGURED:
            detail = f"{before.namespace.type_name} → {after.namespace.type_name}"
            return total | found(rules.NAMESPACE_CHANGED, ("namespace",), detail)
    if before.map_key is not None and after.map_key is not None:
        compared = compare(before.map_key, after.map_key, context, ("map_key",))
        total |= compared
        if compared.verdict is Verdict.MIGRATION:
            total |= found(rules.MAP_KEY_MIGRATED, ("map_key",), before.map_key.type_name)
    if before.value is not None and after.value is not None:
        total |= _values(before.value, after.value, context)
    return total


def _timers(old: JobState, new: JobState, context: Context) -> Comparison:
    total = Comparison()
    for name in ("key", "namespace"):
        before, after = getattr(old.entry, name), getattr(new.entry, name)
        if before is not None and after is not None:
            compared = compare(before, after, context, (name,))
            total |= Comparison(verdict=min(compared.verdict, Verdict.MIGRATION))
            if compared.verdict is Verdict.INCOMPATIBLE:
                total |= found(rules.TIMERS_CHANGED, (name,), f"{before.type_name} → {after.type_name}")
    return total


def _values(before: readers.Serializer, after: readers.Serializer, context: Context) -> Comparison:
    switched = isinstance(before, readers.TtlSerializer) != isinstance(after, readers.TtlSerializer)
    inner = [tree.value if isinstance(tree, readers.TtlSerializer) else tree for tree in (before, after)]
    compared = compare(inner[0], inner[1], context, ("value",))
    if not switched:
        return compared
    rule = rules.TTL_2 if context.flink.major >= _FIRST_WITH_TTL_MIGRATION else rules.TTL_1
    is_on = isinstance(after, readers.TtlSerializer)
    mend = Mend(change=Change.TTL, value=str(is_on).lower())
    return compared | found(rule, ("value",), "on" if is_on else "off", mend=mend)


def _verdict(state: JobState, compared: Comparison, context: Context, outcome: StateOutcome) -> StateVerdict:
    """Return the verdict that the findings about a state add up to."""
    effects = [(finding, _effect(finding, compared.verdict, context)) for finding in compared.findings]
    ranked = sorted(effects, key=lambda pair: _rank(pair[1]))
    decides, effect = next(
        ((finding, effect) for finding, effect in ranked if effect.severity not in _WEAK), (None, None)
    )
    # What merely differs is shown too, if nothing worse is.
    shown = decides or next((finding for finding, effect in ranked if effect.severity is Severity.FINE), None)
    risks = tuple(
        dict.fromkeys(risk_of(finding, effect) for finding, effect in ranked if effect.severity in _RISKS)
    )
    return state.verdict(
        (effect.outcome if effect else None) or outcome,
        stage=effect.stage if effect else None,
        changes_values=any(effect.severity is Severity.LOSES for _, effect in effects)
        and (effect is None or effect.stage is None),
        field_path=".".join(shown.path) if shown and shown.path else None,
        message=shown.message if shown else "",
        severity=effect.severity if effect else max_severity(risks),
        risks=risks,
        mends=mends_of(finding for finding, effect in ranked if effect.severity in _MENDED),
        **(shown.rule.cited if shown else {}),
    )


def mends_of(findings: Iterable[Finding]) -> tuple[Mend, ...]:
    """Return the changes that mend findings, each once: that of a whole type covers those of its parts."""
    known = list(dict.fromkeys(one.mend for one in findings if one.mend is not None))
    if DROPPED in known:
        return (DROPPED,)
    whole = {one.path for one in known if one.change is Change.RETYPE}
    # The new type no longer names a class that is gone.
    known = [one for one in known if not (whole and one.is_lossy)]
    return tuple(one for one in known if not any(one.path[:end] in whole for end in range(len(one.path))))


def _with_risks(verdict: StateVerdict, risks: tuple[Risk, ...]) -> StateVerdict:
    """Return a verdict that rests on what is not known for certain."""
    every = verdict.risks + risks
    severity = max_severity(every) if verdict.severity in _WEAK else verdict.severity
    return replace(verdict, risks=every, severity=severity)


def _effect(finding: Finding, verdict: Verdict, context: Context) -> Effect:
    effect = finding.rule.effect_in(heap=context.decodes_all)
    # Rocksdb reads every value when it migrates, which is while the state is declared.
    if effect.stage is Stage.ACCESS and verdict >= Verdict.MIGRATION:
        return replace(effect, stage=Stage.REGISTER, outcome=StateOutcome.INCOMPATIBLE)
    return effect


def _rank(effect: Effect) -> tuple[int, int]:
    return _RANK.index(effect.severity), effect.stage.order if effect.stage else 0


# What is not known comes before what is lost: it may be worse.
_RANK = (Severity.FAILS, Severity.UNKNOWN, Severity.LOSES, Severity.DOUBT, Severity.RISK, Severity.FINE)
_MENDED = frozenset({Severity.FAILS, Severity.LOSES})
_RISKS = frozenset({Severity.DOUBT, Severity.RISK})
_WEAK = _RISKS | {Severity.FINE}
_OUTCOMES = {
    Verdict.AS_IS: StateOutcome.AS_IS,
    Verdict.RECONFIGURED: StateOutcome.RECONFIGURED,
    Verdict.MIGRATION: StateOutcome.MIGRATED,
    Verdict.INCOMPATIBLE: StateOutcome.INCOMPATIBLE,
}


def compare(old: readers.Serializer, new: readers.Serializer, context: Context, path: Path) -> Comparison:
    """Compare the type of a savepoint with that of the new job."""
    if isinstance(old, readers.OpaqueSerializer) or isinstance(new, readers.OpaqueSerializer):
        return types.compare_own(old, new, context, path)
    if type(old) is not type(new):
        return _other_type(old, new, context, path)
    return _COMPARISONS.get(type(old), types.same_class)(old, new, context, path)


def _other_type(old: readers.Serializer, new: readers.Serializer, context: Context, path: Path) -> Comparison:
    detail = f"{old.type_name} → {new.type_name}"
    if (
        isinstance(old, readers.PojoSerializer)
        and isinstance(new, readers.KryoSerializer)
        and old.pojo_class == new.type_class
    ):
        is_made = context.classes.jar.constructs(old.pojo_class)
        return found(pojo.POJO_TO_KRYO_READABLE if is_made else pojo.POJO_TO_KRYO, path, detail)
    if isinstance(old, readers.PojoSerializer) or isinstance(new, readers.PojoSerializer):
        return found(pojo.POJO_TO_OTHER, path, detail)
    return found(types.TYPE_CHANGED, path, detail, mend=retype(path, new))


_COMPARISONS: dict[type[readers.Serializer], CompareAlike] = {
    **types.COMPARISONS,
    readers.PojoSerializer: pojo.compare_pojos,
    readers.KryoSerializer: kryo.compare_kryo,
    readers.AvroSerializer: avro.compare_avro,
    readers.ScalaCaseClassSerializer: types.compare_case_classes,
}


def _rules_of(module: ModuleType, *ids: str) -> tuple[Rule, ...]:
    rules = (rule for rule in vars(module).values() if isinstance(rule, Rule))
    return tuple(rule for rule in rules if rule.id.startswith(ids or ("",)))


FAMILIES = {
    "job graph, states, keys, TTL": _rules_of(rules),
    "types, case classes of Scala": _rules_of(types),
    "POJOs and records": _rules_of(pojo),
    "Kryo": _rules_of(kryo),
    "Avro": _rules_of(avro),
    "jars": _rules_of(untold, "jar-"),
    "plans, stateInfo": _rules_of(untold, "plan-", "state-info-"),
    "upgrades, SQL, CEP": _rules_of(upgrade),
    "the first stored values": _rules_of(untold, "sample-"),
    "stored values (`--values`)": _rules_of(untold, "values-"),
}
"""Title, as the documentation shows it → the rules of one family: those that its module names, or those of them whose ids begin so."""
