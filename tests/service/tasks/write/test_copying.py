"""COPY OPERATOR, and states like those of other savepoints: nothing of them changes, and what does not fit is refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from readers import Savepoint, json_text, operator_id_of
from service.cli import main
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers.copies import TakeOperator
from writers.metadata import write_metadata

FLINK = DATA / "flink"
NEW = FLINK / "2.3.0/wordcount-rocksdb-savepoints"
OLD = FLINK / "1.20.3/wordcount-rocksdb-savepoints"
HEAP = FLINK / "2.3.0/wordcount-hashmap-savepoints"
EVERYTHING = FLINK / "2.3.0/everything-rocksdb-savepoints/native"
CHECKPOINT = "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"
AGGREGATE = operator_id_of("aggregate")
Write = Callable[..., tuple[int, str, str]]


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Write:
    """Returns a function that writes `new` from a savepoint and another one: code, output, errors."""

    def written(source: Path, other: Path, script: str, *options: str) -> tuple[int, str, str]:
        named = ["--savepoint", f"other={other}", "--to", str(tmp_path / "new")]
        code = main(["write", str(source), script, *named, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return written


def rows(path: Path, operator_id: str) -> dict[str, list[str]]:
    """All rows of all states of an operator."""
    found = Savepoint(path, roots=[str(path.parent), str(DATA)])
    [operator] = [one for one in found.operators if one.operator_id == operator_id]
    return {
        f"{state.name} {state.kind.value}": sorted(
            text
            for batch in state.read()
            for text in json_text(
                pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            ).to_pylist()
        )
        for state in operator.states
    }


@pytest.mark.parametrize(
    ("source", "other"),
    [
        (NEW / "canonical", FLINK / "2.3.0" / CHECKPOINT),
        (NEW / "native", FLINK / "1.20.3" / CHECKPOINT),
        (OLD / "native", NEW / "canonical"),
        (HEAP / "native", OLD / "canonical"),
    ],
    ids=["native into canonical", "1.20 into 2.3", "2.3 into 1.20", "canonical into hashmap"],
)
def test_an_operator_comes_with_all_of_its_rows(
    source: Path, other: Path, tmp_path: Path, write: Write
) -> None:
    code, _, errors = write(source, other, "DROP TABLE aggregate; COPY OPERATOR other.aggregate")

    assert (code, errors) == (0, "")
    assert rows(tmp_path / "new", AGGREGATE) == rows(other, AGGREGATE)
    for kept in ("source", "mod7-no-uid"):
        known = {one.metadata.uid or one.metadata.name or "": one for one in Savepoint(source).operators}
        if kept in known:
            assert rows(tmp_path / "new", known[kept].operator_id) == rows(source, known[kept].operator_id)


@pytest.mark.parametrize("name", ["kinds", "types", "events", "broadcast", "tumbling-window"])
def test_every_kind_of_state_comes_along(name: str, tmp_path: Path, write: Write) -> None:
    code, output, _ = write(NEW / "canonical", EVERYTHING, f"COPY OPERATOR other.\"{name}\" TO 'copy of it'")

    assert code == 0, output
    assert rows(tmp_path / "new", operator_id_of("copy of it")) == rows(EVERYTHING, operator_id_of(name))


@pytest.mark.parametrize(
    ("source", "other", "uid"),
    [
        (OLD / "native", NEW / "canonical", (None, None)),
        (NEW / "native", NEW / "canonical", ("aggregate", "aggregate")),
        # 1.20 stores the hash of the uid: the statement has the uid.
        (NEW / "native", OLD / "native", ("aggregate", None)),
    ],
    ids=["into 1.20", "within 2.3", "from 1.20"],
)
def test_name_and_uid_are_kept_where_the_version_has_them(
    source: Path, other: Path, uid: tuple[str | None, str | None], tmp_path: Path, write: Write
) -> None:
    assert write(source, other, "DROP TABLE aggregate; COPY OPERATOR other.aggregate")[0] == 0

    metadata = Savepoint(tmp_path / "new").metadata
    assert metadata.version == Savepoint(source).metadata.version
    assert [(one.uid, one.name) for one in metadata.operators if one.operator_id == AGGREGATE] == [uid]


def test_with_a_version_of_flink_names_go(tmp_path: Path, write: Write) -> None:
    script = "DROP TABLE aggregate; COPY OPERATOR other.aggregate TO 'counts'"
    assert write(NEW / "native", NEW / "canonical", script, "--flink", "1.20")[0] == 0

    found = {one.operator_id: one.uid for one in Savepoint(tmp_path / "new").metadata.operators}
    assert found[operator_id_of("counts")] is None


@pytest.mark.parametrize(
    "archive", ["1.20.3-filemerging-rocksdb-chk-3", "1.20.3-changelog-rocksdb-materialized-chk-3"]
)
@pytest.mark.parametrize("files", ["link", "copy", "reference"])
def test_files_come_along_as_the_others_do(archive: str, files: str, tmp_path: Path, write: Write) -> None:
    other = unpacked(archive, tmp_path / "other").directory
    before = {path: path.stat().st_size for path in other.rglob("*") if path.is_file()}

    assert (
        write(OLD / "native", other, "DROP TABLE aggregate; COPY OPERATOR other.aggregate", "--files", files)[
            0
        ]
        == 0
    )

    new = tmp_path / "new"
    links = {os.stat(path).st_nlink > 1 for path in new.iterdir() if path.name != "_metadata"}
    assert links <= {"link": {True, False}, "copy": {False}, "reference": set()}[files]
    assert bool(links) is (files != "reference")
    assert rows(new, AGGREGATE) == rows(other, AGGREGATE)
    assert before == {path: path.stat().st_size for path in other.rglob("*") if path.is_file()}


REFUSED = {
    "an id": ("COPY OPERATOR other.aggregate", "the savepoint has an operator 'aggregate' already (f7c2"),
    "a uid": ("COPY OPERATOR other.aggregate TO 'source'", "the savepoint has an operator 'source' already"),
    "twice": (
        "COPY OPERATOR other.aggregate TO 'a'; COPY OPERATOR other.source TO 'a'",
        "has an operator 'a' already",
    ),
    "of a created one": (
        "CREATE TABLE a__b AS SELECT 'x' AS key, 1 AS value; COPY OPERATOR other.aggregate TO 'a'",
        "expected a new operator, found one with the",
    ),
    "an operator": ("COPY OPERATOR other.nothing", "there is no table 'nothing'"),
    "a savepoint": ("COPY OPERATOR nothing.aggregate", "there is no database 'nothing'"),
    "without one": (
        "COPY OPERATOR aggregate",
        "expected COPY OPERATOR savepoint.operator, found 'aggregate'",
    ),
    "its own": (
        "COPY OPERATOR source.aggregate TO 'a'",
        "expected another savepoint than the one that is written",
    ),
    "no uid": ("COPY OPERATOR other.aggregate TO ''", "expected a uid, found an empty text"),
    "then read": (
        "COPY OPERATOR other.aggregate TO 'a'; DELETE FROM a__count",
        "an earlier statement copies 'a': read or change its states in a script of their own",
    ),
    "then selected": (
        "COPY OPERATOR other.aggregate TO 'a'; DELETE FROM aggregate__count WHERE key IN (SELECT key FROM a__count)",
        "an earlier statement copies 'a'",
    ),
    "words": ("COPY OPERATOR other.aggregate AS 'a'", "expected the end of the statement, found 'AS'"),
    "a state": ("COPY other.aggregate__count", "it copies whole operators: COPY OPERATOR other.operator"),
}


@pytest.mark.parametrize(("script", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_copied_is_refused_by_name(
    script: str, message: str, tmp_path: Path, write: Write
) -> None:
    code, _, errors = write(NEW / "canonical", NEW / "native", script)

    assert code == 1
    assert message in errors
    assert not (tmp_path / "new").exists()


def test_rocksdb_of_flink_1_reads_no_files_of_flink_2(tmp_path: Path, write: Write) -> None:
    for other in (NEW / "native", FLINK / "2.3.0" / CHECKPOINT):
        code, _, errors = write(OLD / "native", other, "COPY OPERATOR other.aggregate TO 'a'")
        assert (code, "aggregate is native state of rocksdb, of Flink 2" in errors) == (1, True), errors
    assert write(OLD / "native", NEW / "canonical", "COPY OPERATOR other.aggregate TO 'a'")[0] == 0


def test_no_backend_reads_two_native_formats(tmp_path: Path, write: Write) -> None:
    script = "DROP TABLE aggregate; COPY OPERATOR other.aggregate"

    code, _, errors = write(HEAP / "native", NEW / "native", script, "--dry-run")

    assert code == 1
    assert (
        "no backend restores the result: aggregate is native state of rocksdb, mod7-no-uid native state of hashmap"
        in errors
    )
    # Written anew, the other operator is canonical.
    own = '; UPDATE "058086c13c6c5a39fabcbe0b8a1b827d__seen" SET value = value + 1'
    code, output, _ = write(HEAP / "native", NEW / "native", script + own)
    assert code == 0
    assert "checked: Flink 2.3.0 with rocksdb restores it with the same values" in output
    assert (
        "warning: aggregate: it is native state of rocksdb: hashmap no longer restores the savepoint"
        in output
    )


def test_check_tells_formats_and_versions_within_one_savepoint(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "DROP TABLE aggregate; COPY OPERATOR other.aggregate"
    assert write(NEW / "native", OLD / "canonical", script)[0] == 0

    assert main(["check", str(tmp_path / "new")]) == 0
    mixed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mixed")]
    assert [line.partition(": operators in several formats")[0] for line in mixed] == [
        "mixed      canonical: aggregate; of Flink 1: aggregate; rocksdb: mod7-no-uid"
    ]
    # One that no job has mixed says nothing of it.
    assert main(["check", str(NEW / "native")]) == 0
    assert "mixed" not in capsys.readouterr().out.replace("mixed-", "")


def test_check_says_that_no_backend_reads_two_native_formats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, other = Savepoint(HEAP / "native"), Savepoint(NEW / "native")
    [operator] = [one for one in other.operators if one.operator_id == AGGREGATE]
    edit = TakeOperator(operator=operator, other=other, uid="second", source=source)
    (tmp_path / "_metadata").write_bytes(write_metadata(edit.applied(source.metadata, source.location)))

    code = main(["check", str(tmp_path), "--format", "json"])

    found = json.loads(capsys.readouterr().out)
    assert (code, found["outcome"]) == (2, "fails")
    assert {one["backend"]: [of["rule"] for of in one["operators"] if of["rule"]] for one in found["backends"].values()} == {
        "hashmap": ["native-two-backends"], "rocksdb": ["native-two-backends"] * 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "archive", "names"),
    [
        (NEW / "native", "1.20.3-objects-canonical", "of Flink 1, and the new savepoint is of Flink 2"),
        (OLD / "native", "2.3.0-objects-canonical", "of Flink 2, and the new savepoint is of Flink 1"),
    ],
    ids=["into 2.3", "into 1.20"],
)
def test_objects_of_another_kryo_are_refused(
    source: Path, archive: str, names: str, tmp_path: Path, write: Write
) -> None:
    other = unpacked(archive, tmp_path / "other").directory

    for script in (
        "COPY OPERATOR other.objects",
        "CREATE TABLE objects__o_uuid (LIKE other.objects__o_uuid) AS SELECT * FROM other.objects__o_uuid",
    ):
        code, _, errors = write(source, other, script)
        assert (code, names in errors) == (1, True), errors
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("archive", ["1.20.3-unaligned-hashmap-chk-1"])
def test_records_in_flight_are_refused(archive: str, tmp_path: Path, write: Write) -> None:
    other = unpacked(archive, tmp_path / "other").directory
    ids = [
        operator.operator_id
        for operator in Savepoint(other).operators
        for subtask in operator.metadata.subtasks
        if any(handle.channels for handle in (*subtask.input_channels, *subtask.result_subpartitions))
    ]

    code, _, errors = write(OLD / "native", other, f"COPY OPERATOR other.\"{ids[0]}\" TO 'a'")

    assert (code, "has records in flight" in errors) == (1, True)


def test_the_target_is_not_in_the_other_savepoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = unpacked("1.20.3-objects-canonical", tmp_path / "other").directory
    named = ["--savepoint", f"other={other}", "--to", str(other / "new")]

    assert main(["write", str(OLD / "native"), "COPY OPERATOR other.objects", *named]) == 1
    assert "expected a place outside of the source" in capsys.readouterr().err
    assert not (other / "new").exists()


# ---- states like others ----

KEYED = {
    "value": "key, value", "list": "key, value, list_index", "map": "key, map_key, value", "reducing": "key, value",
    "aggregating": "key, value", "ttl-value": "key, value, ttl_timestamp",
    "ttl-list": "key, value, list_index, ttl_timestamp", "ttl-map": "key, map_key, value, ttl_timestamp",
}  # fmt: skip


@pytest.mark.parametrize(
    ("backend", "kind"), [("rocksdb", "native"), ("hashmap", "native"), ("hashmap", "canonical")]
)
def test_entries_as_they_are_and_encoded_rows_are_the_same(
    backend: str, kind: str, tmp_path: Path, write: Write
) -> None:
    other = FLINK / f"2.3.0/everything-{backend}-savepoints/{kind}"
    script = "; ".join(
        f'CREATE TABLE "new__{state}" (LIKE other."kinds__{state}") AS '
        f"SELECT * FROM other.\"kinds__{state}\" AS k WHERE k.key <> 'k2'; "
        f'CREATE TABLE "encoded__{state}" (LIKE other."kinds__{state}") WITH (parallelism = 3) AS '
        f"SELECT {columns} FROM other.\"kinds__{state}\" WHERE key <> 'k2'"
        for state, columns in KEYED.items()
    )

    code, output, errors = write(NEW / "canonical", other, script)

    assert (code, errors) == (0, ""), output
    own = rows(other, operator_id_of("kinds"))
    expected = {
        name: sorted(row for row in own[name] if '"key":"k2"' not in row)
        for name in own
        if name.partition(" ")[0] in KEYED
    }
    carried = rows(tmp_path / "new", operator_id_of("new"))
    assert _apart(carried) == _apart(expected)
    assert _apart(rows(tmp_path / "new", operator_id_of("encoded"))) == _apart(expected)
    assert all(expected.values())


def _apart(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Rows without their subtasks, which depend on the parallelism."""
    return {name: [re.sub('"_subtask":[0-9]', "", row) for row in own] for name, own in found.items()}


