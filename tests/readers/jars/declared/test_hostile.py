"""Jars that are made to take time or memory: each ends soon, and the report says that code was not looked at."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.job import JarClasses
from readers import ClassPath, CorruptDataError, Jar, PojoSerializer, method_signature
from readers.jars.declared.queries import queries_in
from readers.jars.declared.reading import Declarations, read_declarations
from readers.jars.signatures import JavaType
from tests.support.classwriter import OBJECT, ClassAssembler, u2, write_jar

INFO = "Lorg/apache/flink/api/common/typeinfo/TypeInformation;"
TYPES = "org.apache.flink.api.common.typeinfo.Types"
DESCRIPTOR = "org.apache.flink.api.common.state.ValueStateDescriptor"
KEY_SELECTOR = "org/apache/flink/api/java/functions/KeySelector"
NOP, ICONST_0, DUP2, IFEQ, SWITCH, RETURN = b"\0", b"\3", b"\x5c", b"\x99", b"\xaa", b"\xb1"
LONGEST = 65_535


def declared(folder: Path, *classes: tuple[str, ClassAssembler]) -> Declarations:
    path = write_jar(folder / "hostile.jar", {name: each.data() for name, each in classes})
    found, _ = read_declarations(ClassPath.open([path]), {"count"}, flink_major=2)
    return found


def job() -> ClassAssembler:
    """A class that is interpreted."""
    found = ClassAssembler("acme.Job")
    found.string("GROUP BY")
    return found


def of_code(*methods: bytes) -> ClassAssembler:
    found = job()
    for number, code in enumerate(methods):
        found.method(f"m{number}", "()V", code)
    return found


def switch_of(code: bytes, low: int, high: int, offsets: list[int]) -> bytes:
    table = struct.pack(f">{3 + len(offsets)}i", offsets[0] if offsets else 0, low, high, *offsets)
    return code + SWITCH + bytes(-(len(code) + 1) % 4) + table


def filled(code: bytes) -> bytes:
    return code + NOP * (LONGEST - len(code))


def endless_table() -> ClassAssembler:
    return of_code(switch_of(ICONST_0, -(1 << 31), (1 << 31) - 1, []) + RETURN)


def deep_stack() -> ClassAssembler:
    jumps = b"".join(ICONST_0 + IFEQ + u2(20_000 + at) for at in range(4_000))
    return of_code(*[filled(ICONST_0 * 2 + DUP2 * 4_000 + jumps)] * 50)


def wide_tables() -> ClassAssembler:
    offsets = [52_000 + at % 10_000 for at in range(12_000)]
    return of_code(*[filled(switch_of(ICONST_0 * 2 + DUP2 * 2_100, 0, len(offsets) - 1, offsets))] * 60)


def long_loops() -> ClassAssembler:
    stores = b"".join(ICONST_0 + b"\xc4\x36" + u2(at) for at in range(6_000))
    offsets = [-len(stores) + 5 * (at % 200) for at in range(6_000)]
    return of_code(*[switch_of(stores, 0, len(offsets) - 1, offsets)] * 60)


def calls_of(name: str, descriptor: str, count: int, owner: str = "acme.Job") -> ClassAssembler:
    found = job()
    call = b"\xb8" + u2(found.member(owner, name, descriptor))
    for number in range(15):
        found.method(f"m{number}", "()V", call * count + RETURN)
    return found


def many_handlers() -> ClassAssembler:
    found = calls_of("handled", "()V", 19_000)
    found.method("handled", "()V", RETURN, handlers=[0] * 65_000)
    return found


def many_methods() -> ClassAssembler:
    found = calls_of("none", "()V", 19_000)
    for number in range(60_000):
        found.method(f"n{number}", "()V", None)
    return found


def many_parameters() -> ClassAssembler:
    return calls_of("x", f"({'I' * 65_000})V", 19_000, "acme.X")


def long_owner() -> ClassAssembler:
    return calls_of("x", "()V", 19_000, "a." * 30_000 + "b")


def types_in_types() -> ClassAssembler:
    found = job()
    text = found.member(TYPES, "STRING", INFO, 9)
    map_of = b"\x59\xb8" + u2(found.member(TYPES, "MAP", f"({INFO}{INFO}){INFO}"))
    made = b"\xbb" + u2(found.class_(DESCRIPTOR)) + b"\x59\x13" + u2(found.string("count"))
    init = b"\x19\x05\xb7" + u2(found.member(DESCRIPTOR, "<init>", f"(Ljava/lang/String;{INFO})V"))
    found.method("m", "()V", b"\xb2" + u2(text) + map_of * 30 + b"\x3a\x05" + made + init + RETURN)
    return found


@pytest.mark.parametrize(
    "hostile",
    [
        endless_table,
        long_owner,
        types_in_types,
        *(
            pytest.param(hostile, marks=pytest.mark.slow)
            for hostile in (
                deep_stack,
                wide_tables,
                long_loops,
                many_handlers,
                many_methods,
                many_parameters,
            )
        ),
    ],
)
def test_code_that_has_no_end_is_looked_at_to_a_limit(
    hostile: Callable[[], ClassAssembler], tmp_path: Path
) -> None:
    assert not declared(tmp_path, ("acme.Job", hostile())).is_complete


def test_code_within_the_limits_is_read_beside(tmp_path: Path) -> None:
    found = job()
    made = b"\xbb" + u2(found.class_(DESCRIPTOR)) + b"\x59\x13" + u2(found.string("count"))
    made += b"\xb2" + u2(found.member(TYPES, "STRING", INFO, 9))
    init = b"\xb7" + u2(found.member(DESCRIPTOR, "<init>", f"(Ljava/lang/String;{INFO})V"))
    found.method("m", "()V", made + init + RETURN)

    known = declared(tmp_path, ("acme.Job", found))

    assert known.is_complete
    assert [type(state.value).__name__ for state in known.states["count"]] == ["StringSerializer"]


def test_static_code_that_needs_that_of_others_is_followed_to_a_limit(tmp_path: Path) -> None:
    classes = []
    for number in range(1_000):
        found = ClassAssembler(f"acme.C{number}")
        found.string("GROUP BY")
        other = found.member(f"acme.C{number + 1}", "f", "I", 9)
        found.method("<clinit>", "()V", b"\xb2" + u2(other) + b"\x57" + RETURN)
        classes.append((f"acme.C{number}", found))

    assert declared(tmp_path, *classes).is_complete


def test_boxes_in_boxes_are_no_numbers(tmp_path: Path) -> None:
    found = job()
    box = b"\xb8" + u2(found.member("java.lang.Integer", "valueOf", "(I)Ljava/lang/Integer;"))
    uid = b"\xb8" + u2(found.member("acme.X", "uid", "(Ljava/lang/Integer;)V"))
    found.method("m", "()V", ICONST_0 + box * 15_000 + uid + RETURN)

    assert declared(tmp_path, ("acme.Job", found)).uids == frozenset()


def test_a_method_longer_than_a_method_may_be_is_refused(tmp_path: Path) -> None:
    found = of_code(NOP * LONGEST)
    longer = of_code(NOP * (LONGEST + 1))
    path = write_jar(tmp_path / "a.jar", {"acme.Job": found.data(), "acme.Longer": longer.data()})
    classes = ClassPath.open([path])

    assert classes.find("acme.Job") is not None
    with pytest.raises(CorruptDataError, match="expected at most 65535 bytes of instructions, found 65536"):
        classes.find("acme.Longer")


def test_fields_of_the_next_class_twice_are_types_to_a_limit(tmp_path: Path) -> None:
    classes = []
    for number in range(40):
        found = ClassAssembler(f"acme.P{number}")
        for name in "ab":
            found.field(name, f"Lacme/P{number + 1};" if number < 39 else "I")
        found.method("<init>", "()V", RETURN, access=1)
        classes.append((f"acme.P{number}", found))
    main = job()
    made = b"\xbb" + u2(main.class_(DESCRIPTOR)) + b"\x59\x13" + u2(main.string("count"))
    init = b"\xb7" + u2(main.member(DESCRIPTOR, "<init>", "(Ljava/lang/String;Ljava/lang/Class;)V"))
    main.method("m", "()V", made + b"\x13" + u2(main.class_("acme.P0")) + init + RETURN)

    [state] = declared(tmp_path, ("acme.Job", main), *classes).states["count"]

    assert state.value is None
    assert "more than 10000 types" in state.untold


def doubling(pair: str) -> list[tuple[str, ClassAssembler]]:
    """Classes whose superclass has each type of theirs twice, in a pair, below acme.Own."""
    classes = []
    for number in range(60):
        next_one = OBJECT if number == 59 else f"acme.S{number + 1}"
        above = f"Lacme/S{number + 1}<L{pair}<TT;TT;>;>;"
        if number == 59:
            above = f"Ljava/lang/Object;L{KEY_SELECTOR}<Ljava/lang/String;TT;>;"
        found = ClassAssembler(f"acme.S{number}", next_one, signature=f"<T:Ljava/lang/Object;>{above}")
        classes.append((f"acme.S{number}", found))
    own = ClassAssembler("acme.Own", "acme.S0", signature="Lacme/S0<Ljava/lang/String;>;")
    return [("acme.Own", own), *classes]


def test_a_class_whose_superclass_doubles_its_types_is_untold(tmp_path: Path) -> None:
    [state] = declared(tmp_path, ("acme.Job", declaring("acme.Own")), *doubling("acme/Pair")).states["s0"]

    assert state.value is None
    assert "at most 10000 types" in state.untold


def test_type_variables_that_double_are_types_to_a_limit(tmp_path: Path) -> None:
    main = job()
    key_by = "(Lorg/apache/flink/api/java/functions/KeySelector;)V"
    made = b"\xbb" + u2(main.class_("acme.Own")) + b"\x59\xb7" + u2(main.member("acme.Own", "<init>", "()V"))
    call = b"\xb8" + u2(main.member("acme.Streams", "keyBy", key_by))
    main.method("m", "()V", made + call + RETURN)

    found = declared(tmp_path, ("acme.Job", main), *doubling("java/util/Map"))

    assert (found.keys, found.has_untold_keys) == ((), True)


def test_a_type_of_more_types_than_any_code_has_is_refused() -> None:
    doubled = JavaType("T", kind="variable")
    for _ in range(12):
        doubled = JavaType("java.util.Map", (doubled, doubled))
    with pytest.raises(CorruptDataError, match="at most 10000 types"):
        JavaType("java.util.Map", (doubled, doubled))
    with pytest.raises(CorruptDataError, match="at most 255 parameters"):
        method_signature(f"({'I' * 256})V")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM " * 4_600,
        "SELECT " + " FROM x" * 9_000,
        "/*" * 32_000,
        "SELECT " + "COUNT(" * 10_000 + " FROM a GROUP BY b",
        "GROUP " + " " * 60_000,
    ],
)
def test_texts_that_are_nearly_queries_are_none(text: str) -> None:
    assert queries_in([text]) == []


@pytest.mark.slow
def test_jars_in_a_jar_are_kept_to_a_limit(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr("acme/A.class", b"")
    path = tmp_path / "outer.jar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr("lib/good.jar", inner.getvalue())
        jar.writestr("lib/bomb.jar", bytes((128 << 20) + 1))

    with pytest.raises(CorruptDataError, match="expected at most 134217728 bytes of jars in the folder lib"):
        ClassPath.open([path])


def test_classes_that_were_let_go_are_read_again(tmp_path: Path) -> None:
    classes = {}
    for number in range(3):
        found = ClassAssembler(f"acme.C{number}")
        for at in range(30):
            found.string(f"{number} {at}".ljust(60_000))
        classes[f"acme.C{number}"] = found.data()
    path = ClassPath.open([write_jar(tmp_path / "large.jar", classes)])
    first = [path.find(name) for name in classes]

    assert [path.find(name) for name in classes] == first
    assert path.find("acme.C0") is not first[0]
    assert path.find("acme.C0") is path.find("acme.C0")


def pojo(name: str, fields: int, descriptor: str, access: int = 1) -> ClassAssembler:
    found = ClassAssembler(name)
    found.method("<init>", "()V", RETURN, access=1)
    for number in range(fields):
        found.field(f"f{number}", descriptor, access)
    return found


def declaring(*names: str) -> ClassAssembler:
    found, code = job(), b""
    made = b"\xbb" + u2(found.class_(DESCRIPTOR)) + b"\x59\x13"
    init = (
        b"\xb7" + u2(found.member(DESCRIPTOR, "<init>", "(Ljava/lang/String;Ljava/lang/Class;)V")) + b"\x57"
    )
    for number, name in enumerate(names):
        code += made + u2(found.string(f"s{number}")) + b"\x13" + u2(found.class_(name)) + init
    found.method("m", "()V", code + RETURN)
    return found


@pytest.mark.slow
def test_wide_classes_in_one_another_are_looked_at_to_a_limit(tmp_path: Path) -> None:
    names = [f"acme.P{number}" for number in range(300)]
    classes = {name: pojo(name, 200, f"Lacme/P{number + 1};").data() for number, name in enumerate(names)}
    path = write_jar(tmp_path / "a.jar", {"acme.Job": declaring(*names).data(), **classes})

    found, _ = read_declarations(ClassPath([Jar.open(path)], is_foreign=True), (), flink_major=2)

    untold = {state.untold for [state] in found.states.values()}
    assert untold == {"more than 48 types in one another", "more types than are looked at"}


@pytest.mark.slow
def test_getters_and_setters_are_found_at_once(tmp_path: Path) -> None:
    wide = pojo("acme.P", 5_000, "I", access=2)
    for number in range(5_000):
        wide.method(f"getF{number}", "()I", None, access=1)
        wide.method(f"setF{number}", "(I)V", None, access=1)

    found = declared(tmp_path, ("acme.Job", declaring("acme.P")), ("acme.P", wide))

    [state] = found.states["s0"]
    assert isinstance(state.value, PojoSerializer)
    assert len(state.value.fields) == 5_000


@pytest.mark.slow
def test_classes_of_many_members_are_parsed_to_a_limit(tmp_path: Path) -> None:
    names = [f"acme.P{number}" for number in range(6)]
    path = write_jar(tmp_path / "a.jar", {name: pojo(name, 60_000, "I").data() for name in names})
    classes = ClassPath([Jar.open(path)], is_foreign=True)

    with pytest.raises(CorruptDataError, match="bytes of class files to parse, found more"):
        [classes.find(name) for name in names]


def test_a_damaged_class_leaves_open_what_it_extends(tmp_path: Path) -> None:
    path = write_jar(tmp_path / "a.jar", {"acme.P": b"\xca\xfe"})

    assert JarClasses(ClassPath.open([path])).extends("acme.P", "acme.Q") is None
