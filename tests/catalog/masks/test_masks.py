"""Masks: the file, what its names match, and what the rules make of values."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Catalog, Root
from catalog.cache.states import StateCache
from catalog.errors import (
    InvalidMaskFileError,
    MissingSecretError,
    UncoveredColumnsError,
    UnknownMaskColumnError,
    UnmaskableValueError,
)
from catalog.masks.columns import ColumnNames, MaskedColumns
from catalog.masks.masks import Masks
from catalog.masks.rules import read_rule
from catalog.statetables import StatesTable
from tests.support.paths import DATA

SECRET, OTHER = b"0123456789abcdef-one", b"0123456789abcdef-two"
ADDRESS = pa.struct([("street", pa.string()), ("zip", pa.int32())])
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("namespace", pa.struct([("start", pa.timestamp("ms")), ("end", pa.timestamp("ms"))])),
        (
            "value",
            pa.struct(
                [
                    ("email", pa.string()),
                    ("address", ADDRESS),
                    ("past", pa.list_(ADDRESS)),
                    ("tags", pa.map_(pa.string(), pa.string())),
                    ("amount", pa.int64()),
                ]
            ),
        ),
        ("_key_group", pa.int32()),
        ("_subtask", pa.int32()),
    ]
)
ROWS = [
    {
        "key": "k-100",
        "namespace": {"start": datetime.datetime(2024, 5, 17, 3), "end": datetime.datetime(2024, 5, 18)},
        "value": {
            "email": "Ada@example.com",
            "address": {"street": "Main 1", "zip": 12345},
            "past": [{"street": "Old 2", "zip": 999}, None],
            "tags": [("nick", "ada")],
            "amount": 1234,
        },
        "_key_group": 3,
        "_subtask": 0,
    },
    {"key": "k-200", "namespace": None, "value": None, "_key_group": 4, "_subtask": 0},
    {
        "key": "k-300",
        "namespace": None,
        "value": {"email": None, "address": None, "past": [], "tags": [], "amount": -5},
        "_key_group": 5,
        "_subtask": 1,
    },
]
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)


def masks(*rules: str, secret: bytes = SECRET, head: str = "") -> Masks:
    """The masks of a file with these rules, each `columns | with | more lines`, under a secret."""
    text = "version = 1\n" + head
    for rule in rules:
        columns, with_, *more = (part.strip() for part in rule.split("|"))
        listed = ", ".join(f"'{one.strip()}'" for one in columns.split(","))
        text += f'[[mask]]\ncolumns = [{listed}]\nwith = "{with_}"\n' + "".join(f"{one}\n" for one in more)
    return replace(Masks.parse(text), secret=secret)


def table(
    *rules: str, schema: pa.Schema = SCHEMA, names: ColumnNames | None = None, **options: Any
) -> MaskedColumns:
    return masks(*rules, **options).for_table(
        "orders__account", schema, names or ColumnNames("orders__account", "orders")
    )


def masked(rule: str, values: list[Any], kind: pa.DataType, **options: Any) -> list[Any]:
    """What a rule makes of values of a column."""
    schema = pa.schema([("value", kind)])
    found = table(f"orders.value | {rule}", schema=schema, **options)
    batch = found.apply(pa.RecordBatch.from_arrays([pa.array(values, kind)], schema=schema))
    assert batch.schema == schema
    values_masked: list[Any] = batch.column(0).to_pylist()
    return values_masked


# ---- what names match ----


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("orders__account.value.email", ["value.email"]),
        ("ORDERS__ACCOUNT.Value.Email", ["value.email"]),
        ("*.value.email", ["value.email"]),
        ("orders.key", ["key"]),
        ("orders__other.key", ["key"]),
        ("orders.value.address.**", ["value.address.street", "value.address.zip"]),
        ("orders.value.address", ["value.address.street", "value.address.zip"]),
        ("**.zip", ["value.address.zip", "value.past.zip"]),
        ("*.value.*.zip", ["value.address.zip", "value.past.zip"]),
        ("*.value.past.street", ["value.past.street"]),
        ("*.value.tags.key", ["value.tags.key"]),
        ("*.value.tags", ["value.tags.key", "value.tags.value"]),
        ("*.namespace.start", ["namespace.start"]),
        ('orders."value".email', ["value.email"]),
        ("other.value.email", []),
        ("orders__account_view.mail", ["value.email"]),
    ],
)
def test_a_name_covers_what_it_matches_and_all_inside(pattern: str, covered: list[str]) -> None:
    names = ColumnNames(
        "orders__account",
        "orders",
        siblings=("orders__other",),
        views=(("orders__account_view", (("mail", ("value", "email")),)),),
    )
    found = masks(f"{pattern} | keep").for_table("orders__account", SCHEMA, names)

    assert [one.name for one in found.coverage if one.rule] == covered


def test_the_first_rule_that_covers_a_value_decides() -> None:
    found = table("*.value.address.zip | keep", "*.value.** | null").apply(BATCH)

    assert found.column("value").to_pylist()[0] == {
        "email": None, "address": {"street": None, "zip": 12345}, "past": None, "tags": None, "amount": None,
    }  # fmt: skip


def test_values_inside_rows_lists_and_maps_are_masked_where_they_stand() -> None:
    whole = table(
        "*.value.**.street | constant(x)",
        "*.value.tags.value | truncate(1)",
        "*.namespace.start | bucket(month)",
    )

    for batch in (BATCH, BATCH.slice(0, 1), BATCH.slice(1)):
        found = whole.apply(batch)
        assert found.schema == SCHEMA
        found.validate(full=True)
    first, second, third = whole.apply(BATCH).to_pylist()
    assert first["value"]["address"] == {"street": "x", "zip": 12345}
    assert first["value"]["past"] == [{"street": "x", "zip": 999}, None]
    assert first["value"]["tags"] == [("nick", "a")]
    assert first["namespace"]["start"] == datetime.datetime(2024, 5, 1)
    assert first["namespace"]["end"] == datetime.datetime(2024, 5, 18)
    assert (second["value"], third["value"]["past"]) == (None, [])


def test_rows_with_a_value_are_left_out() -> None:
    assert table("*.value.past.street | drop-row").apply(BATCH).column("key").to_pylist() == [
        "k-200",
        "k-300",
    ]
    assert table("*.value.tags.value | drop-row").apply(BATCH).num_rows == 2
    assert table("*.value.amount | drop-row").apply(BATCH).column("key").to_pylist() == ["k-200"]


def test_columns_of_a_narrowed_scan_are_masked_alone() -> None:
    found = table("*.value.email | null", "*.key | pseudonym")
    narrowed = BATCH.select(["key", "_subtask"])

    assert found.apply(narrowed).column("key").to_pylist() == found.apply(BATCH).column("key").to_pylist()
    assert found.apply(narrowed).column("key").to_pylist() != narrowed.column("key").to_pylist()
    assert found.mask_key(BATCH.column("key")).equals(found.apply(BATCH).column("key"))
    assert table("*.value.email | null").mask_key(BATCH.column("key")).equals(BATCH.column("key"))


# ---- values that cannot be decoded, or do not fit ----

UNDECODED = pa.schema(
    [("key", pa.string()), ("value", pa.null()), ("_undecoded", pa.binary()), ("_out_of_range", pa.string())]
)
BYTES = pa.RecordBatch.from_pydict(
    {
        "key": ["a", "b"],
        "value": [None, None],
        "_undecoded": [b"secret", None],
        "_out_of_range": ['{"x": 1}', None],
    },
    schema=UNDECODED,
)


def test_bytes_of_a_masked_value_are_refused_unless_the_rule_says_what_becomes_of_them() -> None:
    refused = table("*.value.email | pseudonym", schema=UNDECODED)
    with pytest.raises(UnmaskableValueError, match='add raw = "drop" or raw = "null"'):
        refused.apply(BYTES)
    assert refused.apply(BYTES.slice(1)).column("key").to_pylist() == ["b"]

    nulled = table('*.value.email | pseudonym | raw = "null"', schema=UNDECODED).apply(BYTES)
    assert nulled.column("_undecoded").to_pylist() == [None, None]
    dropped = table('*.value.email | pseudonym | raw = "drop"', schema=UNDECODED).apply(BYTES)
    assert dropped.column("key").to_pylist() == ["b"]


def test_the_text_of_values_out_of_range_is_hidden_with_any_mask() -> None:
    found = table("*.key | pseudonym", schema=UNDECODED).apply(BYTES)

    assert found.column("_out_of_range").to_pylist() == [None, None]
    assert found.column("_undecoded").to_pylist() == [b"secret", None]


def test_raw_columns_are_refused_unless_the_rule_says_what_becomes_of_them() -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.binary())])
    with pytest.raises(UnmaskableValueError):
        masks("*.value | pseudonym").for_table("t", schema, raw=["value"])

    found = masks('*.value | pseudonym | raw = "null"').for_table("t", schema, raw=["value"])
    assert found.hides("value")


# ---- what is refused ----


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("version = 2", "expected version = 1, found 2"),
        ("version = 1", r"expected at least one \[\[mask\]\]"),
        ("version = 1\nother = 2", "found 'other'"),
        ('version = 1\ndefault = "no"', 'expected default = "keep" or "refuse"'),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']\nwith = 'scramble'", "expected one of keep, null, hash, .*found 'scramble'"),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']\nwith = 'bucket(fortnight)'", r"expected bucket\(month\) or bucket\(1000\)"),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']\nwith = 'truncate(-1)'", r"expected truncate\(n\)"),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']\nwith = 'bucket(0)'", "expected bucket"),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']", "expected with"),
        ("version = 1\n[[mask]]\nwith = 'null'", "expected columns"),
        ("version = 1\n[[mask]]\ncolumns = ['email']\nwith = 'null'", "expected a table and a column"),
        ("version = 1\n[[mask]]\ncolumns = ['a..b']\nwith = 'null'", "expected a table and a column"),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']\nwith = 'null'\nraw = 'x'", "expected raw"),
        ("version = 1\n[[mask]]\ncolumns = ['a.b']\nwith = 'null'\ngroup = 5", "expected the name of a group"),
        ("version = 1\n[group.a]\ncolumns = 5\n[[mask]]\ncolumns = ['a.b']\nwith = 'null'", "expected columns"),
        ("version =", "expected TOML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_error(text: str, error: str) -> None:
    with pytest.raises(InvalidMaskFileError, match=error):
        Masks.parse(text)


def test_a_missing_file_and_a_missing_secret_are_named(tmp_path: Path) -> None:
    file = tmp_path / "masks.toml"
    with pytest.raises(InvalidMaskFileError, match="cannot be read"):
        Masks.load(file)
    file.write_text("version = 1\nsecret_file = 'mask.key'\n[[mask]]\ncolumns = ['a.b']\nwith = 'hash'")
    with pytest.raises(MissingSecretError, match=r"mask\.key, found that it cannot be read"):
        Masks.load(file)
    (tmp_path / "mask.key").write_text("short\n")
    with pytest.raises(MissingSecretError, match="at least 16 bytes"):
        Masks.load(file)


@pytest.mark.parametrize(
    "rule",
    ["orders.key | null", "orders.key | constant(x)", "orders.key | truncate(3)", "orders.key | shuffle",
     "*.value.tags.key | null", "*.value.tags | constant(x)"],
)  # fmt: skip
def test_a_rule_by_which_two_keys_could_become_one_is_refused(rule: str) -> None:
    with pytest.raises(UnmaskableValueError, match="two keys could become one"):
        table(rule)


@pytest.mark.parametrize(
    "rule",
    ["*.value.amount | truncate(2)", "*.value.email | bucket(10)", "*.value.amount | bucket(month)",
     "*.namespace.start | pseudonym", "*.value.amount | constant(many)"],
)  # fmt: skip
def test_a_value_that_a_rule_cannot_mask_is_named(rule: str) -> None:
    with pytest.raises(UnmaskableValueError, match=r"in orders__account\.(value|namespace)\."):
        table(rule)


def test_a_column_that_does_not_exist_is_named_with_near_ones() -> None:
    with pytest.raises(UnknownMaskColumnError, match=r"near: orders__account\.value\.email"):
        table("orders__account.value.emial | null")


def test_columns_without_a_rule_are_refused_on_request() -> None:
    with pytest.raises(UncoveredColumnsError) as caught:
        table("*.value | null", "*.key | keep", head='default = "refuse"\n')

    assert caught.value.columns == ("namespace.start", "namespace.end")
    assert table("*.value | null", "*.key | keep", "*.namespace | keep", head='default = "refuse"\n').hides(
        "value"
    )


# ---- what the rules make of values ----


@pytest.mark.parametrize(
    ("rule", "kind", "values", "expected"),
    [
        ("keep", pa.string(), ["a", None], ["a", None]),
        ("null", pa.int32(), [1, None], [None, None]),
        ("constant(7)", pa.int32(), [1, None], [7, None]),
        ("constant(x)", pa.binary(), [b"1", None], [b"x", None]),
        ("constant(1.5)", pa.decimal128(9, 2), [Decimal("2.25")], [Decimal("1.50")]),
        ("constant(12:30)", pa.time32("s"), [datetime.time(1)], [datetime.time(12, 30)]),
        ("truncate(2)", pa.string(), ["äöü", "a", None], ["äö", "a", None]),
        ("truncate(0)", pa.binary(), [b"ab"], [b""]),
        (
            "bucket(month)",
            pa.timestamp("ms"),
            [datetime.datetime(2024, 5, 17, 3)],
            [datetime.datetime(2024, 5, 1)],
        ),
        ("bucket(year)", pa.date32(), [datetime.date(2024, 5, 17), None], [datetime.date(2024, 1, 1), None]),
        ("bucket(hour)", pa.time64("us"), [datetime.time(5, 7)], [datetime.time(5)]),
        ("bucket(1000)", pa.int64(), [1999, -1, None], [1000, -1000, None]),
        ("bucket(1000)", pa.int8(), [5, -5], [0, -128]),
        ("bucket(10)", pa.float64(), [19.5, -0.5], [10.0, -10.0]),
        ("bucket(10)", pa.decimal128(5, 2), [Decimal("19.50"), None], [Decimal("10.00"), None]),
    ],
)
def test_rules(rule: str, kind: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    assert masked(rule, values, kind) == expected


def test_shuffled_values_are_those_of_other_rows() -> None:
    values = [*(f"v{number}" for number in range(1000)), None]
    found = masked("shuffle", values, pa.string())

    assert set(found) == set(values)
    assert found[-1] is None
    assert sum(one == other for one, other in zip(found, values, strict=True)) < 50
    assert table("*.value.email | shuffle").needs_all_rows


def test_a_pseudonym_keeps_the_form_of_a_text() -> None:
    (found,) = masked("pseudonym", ["Müller-12 a@b.C"], pa.string())

    assert [(one.isdigit(), one.islower(), one.isupper(), one.isalnum() or one) for one in found] == [
        (one.isdigit(), one.islower(), one.isupper(), one.isalnum() or one) for one in "Müller-12 a@b.C"
    ]
    assert found != "Müller-12 a@b.C"


def test_integers_and_their_texts_share_pseudonyms_in_a_group() -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("small", pa.int16())])
    found = masks('*.id, *.text, *.small | pseudonym | group = "customer"').for_table("t", schema)
    values = [0, 7, 42, -42, 12345, 32767, -32768]
    batch = found.apply(
        pa.RecordBatch.from_pydict({"id": values, "text": list(map(str, values)), "small": values}, schema)
    )

    assert list(map(str, batch["id"].to_pylist())) == batch["text"].to_pylist()
    assert batch["id"].to_pylist() == batch["small"].to_pylist()


# ---- properties ----

texts = (
    st.text(max_size=12)
    | st.from_regex(r"-?[0-9]{1,21}", fullmatch=True)
    | st.sampled_from(["", "0", "-0", "007", "a"])
)
FORMS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), texts),
    (pa.binary(), st.binary(max_size=40)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.decimal128(6, 2), st.decimals(-9999, 9999, places=2, allow_nan=False)),
    (pa.decimal128(38, 4), st.decimals(-(10**30), 10**30, places=4, allow_nan=False)),
]
INJECTIVE = [
    (rule, kind, values)
    for rule in ("pseudonym", "hash")
    for kind, values in FORMS
    if read_rule(rule).fits(kind)
]


@pytest.mark.parametrize(("rule", "kind", "values"), INJECTIVE, ids=lambda one: str(one)[:20])
@given(data=st.data())
def test_masks_are_deterministic_injective_and_of_the_same_type(
    rule: str, kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.none() | values, max_size=40, unique=True))
    found = masked(rule, chosen, kind)

    assert found == masked(rule, chosen, kind)
    assert len(set(found)) == len(chosen)
    assert [one is None for one in found] == [one is None for one in chosen]
    # Each value alone, and among others, has one mask.
    assert [masked(rule, [one], kind)[0] for one in chosen[:3]] == found[:3]


@given(st.lists(texts, min_size=1, max_size=40))
def test_pseudonyms_keep_length_in_bytes_and_places_of_other_characters(values: list[str]) -> None:
    for value, found in zip(values, masked("pseudonym", values, pa.string()), strict=True):
        assert len(value.encode()) == len(found.encode())
        assert [one for one in value if one.isascii() and not one.isalnum()] == [
            one for one in found if one.isascii() and not one.isalnum()
        ]


def test_masks_differ_under_another_secret_and_between_columns_without_a_group() -> None:
    values = [f"customer-{number}" for number in range(50)]
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    batch = pa.RecordBatch.from_pydict({"a": values, "b": values}, schema)
    for rule in ("pseudonym", "hash"):
        alone, grouped = (
            masks(f"*.a, *.b | {rule} {more}").for_table("t", schema).apply(batch)
            for more in ("", '| group = "g"')
        )
        other = masks(f"*.a, *.b | {rule}", secret=OTHER).for_table("t", schema).apply(batch)

        assert not set(alone["a"].to_pylist()) & set(alone["b"].to_pylist())
        assert grouped["a"].to_pylist() == grouped["b"].to_pylist()
        assert not set(alone["a"].to_pylist()) & set(other["a"].to_pylist())


@pytest.mark.parametrize(("least", "greatest"), [(-128, 127), (-(2**15), 2**15 - 1)])
def test_pseudonyms_of_all_integers_of_a_type_are_all_of_them(least: int, greatest: int) -> None:
    kind = pa.int8() if least == -128 else pa.int16()
    found = masked("pseudonym", list(range(least, greatest + 1)), kind)

    assert sorted(found) == list(range(least, greatest + 1))


def test_a_group_lists_its_columns() -> None:
    head = "[group.customer]\ncolumns = ['*.key', '*.value.email']\n"
    known = masks("*.value.email | pseudonym", "*.key | pseudonym", head=head)
    names = ColumnNames("orders__account", "orders")

    assert known.group_names == ("customer",)
    assert known.group_paths("customer", "orders__account", SCHEMA, names) == (("key",), ("value", "email"))
    schema = pa.schema([("key", pa.string()), ("value", pa.struct([("email", pa.string())]))])
    batch = pa.RecordBatch.from_pydict({"key": ["ada"], "value": [{"email": "ada"}]}, schema)
    (row,) = known.for_table("orders__account", schema, names).apply(batch).to_pylist()
    assert row["key"] == row["value"]["email"] != "ada"


# ---- tables of savepoints ----

NATIVE = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"


def test_the_cache_of_decoded_states_keeps_values_and_shows_masks(tmp_path: Path) -> None:
    cache = StateCache(tmp_path, 1 << 24, least_bytes=0)
    database = Catalog([Root(path=str(NATIVE), label="one")], cache=cache).database("one")
    tables = [
        one.table("aggregate__count")
        for one in (database, database.masked(masks("aggregate.key | pseudonym")))
    ]
    assert isinstance(tables[0], StatesTable)
    cache.write(tables[0].reference(tables[0].states[0]))

    plain, hidden = (table.plan() for table in tables)

    # The file has the values: only a reader without masks may take it as it is.
    assert (plain.is_cached, hidden.is_cached) == (True, True)
    assert plain.cached is not None
    assert hidden.cached is None
    keys = [scan.to_arrow()["key"].to_pylist() for scan in (plain, hidden)]
    assert len(set(keys[1])) == len(keys[1]) == 1000
    assert not set(keys[0]) & set(keys[1])
    assert sum(one.startswith("key_") for one in keys[1]) == 0
    cache.close()


def test_rows_of_masked_keys_are_in_no_order_of_their_keys() -> None:
    database = Catalog([Root(path=str(NATIVE), label="one")]).database("one")
    known = masks("aggregate.key | pseudonym")
    plain = database.table("aggregate__count").scan().to_arrow()
    hidden = database.masked(known).table("aggregate__count").scan().to_arrow()
    names = ColumnNames("aggregate__count", "aggregate")
    changed = known.for_table("aggregate__count", plain.schema, names).mask_key(plain["key"].combine_chunks())

    assert sorted(hidden["key"].to_pylist()) == sorted(changed.to_pylist())
    same = sum(a == b for a, b in zip(hidden["key"].to_pylist(), changed.to_pylist(), strict=True))
    assert same < 30
    assert hidden["_key_group"].null_count == hidden["_subtask"].null_count == 1000