@pytest.mark.parametrize("state", ["o_plain", "ol_uuid", "o_object", "om_arraylist", "ot_uuid", "o_order"])
def test_entries_need_not_be_decoded(state: str, tmp_path: Path, write: Write) -> None:
    other = unpacked("2.3.0-objects-canonical", tmp_path / "other").directory
    first = "" if state != "ol_uuid" else " OR list_index = 1"
    script = f"CREATE TABLE new__s (LIKE other.objects__{state}) AS SELECT * FROM other.objects__{state} WHERE NOT (key = 'k0'{first})"

    assert write(NEW / "native", other, script)[0] == 0

    known = rows(other, operator_id_of("objects"))
    [own] = [known[name] for name in known if name.partition(" ")[0] == state]
    expected = [row for row in own if '"key":"k0"' not in row and not (first and '"list_index":1' in row)]
    [found] = rows(tmp_path / "new", operator_id_of("new")).values()
    assert (found, len(found) < len(own)) == (expected, True)


UNLIKE = {
    "encoded objects": (
        "AS SELECT key, value FROM other.objects__o_object",
        "an object of Kryo, Java, Protobuf or a recursive Avro type",
    ),
    "other key groups": (
        "WITH (max_parallelism = 64) AS SELECT * FROM other.objects__o_object",
        "takes its entries as they are, with the max_parallelism of other.objects__o_object",
    ),
    "a type": (
        "WITH (value_type = 'Long') AS SELECT * FROM other.objects__o_object",
        "LIKE says what the option value_type says: leave one of them out",
    ),
    "a kind": (
        "WITH (kind = 'MAP') AS SELECT * FROM other.objects__o_object",
        "LIKE says what the option kind says",
    ),
    "a column": (
        "AS SELECT * FROM other.objects__o_object WHERE nothing = 1",
        "there is no column 'nothing'",
    ),
    "a limit": (
        "AS SELECT * FROM other.objects__o_object LIMIT 1",
        "expected the columns key, value in a state",
    ),
}


