"""Tables of the documentation, made from the registries. `python -m tools.support PAGE…` writes them between their markers.

types × versions      the families of `registry`, and the serializers of `legacy` for versions before 1.8
backends × versions   the classes of sources in the table of openers
_metadata             `DIALECTS` and the tables of state handles
rules                 the tables of rules of the doctor
functions             those of Flink's dialect, by the tables of `service.query.sql.flink.calls`
stateinfo             the members of `stateInfo`, by its JSON schema
options               those of a URL, by its scheme
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from doctor import RULES, Effect
from readers.formats.changelog.source import ChangelogSource
from readers.formats.channelstate import ChannelSource
from readers.formats.full.source import FullSource
from readers.formats.heap.source import HeapSource
from readers.formats.opener import openers
from readers.formats.operatorstate import BytesSource, OperatorSource
from readers.formats.rawtimers import RawTimerSource
from readers.formats.rocksdb.source import RocksSource
from readers.formats.source import Source
from readers.metadata import handles, reader
from readers.snapshots import reading
from readers.snapshots.java import JAVA_SERIALIZERS, PLAIN_SERIALIZERS
from readers.snapshots.legacy import CONFIG_SNAPSHOTS
from readers.storage.schemes import OPTIONS
from service.query.sql.translation.flink import REWRITTEN, SAME

_AFFIXES = re.compile(r"(?:Serializer)?(?:Config)?(?:Snapshot(?:V2)?)?$")


def support(name: str) -> str:
    """Return the tables of a name of `TABLES`, as Markdown."""
    return "\n".join([*TABLES[name](), ""])


def with_support(text: str) -> str:
    """Return a page with the tables between its markers: `<!-- types -->` to `<!-- /types -->`, and so on.

    Raises:
        ValueError: the page has no markers, or one that is not closed.
    """
    names = re.findall(r"^<!-- (\w+) -->$", text, re.MULTILINE)
    known = [name for name in names if name in TABLES]
    if not known:
        raise ValueError(f"expected markers of {', '.join(TABLES)}, found none")
    for name in known:
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not end:
            raise ValueError(f"expected the marker <!-- /{name} -->, found none")
        text = before + begin + support(name) + end + after
    return text


def _types() -> Iterable[str]:
    yield "| types | Flink 1.8 – 2.3 | Flink 1.3 – 1.7 |"
    yield "|---|---|---|"
    for title, snapshots in reading.families():
        names = list(dict.fromkeys(map(_type_name, snapshots)))
        old = [name for name in names if name in _LEGACY]
        before = "all" if old == names else ", ".join(old) or "–"
        yield f"| {title} | {', '.join(names)} | {before} |"
    yield ""
    yield "–: not in those versions, or shown as bytes. Classes that are not known are named, and shown as bytes."


def _type_name(class_name: str) -> str:
    """Return the name of a type: `….ListSerializerSnapshot` → `List`."""
    simple = class_name.rsplit(".", 1)[-1].split("$", 1)[0]
    name = _AFFIXES.sub("", simple)
    if name.endswith("PrimitiveArray"):
        return name.removesuffix("PrimitiveArray").lower() + "[]"
    return SHOWN.get(name, name)


def _state_files() -> Iterable[str]:
    yield "| state of | Flink |"
    yield "|---|---|"
    for title, versions in BACKENDS.values():
        yield f"| {title} | {versions} |"


def _metadata() -> Iterable[str]:
    yield "| `_metadata` | written by Flink |"
    yield "|---|---|"
    written = {row[0]: row[1] for row in _table(reader.__doc__, "version")}
    for number in reader.DIALECTS:
        yield f"| version {number} | {written[str(number)]} |"


def _handles() -> Iterable[str]:
    yield "| since Flink | state handles |"
    yield "|---|---|"
    # The docstrings have the versions; the tables of handles have what is really read.
    known = {*handles.STREAM_STATE_HANDLES, *handles.KEYED_STATE_HANDLES, *handles.OPERATOR_STATE_HANDLES}
    since: dict[str, list[str]] = {}
    for tag, name, version, *_ in _table(handles.__doc__, "tag"):
        if int(tag) in known:
            since.setdefault(version, []).append(name.removesuffix("_HANDLE").lower().replace("_", " "))
    yield from (f"| {version} | {', '.join(names)} |" for version, names in since.items())


def _table(docstring: str | None, first: str) -> Iterable[list[str]]:
    """Yield the rows of the table in a docstring whose first column has the title `first`."""
    lines = iter((docstring or "").splitlines())
    for line in lines:
        if line.startswith(f"| {first} |"):
            next(lines)
            break
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


BACKENDS: dict[type[Source], tuple[str, str]] = {
    HeapSource: ("hashmap, native (also `filesystem`, `memory`)", "1.2 – 2.3"),
    FullSource: ("canonical savepoints of any backend, full checkpoints of RocksDB", "1.2 – 2.3"),
    RocksSource: ("RocksDB, incremental and native; ForSt", "1.3 – 2.3; 2.0 – 2.3"),
    ChangelogSource: ("the changelog of any backend, materialized or not", "1.14 – 2.3"),
    RawTimerSource: ("timers on the heap", "1.2 – 2.3"),
    OperatorSource: ("operator, union and broadcast state", "1.2 – 2.3"),
    ChannelSource: ("records in flight of unaligned checkpoints", "1.11 – 2.3"),
    BytesSource: ("coordinators, hooks of the job manager, raw state: as bytes", "1.2 – 2.3"),
}
"""Class of source → what it reads, and the versions of Flink that write it."""

SHOWN = {
    "BigDec": "BigDecimal",
    "BigInt": "BigInteger",
    "Collection": "List",
    "CompositeSerializer": "TTL",
    "Composite": "TTL",
    "CoGroupedStreams": "coGroup",
    "DeweyNumber": "Dewey number",
    "IntervalJoinOperator": "interval join",
    "Java": "Java object",
    "JavaEither": "Either",
    "ScalaCaseClass": "case class",
    "CaseClass": "case class",
    "Tuple2CaseClass": "case class",
    "ScalaEither": "Either",
    "ScalaEnum": "Enumeration",
    "ScalaOption": "Option",
    "ScalaTry": "Try",
    "StringArray": "String[]",
    "TtlStateFactory": "TTL",
}
"""Name in a class → name of the type, where they differ."""

_LEGACY = frozenset(
    map(
        _type_name,
        (
            *CONFIG_SNAPSHOTS,
            *JAVA_SERIALIZERS,
            *PLAIN_SERIALIZERS,
            *(
                name
                for _, snapshots in reading.families()
                for name in snapshots
                if name.endswith("ConfigSnapshot")
            ),
        ),
    )
)


def _rules() -> Iterable[str]:
    for family, rules in RULES.items():
        yield from ("", f"### {family[0].upper()}{family[1:]}", "")
        yield "| change | hashmap | rocksdb | what happens | what to do | shown by |"
        yield "|---|---|---|---|---|---|"
        for rule in rules:
            happens = f"{rule.effect}: `{rule.flink}`" if rule.flink else rule.effect
            evidence = ", ".join(f"`{name}`" if "." in name else name for name in rule.evidence)
            cells = (
                rule.change,
                _shown(rule.backends.heap),
                _shown(rule.effect_in(heap=False)),
                happens,
                rule.remedy,
                evidence,
            )
            yield f"| {' | '.join(cells)} |"


def _shown(effect: Effect) -> str:
    """Return an effect in a cell: `fails: restore`, `loses`, `fine`."""
    return f"{effect.severity.value}: {effect.stage.value}" if effect.stage else effect.severity.value


def _functions() -> Iterable[str]:
    yield "| | functions |"
    yield "|---|---|"
    names = sorted({*REWRITTEN, *SAME, *_PARSED})
    for letter, group in groupby(names, key=lambda name: name[0]):
        yield f"| {letter.upper()} | {', '.join(f'`{name.upper()}`' for name in group)} |"


def _stateinfo() -> Iterable[str]:
    schema = (files("readers.stateinfo") / "stateinfo.schema.json").read_text(encoding="utf-8")
    yield "| object | member | meaning |"
    yield "|---|---|---|"
    for name, described in json.loads(schema)["$defs"].items():
        for member, one in described.get("properties", {}).items():
            meaning = one.get("description", "")
            if member in described["required"]:
                meaning = f"{meaning} Required.".lstrip()
            yield f"| {name} | `{member}` | {meaning} |"


def _options() -> Iterable[str]:
    yield "| scheme | options |"
    yield "|---|---|"
    for names, schemes in _by_options().items():
        yield f"| {', '.join(f'`{scheme}`' for scheme in schemes)} | {', '.join(f'`{name}`' for name in names)} |"


def _by_options() -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for scheme, options in OPTIONS.items():
        if options:
            found.setdefault(tuple(sorted(options)), []).append(scheme)
    return found


_PARSED = ("extract", "listagg", "trim")
"""Functions with a grammar of their own, which the parser knows."""

TABLES: dict[str, Callable[[], Iterable[str]]] = {
    "types": _types,
    "files": _state_files,
    "metadata": _metadata,
    "handles": _handles,
    "rules": _rules,
    "functions": _functions,
    "stateinfo": _stateinfo,
    "options": _options,
}
"""Name of the markers in a page → the lines of the table between them."""


def main(paths: list[str]) -> int:
    """Write the tables into pages; return the exit code."""
    for path in map(Path, paths):
        path.write_text(with_support(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def uncovered() -> set[str]:
    """Return the classes of sources that have no row, or a row and no opener: none of either."""
    sources = {source for opener in openers() for source in opener.sources}
    return {source.__name__ for source in sources ^ set(BACKENDS)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
