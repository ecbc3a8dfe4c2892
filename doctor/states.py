"""The stages `restore`, `register`, `access` and `snapshot`: what becomes of each state of an operator.

Flink opens the state files of an operator first, with all serializer snapshots in them, whether the job declares the states or not;
then each state is declared, by name and kind; rocksdb reads values last. A verdict names the first stage that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from doctor.job import JobOperator, JobState
from doctor.report import Risk, Severity, Stage, StateOutcome, StateVerdict, max_severity
from doctor.required import DECLARES, NOT_OF_THE_JOB, named_classes
from doctor.rules import kryo, upgrade
from doctor.rules import states as rules
from doctor.rules.comparison import compare
from doctor.rules.context import Comparison, Context, Path, found, joined, walk
from doctor.rules.jar import CLASS_UNSEEN, VALUES_LEFT_OVER, VALUES_MISFIT
from doctor.rules.pojo import COMPONENT_REMOVED, FIELD_DETACHED, FIELD_RETYPED
from doctor.rules.rule import Effect, Finding, Rule, Verdict, risk_of
from doctor.rules.types import CLASS_GONE, compare_constants
from doctor.samples import with_gone_classes, with_samples
from readers import EnumSerializer, KryoSerializer, PojoSerializer, Serializer, StateKind, TtlSerializer

_FIRST_WITH_TTL_MIGRATION = 2
_FIRST_WITHOUT_SCALA = 2
_KRYO_5 = 5


def id_of(state: JobState) -> tuple[str, str]:
    """Return the identity of a state in an operator: its space, as Flink keeps states of each apart, and its name."""
    kind = state.entry.kind
    if kind is StateKind.TIMER:
        space = "timers"
    elif state.keyed:
        space = "keyed"
    else:
        space = "broadcast" if kind is StateKind.BROADCAST else "list"
    return space, state.name


def key_findings(old: JobOperator, new: JobOperator | None, context: Context) -> Comparison:
    """Return the findings about the keys of an operator; `new` is None where its types are not known."""
    if old.key is None:
        return Comparison()
    total = _loading(old.key, old.key_classes, context, ("key",))
    written = [(path, node) for path, node in walk(old.key, ("key",)) if isinstance(node, KryoSerializer)]
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
        loading |= _needed(old, context, CLASS_UNSEEN)
    compared = _unchanged(old, context) if new is None else _registered(old, new, context)
    values = _decoding(old, context, is_compared=new is not None)
    # Kryo 5 takes other bytes for an error than Kryo 2, by which they were tried: a refused declaration decides.
    is_decided = context.is_upgrade and compared.verdict is Verdict.INCOMPATIBLE
    if new is not None and new.misfit and not is_decided:
        rule = VALUES_LEFT_OVER if new.leaves_bytes else VALUES_MISFIT
        values |= found(rule, ("value",), new.misfit)
    if old.impossible_offset:
        values |= found(rules.OFFSET_IMPOSSIBLE, ("value",), old.impossible_offset)
    total = with_gone_classes(loading | compared | values, old, context)
    # What fails anyway is not looked at more closely; what was assumed from the savepoint is no second sample.
    if new is not None and not assumed and not _fails(total, context):
        total = with_samples(total, old, new, context)
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
    is_lost = old.entry.kind is not StateKind.TIMER
    if is_lost:
        total |= found(rules.NOT_DECLARED, (), old.name)
    return _verdict(old, total, context, StateOutcome.NOT_DECLARED if is_lost else StateOutcome.AS_IS)


def _trees(state: JobState) -> Iterator[tuple[Path, Serializer]]:
    """Yield the type trees of a state, without that of its keys, which belongs to the operator."""
    entry = state.entry
    for name, tree in (("namespace", entry.namespace), ("map_key", entry.map_key), ("value", entry.value)):
        if tree is not None:
            yield (name,), tree


def _nodes(state: JobState) -> Iterator[tuple[Path, Serializer]]:
    for path, tree in _trees(state):
        yield from walk(tree, path)


def _loading_of(state: JobState, context: Context) -> Comparison:
    """Return what fails before any value of a state is read: its snapshots, and the classes that they name."""
    loading = (_loading(tree, frozenset(), context, path) for path, tree in _trees(state))
    return _gone(state.snapshot_classes, context, ()) | joined(loading)


def _loading(tree: Serializer, snapshot_classes: Iterable[str], context: Context, path: Path) -> Comparison:
    total = _gone(snapshot_classes, context, path)
    for at, node in walk(tree, path):
        # A class that only declared a field is not loaded for it: the field counts as removed.
        names = (name for name, role in named_classes(node) if role != DECLARES)
        for name in dict.fromkeys(names):
            if context.classes.has(name) is False:
                total |= found(CLASS_GONE, at, name)
        if isinstance(node, EnumSerializer):
            changed = compare_constants(node, _enum_now(node, context), at)
            if changed.verdict is Verdict.INCOMPATIBLE:
                total |= changed
        if isinstance(node, KryoSerializer):
            total |= kryo.unloadable(node, context, at)
        total |= upgrade.old_type(node, context.flink, at)
        if context.is_upgrade:
            total |= upgrade.gone_connector(node, at)
    return total


def _enum_now(enum: EnumSerializer, context: Context) -> EnumSerializer:
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


def _needed(state: JobState, context: Context, rule: Rule = CLASS_GONE) -> Comparison:
    """Return the classes of a state that no type of the new job names, and that no jar shows."""
    names = {name: path for path, node in _nodes(state) for name, _ in named_classes(node)}
    # What no type of the new job names is seldom left in its jar.
    return joined(
        found(rule, path, f"{name}, unless it is still in the jar" if rule is CLASS_GONE else name)
        for name, path in names.items()
        if not name.startswith(NOT_OF_THE_JOB) and context.classes.has(name) is None
    )


def _reassigned(state: JobState, context: Context) -> Comparison:
    """Return what fails when values of a state are decoded into classes that have changed."""
    total = Comparison()
    for path, node in _nodes(state):
        now = context.classes.pojos.get(node.pojo_class) if isinstance(node, PojoSerializer) else None
        if now is not None:
            failing = (FIELD_RETYPED, COMPONENT_REMOVED, FIELD_DETACHED)
            met = compare(node, now, context, path).findings
            total |= Comparison(findings=tuple(finding for finding in met if finding.rule in failing))
    return total


def _decoding(state: JobState, context: Context, *, is_compared: bool) -> Comparison:
    """Return what becomes of values of Kryo, and of types whose meaning the snapshot does not hold."""
    total = Comparison()
    for path, node in _nodes(state):
        if isinstance(node, KryoSerializer):
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
    told = (finding for finding in total.findings if finding.rule.heap.severity is not Severity.RISK)
    total = replace(total, findings=tuple(told))
    if not context.is_upgrade:
        return total
    for path, node in _nodes(old):
        if not isinstance(node, PojoSerializer):
            continue
        for field in node.fields:
            held = field.serializer
            if isinstance(held, KryoSerializer) and held.type_class in kryo.COLLECTION_FIELDS:
                total |= found(kryo.UPGRADE_COLLECTION_FIELD, (*path, field.name), held.type_class)
    return total


def _registered(old: JobState, new: JobState, context: Context) -> Comparison:
    """Compare the declarations of a state."""
    before, after = old.entry, new.entry
    if before.kind is not after.kind:
        rule = rules.KIND_CHANGED if old.keyed else rules.MODE_CHANGED
        return found(rule, (), f"{before.kind.value} → {after.kind.value}")
    if before.kind is StateKind.TIMER:
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


def _values(before: Serializer, after: Serializer, context: Context) -> Comparison:
    switched = isinstance(before, TtlSerializer) != isinstance(after, TtlSerializer)
    inner = [tree.value if isinstance(tree, TtlSerializer) else tree for tree in (before, after)]
    compared = compare(inner[0], inner[1], context, ("value",))
    if not switched:
        return compared
    rule = rules.TTL_2 if context.flink.major >= _FIRST_WITH_TTL_MIGRATION else rules.TTL_1
    return compared | found(rule, ("value",), "on" if isinstance(after, TtlSerializer) else "off")


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
        **(shown.rule.cited if shown else {}),
    )


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
_RISKS = frozenset({Severity.DOUBT, Severity.RISK})
_WEAK = _RISKS | {Severity.FINE}
_OUTCOMES = {
    Verdict.AS_IS: StateOutcome.AS_IS,
    Verdict.RECONFIGURED: StateOutcome.RECONFIGURED,
    Verdict.MIGRATION: StateOutcome.MIGRATED,
    Verdict.INCOMPATIBLE: StateOutcome.INCOMPATIBLE,
}