@pytest.mark.parametrize(("rest", "message"), UNLIKE.values(), ids=UNLIKE)
def test_what_cannot_be_like_another_state_is_refused_by_name(
    rest: str, message: str, tmp_path: Path, write: Write
) -> None:
    other = unpacked("2.3.0-objects-canonical", tmp_path / "other").directory

    code, _, errors = write(
        NEW / "native", other, f"CREATE TABLE new__s (LIKE other.objects__o_object) {rest}"
    )

    assert (code, message in errors) == (1, True), errors
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ("other.kinds", "expected the table of one state"),
        ("other.timers", "expected the table of one state"),
        ("other.StateMeta", "expected the table of one state"),
        ("other.kinds__nothing", "there is no table"),
        ("kinds__value", "expected LIKE savepoint.operator__state"),
    ],
)
def test_like_names_one_state_of_another_savepoint(like: str, message: str, write: Write) -> None:
    script = f"CREATE TABLE new__s (LIKE {like}) AS SELECT * FROM other.kinds__value"

    code, _, errors = write(NEW / "native", EVERYTHING, script, "--dry-run")

    assert (code, message in errors) == (1, True), errors


def test_keys_of_another_type_are_refused(write: Write) -> None:
    script = 'CREATE TABLE "058086c13c6c5a39fabcbe0b8a1b827d__new" (LIKE other.kinds__value) AS SELECT * FROM other.kinds__value'

    code, _, errors = write(NEW / "native", EVERYTHING, script, "--dry-run")

    assert (code, "expected keys of type Int" in errors) == (1, True), errors


