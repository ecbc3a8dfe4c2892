"""`savepointdb convert`: savepoints of Flink 1.20 that Flink 2.3 refuses, or garbles without a word."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import doctor
from readers import Savepoint, Selection, State, StateKind
from service.cli import main
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA
from tests.support.restoring import RECORDED, Restore
from tests.support.unpacked import unpacked

OLD, NEW = "1.20.3-objects-canonical", "2.3.0-objects-canonical"
BACKENDS = ("hashmap", "rocksdb")
LISTS = ("o_list", "o_set", "o_map", "o_order")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpacked(OLD, tmp_path).directory


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return unpacked(NEW, tmp_path / "new job").directory


def states_of(path: Path) -> dict[str, State]:
    return {
        state.name: state
        for operator in Savepoint(path).operators
        for state in operator.states
        if state.kind is not StateKind.TIMER
    }


def rows_of(state: State, *without: str) -> list[str]:
    rows = [row for batch in state.read() for row in batch.to_pylist()]
    return sorted(repr({name: value for name, value in row.items() if name not in without}) for row in rows)


def entries_of(state: State) -> list[bytes]:
    """The bytes of all entries."""
    found = []
    for part in state.parts:
        for page in part.source.pages(part.name, Selection()):
            starts, ends = page.starts.tolist(), page.ends.tolist()
            found += [bytes(page.data[start[0] : end[-1]]) for start, end in zip(starts, ends, strict=True)]
    return sorted(found)


def convert(source: Path, *options: str) -> int:
    return main(["convert", str(source), *options])


def test_objects_become_what_flink_2_wrote_of_the_same_values(old: Path, new: Path, tmp_path: Path) -> None:
    code = convert(old, "--to", str(tmp_path / "out"), "--flink", "2.3", "--against", str(new))

    converted, expected = states_of(tmp_path / "out"), states_of(new)
    assert code == 0
    assert converted.keys() == expected.keys()
    for name, state in expected.items():
        # Only the time of the last access is another one.
        if name == "ot_uuid":
            assert rows_of(converted[name], "ttl_timestamp") == rows_of(state, "ttl_timestamp")
        else:
            assert entries_of(converted[name]) == entries_of(state), name
    assert Savepoint(tmp_path / "out").metadata.version == 6


@pytest.mark.slow
def test_without_the_new_job_lists_of_unknown_elements_are_left(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(old, "--to", str(tmp_path / "out"), "--json")

    report = json.loads(capsys.readouterr().out)
    before, after = states_of(old), states_of(tmp_path / "out")
    assert code == 1
    assert sorted(one["state_name"] for one in report["left"]) == sorted(LISTS)
    assert all("give the jar of the new job" in one["reason"] for one in report["left"])
    assert "o_uuid" in {one["state_name"] for one in report["converted"]}
    assert entries_of(after["o_list"]) == entries_of(before["o_list"])
    assert report["summary"]["operators"] == 2


def test_what_is_left_fails_a_restore(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(old, "--to", str(tmp_path / "out"), "--flink", "2.3") == 1
    told = capsys.readouterr().out
    report = doctor.check(tmp_path / "out", flink="2.3.0", values=doctor.ValuesCheck(most_entries=None))

    assert "CHECK: Flink 2.3 cannot restore what was left as it is: 4 states" in told
    assert "restore it:" not in told
    assert all(f"› {name}: expected the type of the new job" in told for name in LISTS)
    states = [one for operator in report.operators for one in operator.states]
    failed = {one.state_name: one.message for one in states if one.severity is doctor.Severity.FAILS}
    assert report.outcome is doctor.Outcome.FAILS
    assert sorted(failed) == sorted(LISTS)
    assert all("objects that Kryo 2 of Flink 1.x wrote" in message for message in failed.values())


def test_no_object_of_flink_2_is_taken_for_one_of_kryo_2(new: Path) -> None:
    report = doctor.check(new, flink="2.3.0", values=doctor.ValuesCheck(most_entries=None))

    assert report.outcome is doctor.Outcome.RESTORES


@pytest.mark.slow
def test_the_report_names_the_fields_that_change(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(old, "--dry-run", "--against", str(new))

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert "  value.tags: Kryo<java.util.List> of Kryo 2 → List<String>" in lines
    assert "  value.uuid: Kryo<java.util.UUID> of Kryo 2 → Kryo<java.util.UUID> of Kryo 5" in lines
    assert lines[-1] == "nothing was written: a dry run"
    assert not any("plain_long" in line for line in lines)


@pytest.mark.slow
def test_an_object_of_a_class_without_fields_is_left_with_its_key(
    old: Path, new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "stateInfo").unlink()

    code = convert(old, "--to", str(tmp_path / "out"), "--against", str(new), "--json")

    (left,) = json.loads(capsys.readouterr().out)["left"]
    assert code == 1
    assert left["state_name"] == "o_plain"
    assert left["reason"].startswith("key 'k")
    assert "found savepointdb.restore.ObjectTypes$Plain, whose fields are not known" in left["reason"]
    assert "o_plain" in states_of(tmp_path / "out")


def test_keys_that_are_objects_are_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = unpacked("1.20.3-allstates-hashmap-compressed-canonical", tmp_path).directory

    code = convert(source, "--to", str(tmp_path / "out"), "--json")

    left = json.loads(capsys.readouterr().out)["left"]
    assert code == 1
    assert any("its keys are objects of Kryo" in one["reason"] for one in left)
    assert not (tmp_path / "out").exists()


def test_a_savepoint_of_flink_2_needs_no_conversion(
    new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(new, "--to", str(tmp_path / "out"))

    assert code == 0
    assert capsys.readouterr().out.splitlines() == ["nothing to convert for Flink 2.3.0"]
    assert not (tmp_path / "out").exists()


def test_native_files_need_no_other_backend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"

    code = convert(source, "--to", str(tmp_path / "out"))

    assert code == 0
    assert capsys.readouterr().out.splitlines() == ["nothing to convert for Flink 2.3.0"]


KINDS = DATA / "flink/1.20.3/kinds-hashmap-savepoints/canonical"
TYPES = DATA / "flink/1.20.3/types-hashmap-savepoints/canonical"


def altered(source: Path, target: Path, script: str) -> Path:
    """A savepoint of a job that declares other types."""
    assert main(["write", str(source), script, "--to", str(target)]) == 0
    return target


def test_ttl_is_switched_as_the_new_job_declares_it(tmp_path: Path) -> None:
    script = 'ALTER TABLE kinds__value SET (ttl = true); ALTER TABLE "kinds__ttl-value" SET (ttl = false)'
    job = altered(KINDS, tmp_path / "job", script)

    code = convert(KINDS, "--to", str(tmp_path / "out"), "--flink", "1.20", "--against", str(job))

    converted, before = states_of(tmp_path / "out"), states_of(KINDS)
    assert code == 0
    assert "ttl_timestamp" in converted["value"].schema.names
    assert "ttl_timestamp" not in converted["ttl-value"].schema.names
    for name in ("value", "ttl-value"):
        assert rows_of(converted[name], "ttl_timestamp") == rows_of(before[name], "ttl_timestamp")
    assert Savepoint(tmp_path / "out").metadata.version == 4


@pytest.mark.parametrize("flink", ["1.20", pytest.param("2.3", marks=pytest.mark.slow)])
def test_numbers_get_the_type_that_the_new_job_declares(flink: str, tmp_path: Path) -> None:
    script = "; ".join(
        f"ALTER TABLE types__{column} TYPE BIGINT"
        for column in (
            "v_int ALTER COLUMN value",
            "v_pojo ALTER COLUMN value.age",
            "m_pojo ALTER COLUMN value.age",
        )
    )
    source = unpacked("1.20.3-types-canonical", tmp_path).directory
    job = altered(source, tmp_path / "job", script)

    code = convert(source, "--to", str(tmp_path / "out"), "--flink", flink, "--against", str(job))

    converted, expected = states_of(tmp_path / "out"), states_of(job)
    assert code == 0
    for name in ("v_int", "v_pojo", "m_pojo"):
        assert converted[name].schema == expected[name].schema
        assert entries_of(converted[name]) == entries_of(expected[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--to: expected DIR"),
        (("--to", "x", "--flink", "3"), "--flink: expected a version of Flink"),
    ],
)
def test_a_wrong_command_line_writes_nothing(
    options: tuple[str, ...], message: str, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(old, *options) == 2
    assert message in capsys.readouterr().err


def test_a_target_that_is_there_is_refused(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(old, "--to", str(tmp_path)) == 1
    assert "expected a new directory" in capsys.readouterr().err


@pytest.mark.flink
@pytest.mark.parametrize("backend", BACKENDS)
def test_flink_2_finds_the_values_that_it_wrote_itself(
    backend: str, old: Path, new: Path, tmp_path: Path
) -> None:
    restore = Restore(name="objects", version="2.3.0", backend=backend, source=OLD, script="", job="objects")
    assert convert(old, "--to", str(tmp_path / "out"), "--against", str(new)) == 0

    found = found_by_flink(restore.restored(tmp_path / "out"))

    if os.environ.get("RECORD"):
        text = json.dumps(found_by_flink(restore.restored(new)), indent=1, ensure_ascii=False)
        (RECORDED / f"{restore.id}.json").write_text(text + "\n")
    assert found == restore.recorded


@pytest.mark.flink
@pytest.mark.parametrize("backend", BACKENDS)
def test_flink_2_does_not_find_them_without_the_conversion(backend: str, old: Path, tmp_path: Path) -> None:
    restoring = ("--conf", "states=o_arraylist")
    restore = Restore(
        name="objects",
        version="2.3.0",
        backend=backend,
        source=OLD,
        script="",
        job="objects",
        restoring=restoring,
    )

    if backend == "hashmap":
        with pytest.raises(AssertionError, match="Failed when trying to restore heap backend"):
            restore.restored(old)
    else:
        found = found_by_flink(restore.restored(old))
        # The last element of each list is lost.
        assert found["objects o_arraylist"][0] == '["k0", "List [s0, , ]"]'


def found_by_flink(lines: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The rows of state among the lines of a job, by operator and state."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if "state" in line and line["kind"] != "timer":
            keys = [line["key"], *([line["map_key"]] if "map_key" in line else [])]
            text = json.dumps([*keys, line["value"]], ensure_ascii=False)
            found.setdefault(f"{line['operator']} {line['state']}", []).append(text)
    return {name: sorted(texts) for name, texts in sorted(found.items())}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kryo-no-default-ctor", "kryo-in-list"])
def test_the_jar_of_the_job_gives_the_fields_of_its_own_classes(name: str, tmp_path: Path) -> None:
    pair = unpack_pairs(tmp_path, [name]) / name
    source, jar = pair / "savepoints/A-1.20.3-rocksdb-canonical", pair / "jars/A-1.20.3.jar"

    code = convert(source, "--to", str(tmp_path / "out"), "--jar", str(jar))

    converted = states_of(tmp_path / "out")["s"]
    expected = states_of(pair / "savepoints/A-2.3.0-rocksdb-canonical")["s"]
    assert code == 0
    assert entries_of(converted) == entries_of(expected)


@pytest.mark.parametrize(
    "against",
    ["jars/A-2.3.0.jar", pytest.param("savepoints/A-2.3.0-rocksdb-canonical", marks=pytest.mark.slow)],
)
def test_lists_of_a_pojo_get_the_type_that_the_new_job_has(against: str, tmp_path: Path) -> None:
    pair = unpack_pairs(tmp_path, ["pojo-list-field"]) / "pojo-list-field"
    source = pair / "savepoints/A-1.20.3-rocksdb-canonical"

    code = convert(source, "--to", str(tmp_path / "out"), "--against", str(pair / against))

    converted = states_of(tmp_path / "out")["s"]
    expected = states_of(pair / "savepoints/A-2.3.0-rocksdb-canonical")["s"]
    assert code == 0
    assert entries_of(converted) == entries_of(expected)


def test_a_converted_savepoint_restores_with_equal_values_by_the_check(tmp_path: Path) -> None:
    pair = unpack_pairs(tmp_path, ["kryo-avro-on-cp-pojo"]) / "kryo-avro-on-cp-pojo"
    source, job = (pair / f"savepoints/A-{version}-hashmap-canonical" for version in ("1.20.3", "2.3.0"))
    before = doctor.check(source, against=doctor.against_of([job]))

    code = convert(source, "--to", str(tmp_path / "out"), "--against", str(job))

    after = doctor.check(tmp_path / "out", against=doctor.against_of([job]), values=doctor.ValuesCheck())
    assert code == 0
    assert (before.outcome, before.stage) == (doctor.Outcome.FAILS, doctor.Stage.RESTORE)
    assert (after.outcome, after.loses_data) == (doctor.Outcome.RESTORES, False)


def test_what_fails_for_other_reasons_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = unpack_pairs(tmp_path, ["scala-case-not-declared"]) / "scala-case-not-declared"
    source = pair / "savepoints/A-1.20.3-hashmap-canonical"

    code = convert(source, "--dry-run", "--json")

    left = json.loads(capsys.readouterr().out)["left"]
    assert code == 1
    assert any("ClassNotFoundException" in one["reason"] for one in left)


SQL = "4f0fea56069e128b6efb5cf69722457e__accState"


@pytest.fixture
def sql(tmp_path: Path) -> dict[str, Path]:
    """The savepoint of a GROUP BY; with TTL, by a script; and without it again, by a conversion."""
    source = unpacked("1.20.3-groupagg-canonical", tmp_path).directory
    expiring = altered(source, tmp_path / "on", f'ALTER TABLE "{SQL}" SET (ttl = true)')
    target = tmp_path / "off"
    assert convert(expiring, "--to", str(target), "--flink", "1.20", "--against", str(source)) == 0
    return {"source": source, "on": expiring, "off": target}


def test_ttl_of_sql_state_goes_on_and_off(sql: dict[str, Path]) -> None:
    source, expiring, without = (states_of(path)["accState"] for path in sql.values())

    assert "ttl_timestamp" in expiring.schema.names
    assert rows_of(expiring, "ttl_timestamp") == rows_of(source)
    assert entries_of(without) == entries_of(source)
    headers = [part.parts[0].source.stored_header() for part in (source, without)]
    assert headers[0] is not None
    assert headers[1] is not None
    assert bytes(headers[0].data) == bytes(headers[1].data)


@pytest.mark.flink
@pytest.mark.parametrize("backend", BACKENDS)
def test_flink_goes_on_with_sql_state_whose_ttl_went_on_and_off(backend: str, sql: dict[str, Path]) -> None:
    def restore(*ttl: str) -> Restore:
        return Restore(
            name="sql-ttl",
            version="1.20.3",
            backend=backend,
            source="groupagg-canonical",
            script="",
            job="groupagg",
            restoring=("--probe", "k0,k1,k2,k3,k4,new", *ttl),
        )

    found = {
        "on": sent(restore("--conf", "table.exec.state.ttl=9 d").restored(sql["on"])),
        "off": sent(restore().restored(sql["off"])),
    }

    if os.environ.get("RECORD"):
        (RECORDED / f"{restore().id}.json").write_text(json.dumps(found, indent=1) + "\n")
    assert found["on"] == found["off"]
    assert found == restore().recorded
    with pytest.raises(AssertionError, match="StateMigrationException"):
        restore().restored(sql["on"])


def sent(lines: list[dict[str, Any]]) -> list[str]:
    """The rows that a SQL job sends."""
    rows = (line["row"] for line in lines if line.get("phase") == "output")
    return sorted(f"{row['$row']} {json.dumps(row['fields'])}" for row in rows)
