"""The `stateInfo` file: read, written, applied to types that it refines and cannot override."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.description import write_state_info
from readers.errors import (
    CorruptDataError,
    MissingFileError,
    ReaderError,
    UnsupportedVersionError,
)
from readers.formats.entry import StateKind
from readers.savepoint import Savepoint
from readers.serializers.kryo.settings import KryoClass
from readers.stateinfo import file as stateinfo
from readers.stateinfo.file import (
    MAX_STATE_INFO_BYTES,
    OperatorInfo,
    PojoSubclass,
    SavepointInfo,
    StateInfo,
    TypeInfo,
    load_state_info,
    read_state_info,
    state_info_text,
)
from readers.stateinfo.plans import PlannedOperator, read_job_plan
from readers.stateinfo.refinement import kryo_of
from readers.states import State
from tests.support.paths import DATA, PROJECT
from tests.support.unpacked import unpacked

EVERYTHING = DATA / "flink" / "1.20.3" / "everything-hashmap-savepoints" / "canonical"
KRYO = DATA / "corpus" / "1.20.3" / "alltypes-hashmap" / "canonical"
SCHEMA = Path(stateinfo.__file__).with_name("stateinfo.schema.json")
STATES_ID = "3681dd"
TYPES_ID = "2db22d"

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
names = st.lists(texts, unique=True, max_size=3).map(tuple)
types = st.builds(TypeInfo, type=st.none() | texts, fields=names)
states = st.builds(
    StateInfo,
    name=texts,
    kind=st.sampled_from(StateKind),
    namespace=st.none() | types,
    map_key=st.none() | types,
    value=st.none() | types,
    ttl=st.none() | st.booleans(),
)
counts = st.none() | st.integers(1, 2**31 - 1)
operators = st.builds(
    OperatorInfo,
    operator_id=st.binary(min_size=16, max_size=16).map(bytes.hex),
    uid=st.none() | texts,
    name=st.none() | texts,
    parallelism=counts,
    max_parallelism=counts,
    key=st.none() | types,
    states=st.lists(states, max_size=3, unique_by=lambda state: (state.name, state.kind)).map(tuple),
)
classes = st.builds(
    KryoClass,
    fields=st.lists(st.tuples(texts, texts), max_size=3, unique_by=lambda field: field[0]).map(tuple),
    constants=names,
    is_final=st.booleans(),
)
subclasses = st.builds(
    PojoSubclass,
    name=texts.map("sub.{}".format),
    extends=texts,
    fields=st.lists(
        st.tuples(texts, st.sampled_from(["Long", "Map<String, List<Integer>>"])),
        max_size=3,
        unique_by=lambda field: field[0],
    ).map(tuple),
)
infos = st.builds(
    SavepointInfo,
    operators=st.lists(operators, max_size=3).map(lambda found: {o.operator_id: o for o in found}),
    classes=st.dictionaries(texts, classes, max_size=3),
    subclasses=st.lists(subclasses, max_size=2, unique_by=lambda subclass: subclass.name).map(tuple),
)


def operator(**members: Any) -> dict[str, Any]:
    return {"version": 1, "operators": [{"id": "0" * 32} | members]}


def state(**members: Any) -> dict[str, Any]:
    return operator(states=[{"name": "count", "kind": "VALUE"} | members])


def subclass(**members: Any) -> dict[str, Any]:
    return {"version": 1, "operators": [], "classes": [{"name": "A", "extends": "B"} | members]}


def read(document: Any) -> SavepointInfo:
    return read_state_info(json.dumps(document).encode())


def state_of(savepoint: Savepoint, name: str) -> State:
    (found,) = (state for operator in savepoint.operators for state in operator.states if state.name == name)
    return found


def described(path: Path, name: str, **members: Any) -> State:
    """Return a state of a savepoint with this stateInfo."""
    plain = state_of(Savepoint(path), name)
    stated = {"name": name, "kind": plain.kind.value} | members
    document = {"version": 1, "operators": [{"id": plain.operator_id, "states": [stated]}]}
    return state_of(Savepoint(path, state_info=read(document)), name)


# ---- reading and writing ----


@given(infos)
def test_what_is_written_is_read(info: SavepointInfo) -> None:
    assert read_state_info(state_info_text(info).encode()) == info


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "member 'version'"),
        ({"operators": []}, "member 'version'"),
        ({"version": "1", "operators": []}, "version"),
        ({"version": True, "operators": []}, "version"),
        ({"version": 1}, "member 'operators'"),
        ({"version": 1, "operators": {}}, "an array"),
        ({"version": 1, "operators": [], "extra": 1}, "no such member"),
        ({"version": 1, "operators": [{"id": "AB" * 16}]}, "32 hex digits"),
        ({"version": 1, "operators": [{"id": "0" * 32}, {"id": "0" * 32}]}, "each name once"),
        (operator(uid=""), "a text"),
        (operator(uid=7), "a text"),
        (operator(parallelism=0), "a positive"),
        (operator(parallelism=1 << 31), "a positive"),
        (operator(parallelism=1.5), "a positive"),
        (operator(key="String"), "an object"),
        (operator(states=[{"name": "a"}]), "member 'kind'"),
        (state(kind="VALUES"), "one of VALUE"),
        (state(kind=["VALUE"]), "one of VALUE"),
        (state(ttl="yes"), "true or false"),
        (state(value={"fields": ["a", "a"]}), "each name once"),
        (state(value={"fields": "ab"}), "an array"),
        (state(value={"fields": ["__row_kind"]}), "other than __row_kind"),
        ({"version": 1, "operators": [], "classes": [{"name": "A", "fields": [{"name": "b"}]}]}, "'type'"),
        (subclass(fields=[{"name": "b", "type": "java.lang.Long"}]), "basic types"),
        (subclass(constants=["ONE"]), "without constants"),
    ],
    ids=str,
)
def test_what_is_not_in_the_format_is_an_error_with_its_place(document: Any, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        read(document)


def test_the_breadcrumbs_lead_to_the_member() -> None:
    with pytest.raises(CorruptDataError) as caught:
        read(state(value={"type": 1}))

    assert caught.value.breadcrumbs == ("stateInfo", "operators", "0", "states", "0", "value", "type")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"version": 1, "version": 1, "operators": []}',
        b'{"version": NaN, "operators": []}',
        b'{"version": ' + b"9" * 5000 + b', "operators": []}',
        b" " * (MAX_STATE_INFO_BYTES + 1),
    ],
    ids=["empty", "not UTF-8", "cut", "deep", "twice", "NaN", "long number", "large"],
)
def test_bad_json_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        read_state_info(data)


def test_a_later_version_is_told() -> None:
    with pytest.raises(UnsupportedVersionError, match="found version 2"):
        read({"version": 2, "something": "else"})


@given(st.data())
def test_damage_ends_in_a_value_or_a_typed_error(data: st.DataObject) -> None:
    text = state_info_text(data.draw(infos)).encode()
    position = data.draw(st.integers(0, len(text) - 1))
    damaged = bytearray(text)
    damaged[position] = data.draw(st.integers(0, 255))

    for broken in (text[:position], bytes(damaged)):
        try:
            read_state_info(broken)
        except ReaderError:
            continue


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        load_state_info(tmp_path / "none")


def test_the_schema_has_the_members_that_are_read() -> None:
    definitions = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]

    for name, (required, optional) in stateinfo.OBJECTS.items():
        assert definitions[name]["required"] == list(required)
        assert set(definitions[name]["properties"]) == {*required, *optional}
        assert definitions[name]["additionalProperties"] is False
    assert definitions["state"]["properties"]["kind"]["enum"] == [kind.value for kind in StateKind]


def test_the_example_of_the_documentation_is_read() -> None:
    text = (PROJECT / "docs" / "reference" / "stateinfo.md").read_text(encoding="utf-8")
    example = text.partition("```json\n")[2].partition("```")[0]

    info = read_state_info(example.encode())

    assert info.classes["com.example.Status"].constants == ("OPEN", "PAID")


# ---- what it refines ----


@pytest.mark.parametrize("name", ["v_tuple3", "v_row"])
def test_fields_get_their_names_and_keep_their_values(name: str) -> None:
    plain, named = (
        state_of(Savepoint(EVERYTHING), name),
        described(EVERYTHING, name, value={"fields": ["x", "y", "z"]}),
    )

    before, after = (
        [list(row["value"].values()) for batch in state.read(["value"]) for row in batch.to_pylist()]
        for state in (plain, named)
    )

    assert [field.name for field in named.schema.field("value").type][:3] == ["x", "y", "z"]
    assert before == after
    assert named.note == ""


def test_a_value_becomes_a_reducing_state() -> None:
    assert described(EVERYTHING, "value", kind="REDUCING").kind is StateKind.REDUCING


def test_the_fields_of_a_class_that_kryo_wrote_make_it_readable() -> None:
    plain = state_of(Savepoint(KRYO), "v_kryo_generic")
    info = read({"version": 1, "operators": [], "classes": [GENERIC]})

    named = state_of(Savepoint(KRYO, state_info=info), "v_kryo_generic")

    assert (plain.status, named.status) == ("raw", "decoded")
    rows = [json.loads(row["value"]) for batch in named.read(["value"]) for row in batch.to_pylist()]
    assert sorted(rows, key=lambda row: row["a"]) == [
        {"@class": "corpus.T$Generic", "a": -1, "b": None, "c": []},
        {"@class": "corpus.T$Generic", "a": 1, "b": "one", "c": ["x", 2]},
    ]


@pytest.mark.parametrize("snapshot", ["canonical", "native"])
def test_a_subclass_that_the_savepoint_does_not_describe_is_read_as_the_file_says(snapshot: str) -> None:
    path = KRYO.with_name(snapshot)
    extra = {"name": "extra", "type": "Integer"}
    described = {"name": "corpus.T$InnerSub", "extends": "corpus.T$Inner", "fields": [extra]}
    info = read({"version": 1, "operators": [], "classes": [described]})

    batches = state_of(Savepoint(path, state_info=info), "v_pojo_inner").read(["key", "value"])

    rows = {row["key"]: row["value"] for batch in batches for row in batch.to_pylist()}
    assert rows["k2"] == {"id": 3, "label": "sub", "extra": 33, "reg": None, "__class": "corpus.T$InnerSub"}
    assert rows["k0"] == {"id": 1, "label": "a", "extra": None, "reg": None, "__class": None}


def test_an_operator_of_an_old_savepoint_gets_its_uid_and_name(tmp_path: Path) -> None:
    path = Path(shutil.copytree(EVERYTHING, tmp_path / "savepoint"))
    operator_id = Savepoint(path).operators[0].operator_id
    info = {"version": 1, "operators": [{"id": operator_id, "uid": "mine", "name": "My operator"}]}
    (path / "stateInfo").write_text(json.dumps(info), encoding="utf-8")

    first = Savepoint(path).operators[0]

    assert (first.metadata.uid, first.metadata.name) == ("mine", "My operator")
    assert first.answers_to("My Operator")


@pytest.mark.parametrize(("version", "kryo"), [(1, 2), (4, 2), (5, 5), (6, 5)])
def test_the_version_of_the_metadata_says_which_kryo_wrote(version: int, kryo: int) -> None:
    assert kryo_of(version) == kryo


def test_the_names_of_a_map_key_leave_the_value_alone(tmp_path: Path) -> None:
    path = unpacked("1.20.3-sql-leftjoin-hashmap-canonical", tmp_path).directory

    named = described(path, "left-records", map_key={"fields": ["id", "k", "d"]})

    assert [field.name for field in named.schema.field("map_key").type] == ["id", "k", "d", "__row_kind"]
    assert [field.name for field in named.schema.field("value").type] == ["f0", "f1"]
    assert sum(batch.num_rows for batch in named.read()) == 20


def test_a_named_key_still_reads_one_key_group(tmp_path: Path) -> None:
    path = unpacked("1.20.3-sql-leftjoin-hashmap-canonical", tmp_path).directory
    operator_id = state_of(Savepoint(path), "left-records").operator_id
    document = {"version": 1, "operators": [{"id": operator_id, "key": {"fields": ["k"]}}]}

    state = state_of(Savepoint(path, state_info=read(document)), "left-records")
    plain = state_of(Savepoint(path), "left-records")

    assert state.key_groups_of([{"k": "k3"}]) is not None
    assert [group for group, _ in state.key_groups_of([{"k": "k3"}]) or ()] == [
        group for group, _ in plain.key_groups_of([{"f0": "k3"}]) or ()
    ]


# ---- what it cannot override ----


@pytest.mark.parametrize(
    ("members", "note"),
    [
        ({"kind": "LIST"}, "expected the kind VALUE"),
        (
            {"value": {"type": "String"}},
            "expected the value type Tuple3<String, Long, Tuple2<Double, Boolean>>",
        ),
        ({"value": {"fields": ["only"]}}, "found names for 1 fields"),
        ({"ttl": True}, "expected values without TTL"),
        ({"namespace": {"type": "TimeWindow"}}, "expected the namespace type VoidNamespace"),
    ],
    ids=str,
)
def test_the_bytes_are_right_where_the_file_contradicts_them(members: dict[str, Any], note: str) -> None:
    plain, contradicted = (
        state_of(Savepoint(EVERYTHING), "v_tuple3"),
        described(EVERYTHING, "v_tuple3", **members),
    )

    assert note in contradicted.note
    assert contradicted.schema == plain.schema
    assert contradicted.status == "decoded"
    assert [batch.to_pylist() for batch in contradicted.read()] == [
        batch.to_pylist() for batch in plain.read()
    ]


def test_a_file_that_cannot_be_used_does_not_hide_the_savepoint(tmp_path: Path) -> None:
    path = Path(shutil.copytree(EVERYTHING, tmp_path / "savepoint"))
    (path / "stateInfo").write_bytes(b"\xac\xed\x00\x05")

    state = state_of(Savepoint(path), "v_long")

    assert "stateInfo: the file is not used: expected JSON" in state.note
    assert sum(batch.num_rows for batch in state.read()) > 0


def test_a_link_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    path = Path(shutil.copytree(EVERYTHING, tmp_path / "savepoint"))
    (tmp_path / "secret").write_text(json.dumps(operator()), encoding="utf-8")
    (path / "stateInfo").symlink_to(tmp_path / "secret")

    assert "not used" in state_of(Savepoint(path), "v_long").note


# ---- written from a savepoint ----


def notes(savepoint: Savepoint) -> list[str]:
    return [state.note for operator in savepoint.operators for state in operator.states if state.note]


def test_the_stateinfo_of_a_savepoint_contradicts_nothing() -> None:
    info = read_state_info(write_state_info(Savepoint(EVERYTHING)).encode())

    savepoint = Savepoint(EVERYTHING, state_info=info)

    # Two states hold objects of a class that the savepoint does not describe, with the file and without.
    assert notes(savepoint) == notes(Savepoint(EVERYTHING))
    assert len(notes(savepoint)) == 2
    operator = next(o for o in info.operators.values() if o.operator_id.startswith(STATES_ID))
    assert operator.key == TypeInfo(type="String")
    assert operator.state("ttl-map", StateKind.MAP) == StateInfo(
        name="ttl-map",
        kind=StateKind.MAP,
        namespace=TypeInfo(type="VoidNamespace"),
        map_key=TypeInfo(type="String"),
        value=TypeInfo(type="Long"),
        ttl=True,
    )


def test_writing_again_keeps_what_the_file_says() -> None:
    plain = Savepoint(EVERYTHING)
    named = {"name": "v_row", "kind": "VALUE", "value": {"fields": ["a", "b", "c"]}}
    operator_id = next(o.operator_id for o in plain.operators if o.operator_id.startswith(TYPES_ID))
    document = {
        "version": 1,
        "operators": [{"id": operator_id, "uid": "types", "states": [named]}],
        "classes": [GENERIC],
    }

    again = read_state_info(write_state_info(Savepoint(EVERYTHING, state_info=read(document))).encode())

    state = again.operators[operator_id].state("v_row", StateKind.VALUE)
    assert state is not None
    assert state.value == TypeInfo(type="Row<String, Integer, Row<Long, String>>", fields=("a", "b", "c"))
    assert again.operators[operator_id].uid == "types"
    assert "corpus.T$Generic" in again.classes


# ---- job plans ----

AGGREGATE_ID = "f7c20420360e0172e54933e6abdd481a"  # the hash of "aggregate"
HEAD_ID = "11" * 16


@pytest.mark.parametrize(
    "document",
    [
        {
            "vertices": [
                {
                    "id": HEAD_ID,
                    "name": "Source: words -> aggregate -> GroupAggregate[9] -> Sink: out: Writer",
                }
            ]
        },
        {
            "plan": {
                "nodes": [
                    {
                        "id": HEAD_ID,
                        "description": "Source: words<br/>+- aggregate<br/>   :- GroupAggregate[9]<br/>   +- Sink: out: Writer<br/>",
                    }
                ]
            }
        },
        {"nodes": [{"id": HEAD_ID, "description": "Source: words -&gt; aggregate -&gt; GroupAggregate[9]"}]},
    ],
    ids=["job", "plan", "nodes"],
)
def test_a_deployed_plan_names_the_operators_of_a_chain(document: Any) -> None:
    plan = read_job_plan(json.dumps(document).encode())

    assert plan[HEAD_ID].name == "Source: words"
    assert plan[HEAD_ID].chain > 1
    assert plan[AGGREGATE_ID] == PlannedOperator(uid="aggregate", name="aggregate")
    assert plan["f632ef195c6e37c1c70e2a61c8d16469"] == PlannedOperator(
        uid="9_group-aggregate", name="GroupAggregate[9]"
    )


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        7,
        {"vertices": 3},
        {"vertices": [{}]},
        {"nodes": [{"id": "x", "description": "a"}]},
        {"flinkVersion": "1.20"},
        {"flinkVersion": "1.20", "nodes": [{"id": 1}], "edges": []},
        {
            "flinkVersion": "1.20",
            "nodes": [{"id": 1, "type": "stream-exec-join_1", "outputType": "ROW<>"}],
            "edges": [],
        },
    ],
    ids=str,
)
def test_what_is_no_plan_is_a_typed_error(document: Any) -> None:
    with pytest.raises(CorruptDataError, match="job plan"):
        read_job_plan(json.dumps(document).encode())


GENERIC = {
    "name": "corpus.T$Generic",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "b", "type": "java.lang.String"},
        {"name": "c", "type": "java.util.List<java.lang.Object>"},
    ],
}