# ---- rows of another job ----

OTHER = FLINK / "1.20.3/everything-hashmap-savepoints/native"
_CONTENTS = '"tumbling-window__window-contents"'
MERGED = {
    "value": ("kinds", "kinds__value", "key, value", "SET value = kinds__value.value + excluded.value"),
    "map": ("kinds", "kinds__map", "key, map_key, value", "SET value = coalesce(excluded.value, '') || '+'"),
    "ttl": (
        "kinds",
        '"kinds__ttl-value"',
        "key, value, ttl_timestamp",
        "SET value = \"kinds__ttl-value\".value + excluded.value, ttl_timestamp = excluded.ttl_timestamp",
    ),
    "windows": (
        "tumbling-window",
        _CONTENTS,
        "key, namespace, value",
        f"SET value.f0 = {_CONTENTS}.value.f0 + excluded.value.f0",
    ),
    "timers": ("kinds", "timers", "*", ""),
    "broadcast": ("broadcast", "broadcast__rules", "map_key, value", "SET value = excluded.value"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MERGED)
def test_two_jobs_become_one(kind: str, tmp_path: Path, write: Write) -> None:
    operator, table, columns, change = MERGED[kind]
    key = "map_key" if kind == "broadcast" else "key"
    action = f"UPDATE {change}" if change else "NOTHING"
    listed = "" if columns == "*" else f" ({columns})"
    insert = f"INSERT INTO {table}{listed} SELECT {columns} FROM other.{table}"
    without = f"DELETE FROM {table} WHERE {key} IN ('k1', 'k2')"

    code, _, errors = write(EVERYTHING, OTHER, f"{without}; {insert}", "--dry-run")
    assert (code, "there already" in errors or "found 'k3' twice" in errors) == (1, True), errors

    script = f"{without}; {insert} ON CONFLICT DO {action}"
    assert write(EVERYTHING, OTHER, script, "--allow-empty")[0] == 0

    before, after = (
        _without_access(rows(path, operator_id_of(operator))) for path in (EVERYTHING, tmp_path / "new")
    )
    same = {name for name in before if before[name] == after[name]}
    changed = {
        "value": "value VALUE",
        "map": "map MAP",
        "ttl": "ttl-value VALUE",
        "windows": "window-contents AGGREGATING",
    }
    assert set(before) - same == ({changed[kind]} if kind in changed else set())
    if kind in changed:
        removed = [row for row in before[changed[kind]] if re.search(f'"{key}":"k[12]"', row)]
        # Those that the other job alone has are as they are there; all others are another job's, too.
        assert set(removed) <= set(after[changed[kind]])
        assert set(before[changed[kind]]) - set(after[changed[kind]]) == set(before[changed[kind]]) - set(
            removed
        )
        assert len(after[changed[kind]]) == len(before[changed[kind]])


def _without_access(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Rows without the time of their last access, which differs between the jobs."""
    return {
        name: sorted(re.sub('"ttl_timestamp":"[^"]*"', "", row) for row in own) for name, own in found.items()
    }


def test_elements_of_lists_are_appended(tmp_path: Path, write: Write) -> None:
    insert = (
        "INSERT INTO kinds__list (key, value) SELECT key, value FROM other.kinds__list ORDER BY list_index"
    )

    assert write(EVERYTHING, OTHER, insert)[0] == 0
    [before] = [own for name, own in rows(EVERYTHING, operator_id_of("kinds")).items() if name == "list LIST"]
    [after] = [
        own for name, own in rows(tmp_path / "new", operator_id_of("kinds")).items() if name == "list LIST"
    ]
    assert (set(before) <= set(after), len(after)) == (True, 2 * len(before))

    code, _, errors = write(EVERYTHING, OTHER, f"{insert} ON CONFLICT DO NOTHING", "--dry-run")
    assert (code, "ON CONFLICT needs a key" in errors) == (1, True)
