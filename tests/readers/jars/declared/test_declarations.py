"""What byte code declares, in jars that javac wrote."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Set

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import ClassPath, Jar, ReaderError, StateKind
from readers.jars.declared.reading import Declarations, kind_of, read_declarations
from tests.support.paths import DATA

JAR = DATA / "classfiles" / "declares.jar"


@pytest.fixture(scope="module")
def declared() -> Declarations:
    return declarations_in(without={"acme/Declares$Untold.class"})


def declarations_in(without: Set[str] = frozenset(), **added: bytes) -> Declarations:
    """What the jar declares without some of its classes, and with others."""
    with zipfile.ZipFile(JAR) as jar:
        classes = {name: jar.read(name) for name in jar.namelist() if name not in without}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        for name, content in (
            classes | {f"{name}.class": content for name, content in added.items()}
        ).items():
            jar.writestr(name, content)
    return read_declarations(ClassPath([Jar(buffer.getvalue(), "a.jar")]), (), flink_major=2)[0]


def test_states_are_declared_by_descriptors_in_all_places(declared):
    found = {
        name: (
            state.kind,
            state.map_key.type_name if state.map_key else "",
            state.value.type_name if state.value else "",
        )
        for name, (state,) in declared.states.items()
    }

    assert found == {
        "in-field": (StateKind.VALUE, "", "acme.Declares$Order"),
        "in-open": (StateKind.VALUE, "", "Long"),
        "with-ttl": (StateKind.LIST, "", "acme.Declares$Order"),
        "map": (StateKind.MAP, "String", "List<Long>"),
        "reducing": (StateKind.REDUCING, "", "Long"),
        "aggregating": (StateKind.AGGREGATING, "", "Tuple2<Long, Double>"),
        "by-constant": (StateKind.VALUE, "", "Row<Integer, String>"),
        "in-array": (StateKind.VALUE, "", "acme.Declares$Kind"),
        "unknown-type": (StateKind.VALUE, "", ""),
        "offsets": (StateKind.OPERATOR_LIST, "", "Long"),
        "leases": (StateKind.UNION_LIST, "", "String"),
        "rules": (StateKind.BROADCAST, "String", "acme.Declares$Order"),
    }


def test_a_type_that_only_running_tells_is_untold(declared):
    (state,) = declared.states["unknown-type"]

    assert state.value is None
    assert state.untold == "what acme.Declares$Count.type returns"
    assert [name for name, (each,) in declared.states.items() if each.untold] == ["unknown-type"]


def test_time_to_live_belongs_to_the_descriptor_that_it_is_switched_on_for(declared):
    assert [name for name, (each,) in declared.states.items() if each.has_ttl] == ["with-ttl"]


def test_names_that_the_code_builds_or_chooses_are_no_declarations(declared):
    assert declared.has_unnamed
    assert not {"built-0", "first", "second"} & set(declared.states)


def test_uids_keys_and_max_parallelism_are_read(declared):
    assert declared.uids == {"orders", "count", "buffer"}
    assert declared.uid_hashes == {"0123456789abcdef0123456789abcdef"}
    assert [key.type_name for key in declared.keys] == ["String"]
    assert declared.max_parallelism == 720
    assert declared.is_complete


def test_keys_whose_types_cannot_be_told_are_said_to_be_there(declared):
    assert declarations_in().has_untold_keys
    assert not declared.has_untold_keys


def test_classes_that_are_damaged_leave_it_incomplete():
    # It mentions a descriptor, so that it is looked at.
    assert not declarations_in(Broken=b"\xca\xfe\xba\xbe StateDescriptor").is_complete


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("value", StateKind.VALUE), ("getListState", StateKind.LIST), ("opList", StateKind.OPERATOR_LIST),
        ("operatorListState", StateKind.OPERATOR_LIST), ("opUnion", StateKind.UNION_LIST), ("mapOf", StateKind.MAP),
        ("reducing", StateKind.REDUCING), ("aggregatingState", StateKind.AGGREGATING),
        ("broadcastState", StateKind.BROADCAST), ("declare", None),
    ],
)  # fmt: skip
def test_the_name_of_a_helper_tells_the_kind_of_state(method, kind):
    assert kind_of(method) is kind


@settings(max_examples=40)
@given(data=st.data())
def test_damaged_code_is_read_or_passed_over(data):
    with zipfile.ZipFile(JAR) as jar:
        classes = {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
    name = data.draw(st.sampled_from(sorted(classes)))
    damaged = bytearray(classes[name])
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(8, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        for each, content in (classes | {name: bytes(damaged)}).items():
            jar.writestr(each, content)

    with contextlib.suppress(ReaderError):
        read_declarations(ClassPath([Jar(buffer.getvalue(), "a.jar")]), ("in-field",), flink_major=2)
