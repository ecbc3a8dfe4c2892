"""A bounded look at stored values: what the snapshots of both savepoints leave open, and their first values show.

Only states are looked at whose verdict the descriptions leave open, and at most `MOST_BYTES` of each in either savepoint. What is not
seen decides nothing: the verdict of the headers stands, with its risk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from doctor.jarclasses import NO_JAR
from doctor.job import JobState
from doctor.rules.context import Comparison, Context, found
from doctor.rules.kryo import FIELDS_UNSEEN, UPGRADE_UNLISTED
from doctor.rules.pojo import SUBCLASSES_UNSEEN
from doctor.rules.rule import Rule
from doctor.rules.samples import CEP_STAGE, KRYO_CLASS_GONE, KRYO_FIELDS, SUBCLASS_FIELDS, SUBCLASS_GONE
from doctor.rules.upgrade import CEP_PATTERN
from readers import KryoSerializer, PojoSerializer, ReaderError, Serializer, Stages, ValueSample, sample_of

MOST_BYTES = 16 << 10
_OF_KRYO = frozenset({FIELDS_UNSEEN, UPGRADE_UNLISTED})
_PATH = ("value",)


def with_gone_classes(compared: Comparison, old: JobState, context: Context) -> Comparison:
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
    return compared | found(KRYO_CLASS_GONE, _PATH, ", ".join(gone)) if gone else compared


def with_samples(compared: Comparison, old: JobState, new: JobState, context: Context) -> Comparison:
    """Return the findings about a state; values that settle what they leave open are read.

    Args:
        compared: what the headers tell.
        old: the state in the savepoint.
        new: it in a savepoint of the new job.
        context: what is known beside them.
    """
    rules = {finding.rule for finding in compared.findings}
    if not rules & (_OF_KRYO | {SUBCLASSES_UNSEEN, CEP_PATTERN}):
        return compared
    written, read = _sample(old), _sample(new)
    if written is None or read is None:
        return compared
    for answered, shown in _shown(written, read, rules, context):
        kept = tuple(finding for finding in compared.findings if finding.rule not in answered)
        compared = replace(compared, findings=kept) | shown
    return compared


def _sample(state: JobState) -> ValueSample | None:
    # Who reads the values themselves is told what is wrong with them: here they only add to the headers.
    with suppress(ReaderError):
        return sample_of(state.places, MOST_BYTES)
    return None


def _shown(
    written: ValueSample, read: ValueSample, rules: set[Rule], context: Context
) -> Iterator[tuple[frozenset[Rule], Comparison]]:
    """Yield the rules that left something open, and what the values show of it."""
    if rules & _OF_KRYO and _is_of_reader(written, read, context):
        name = written.unreadable_class(read)
        if name is not None:
            yield _OF_KRYO, found(KRYO_FIELDS, _PATH, name)
    if SUBCLASSES_UNSEEN in rules:
        for shown in _subclasses(written, read, context):
            yield frozenset({SUBCLASSES_UNSEEN}), shown
    if CEP_PATTERN in rules:
        gone = _gone_stages(written.stages(), read.stages())
        if gone:
            yield frozenset({CEP_PATTERN}), found(CEP_STAGE, _PATH, ", ".join(sorted(gone)))


def _is_of_reader(written: ValueSample, read: ValueSample, context: Context) -> bool:
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


def _kryo_of(value: Serializer) -> KryoSerializer | None:
    """Return the serializer of Kryo that writes a value to its end: it, or the last field of a POJO."""
    tail = value.fields[-1].serializer if isinstance(value, PojoSerializer) and value.fields else value
    return tail if isinstance(tail, KryoSerializer) else None


def _subclasses(written: ValueSample, read: ValueSample, context: Context) -> Iterator[Comparison]:
    described: set[str] = set()
    for sample in (written, read):
        if isinstance(sample.value, PojoSerializer):
            described.update(name for name, _ in sample.value.registered + sample.value.non_registered)
    changed = written.unreadable_subclass(read, described)
    if changed is not None:
        yield found(SUBCLASS_FIELDS, _PATH, changed)
    met = read.subclasses()
    for name in written.subclasses():
        if name in described or name in met:
            continue
        has = context.classes.has(name)
        # As where snapshots list them: a job that has met other subclasses, and not this one, has most likely lost it.
        if has is False or (has is None and met and read.is_whole):
            yield found(
                SUBCLASS_GONE, _PATH, name if has is False else f"{name}, unless it is still in the jar"
            )


def _gone_stages(old: Stages | None, new: Stages | None) -> frozenset[str]:
    """Return the stages in which old matches begin, and that no match of the new job names.

    A stage may have moved to the second place, so that the new job must have seen more than the first stage.
    """
    if old is None or new is None or not new.first or not new.later:
        return frozenset()
    return old.first - new.first - new.later
