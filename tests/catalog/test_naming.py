"""Names of databases that nothing else changes, and their aliases, on checkpoints that Flink wrote."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import NoSuchDatabaseError
from catalog.catalog import Catalog, Root, connect
from catalog.errors import (
    AmbiguousDatabaseError,
    ConflictingRootsError,
    DuplicateDatabaseError,
    InvalidDatabaseNameError,
)
from catalog.references import database_name, is_free_name, path_of
from tests.support.objectstore import ObjectStore, Proxy
from tests.support.paths import DATA

CHECKPOINTS = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
NOON = 1_788_264_000
"""2026-09-01T12:00:00Z."""


def put(folder: Path, number: int = 1, modified_s: int = NOON) -> Path:
    """Copy a checkpoint to a folder."""
    shutil.copytree(CHECKPOINTS / f"chk-{number}", folder)
    os.utime(folder / "_metadata", (modified_s, modified_s))
    return folder


def live(*roots: Root) -> Catalog:
    return Catalog(roots, rescan_after_s=0)


# ---- spelling ----


@pytest.mark.parametrize(
    ("label", "folders", "name"),
    [
        ("prod", ("jobA", "chk-4"), "prod__jobA__chk-4"),
        ("prod", (), "prod"),
        ("eu.prod", ("job_a",), "eu.prod__job_a"),
        ("prod", ("my job", "_a__b"), "prod__my~20job__~5fa_~5fb"),
        ("prod", ("a_", "b"), "prod__a~5f__b"),
        ("prod", ("a", "_b"), "prod__a__~5fb"),
        ("nn:8020", ("ü/~",), "nn~3a8020__~c3~bc~2f~7e"),
        ("..", ("._",), "~2e.__~2e~5f"),
        ("p", ("\udcff",), "p__~ed~b3~bf"),
    ],
)
def test_a_name_is_the_label_and_the_path(label: str, folders: tuple[str, ...], name: str) -> None:
    assert database_name(label, folders) == name


PARTS = st.text("aA_-.~ü/ ", min_size=1, max_size=6) | st.text(min_size=1, max_size=6)
PATHS = st.tuples(PARTS, st.lists(PARTS, max_size=3).map(tuple))


@given(PATHS, PATHS)
def test_names_differ_where_paths_differ_and_need_no_escapes(
    one: tuple[str, tuple[str, ...]], other: tuple[str, tuple[str, ...]]
) -> None:
    name = database_name(*one)

    assert (name == database_name(*other)) is (one == other)
    assert quote(name, safe="") == name
    assert name not in (".", "..")


@given(st.tuples(PARTS.filter(str.isprintable), st.lists(PARTS.filter(str.isprintable), max_size=3)))
def test_the_path_of_a_name_is_the_path_that_it_was_made_of(path: tuple[str, list[str]]) -> None:
    assert path_of(database_name(*path)) == "/".join((path[0], *path[1]))


def test_long_names_keep_their_label_and_end_with_a_hash() -> None:
    one, other = (database_name("prod", ("x" * 255, "y" * 200 + tail)) for tail in "ab")

    assert len(one) == len(other) == 200
    assert one.startswith("prod__xxx")
    assert one != other
    assert "~~" in one
    assert database_name("l" * 300, ("a",)) == f"{database_name('l' * 300)}__a"
    assert len(database_name("l" * 300)) == 100


@pytest.mark.parametrize("name", ["mine", "A-1.b_c", "x" * 200])
def test_names_that_a_user_may_choose(name: str) -> None:
    assert is_free_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "~41", "ü", "a\0", "a\n", "x" * 201])
def test_names_that_a_user_may_not_choose(name: str, tmp_path: Path) -> None:
    catalog = Catalog()

    with pytest.raises(InvalidDatabaseNameError, match="expected a database name"):
        catalog.add(name, str(put(tmp_path / "chk-1")))
    assert catalog.databases == []


# ---- neighbours ----


def test_a_neighbour_that_comes_and_goes_changes_no_name(tmp_path: Path) -> None:
    put(tmp_path / "jobA" / "chk-4")
    catalog = live(Root(path=str(tmp_path), label="prod"))
    assert catalog.databases == ["prod__jobA__chk-4"]
    assert catalog.schema("chk-4").alias_of == catalog.schema("CHK-4").alias_of == "prod__jobA__chk-4"

    put(tmp_path / "jobB" / "chk-4", 2)

    assert catalog.databases == ["prod__jobA__chk-4", "prod__jobB__chk-4"]
    with pytest.raises(AmbiguousDatabaseError) as error:
        catalog.database("chk-4")
    assert error.value.candidates == ("prod__jobA__chk-4", "prod__jobB__chk-4")
    assert str(error.value) == (
        "expected the name of one database, found 'chk-4', which may be each of 2: "
        '"prod__jobA__chk-4", "prod__jobB__chk-4"'
    )
    assert catalog.database("jobA/chk-4").checkpoint_id == 1

    shutil.rmtree(tmp_path / "jobB")

    assert catalog.databases == ["prod__jobA__chk-4"]
    assert catalog.database("chk-4").name == "prod__jobA__chk-4"


def test_only_the_path_names_a_database_whichever_roots_are_beside_it(tmp_path: Path) -> None:
    put(tmp_path / "a" / "job" / "chk-1")
    put(tmp_path / "b" / "job" / "chk-1")

    alone = Catalog([Root(path=str(tmp_path / "a"))]).databases
    both = Catalog([Root(path=str(tmp_path / "b")), Root(path=str(tmp_path / "a"))]).databases

    assert alone == ["a__job__chk-1"]
    assert both == ["b__job__chk-1", "a__job__chk-1"]


def test_an_only_savepoint_has_the_name_of_its_folder(tmp_path: Path) -> None:
    path = put(tmp_path / "job" / "savepoint-42")

    for spelled in (path, path / "_metadata", f"{path}/", f"file:{path}"):
        assert connect(spelled).databases == ["savepoint-42"]
    assert connect(path, name="mine").databases == ["mine"]
    assert connect(path).database("job/savepoint-42").name == "savepoint-42"
    # The file that is a savepoint, as Flink 1.2 wrote it.
    shutil.copy(path / "_metadata", tmp_path / "savepoint-ab")
    assert connect(tmp_path / "savepoint-ab").databases == ["savepoint-ab"]


def test_names_that_differ_only_in_case_are_told_apart_by_case_alone(tmp_path: Path) -> None:
    put(tmp_path / "job", 1)
    put(tmp_path / "Job", 2)
    catalog = live(Root(path=str(tmp_path), label="p"))

    assert (catalog.database("p__job").checkpoint_id, catalog.database("p__Job").checkpoint_id) == (1, 2)
    for name in ("P__JOB", "JOB", "job", "p/job"):
        with pytest.raises(AmbiguousDatabaseError):
            catalog.database(name)


# ---- aliases ----


@pytest.fixture
def two(tmp_path: Path) -> Catalog:
    """Two roots: `prod` with two jobs, `lab` with a folder that is called like the other root."""
    put(tmp_path / "p" / "eu" / "orders" / "chk-1", 1, NOON)
    put(tmp_path / "p" / "us" / "orders" / "chk-2", 2, NOON + 60)
    put(tmp_path / "p" / "eu" / "orders" / "chk-0", 2, NOON - 60)
    put(tmp_path / "l" / "prod" / "eu" / "chk-9", 1, NOON - 119)
    put(tmp_path / "l" / "latest", 1, NOON - 180)
    put(tmp_path / "l" / "my job" / "chk-7", 1, NOON - 120)
    return live(Root(path=str(tmp_path / "p"), label="prod"), Root(path=str(tmp_path / "l"), label="lab"))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("chk-1", "prod__eu__orders__chk-1"),
        ("Orders/CHK-1", "prod__eu__orders__chk-1"),
        ("orders__chk-1", "prod__eu__orders__chk-1"),
        ("eu/orders/chk-1", "prod__eu__orders__chk-1"),
        ("prod/eu/orders/chk-1", "prod__eu__orders__chk-1"),
        ("prod/2026-09-01T12:00:00Z/eu/orders/chk-1", "prod__eu__orders__chk-1"),
        ("prod/2026-09-01T14:00:00+02/eu/orders/chk-1", "prod__eu__orders__chk-1"),
        ("lab/prod/eu/chk-9", "lab__prod__eu__chk-9"),
        ("eu/chk-9", "lab__prod__eu__chk-9"),
        ("my job/chk-7", "lab__my~20job__chk-7"),
        ("my~20job__chk-7", "lab__my~20job__chk-7"),
        ("my job_latest", "lab__my~20job__chk-7"),
        ("my~20job_latest", "lab__my~20job__chk-7"),
        ("latest", "prod__us__orders__chk-2"),
        ("prod_latest", "prod__us__orders__chk-2"),
        ("lab_latest", "lab__prod__eu__chk-9"),
        ("lab/latest", "lab__latest"),
        ("eu_latest", "lab__prod__eu__chk-9"),
    ],
)
def test_an_alias_means_the_one_database_that_it_may_mean(two: Catalog, alias: str, name: str) -> None:
    schema = two.schema(alias)

    assert (schema.alias_of, schema.database.name) == (name, name)
    assert alias not in two.schema_names or alias.endswith("latest")


@pytest.mark.parametrize(
    "name",
    [
        # What begins with a label is under that root, or nothing: a folder of another root can't take it.
        "prod/eu/chk-9",
        "prod__eu__chk-9",
        "prod",
        "prod/2026-09-01T12:00:01Z/eu/orders/chk-1",
        "rders/chk-1",
        "hk-1",
        "_latest",
        "",
    ],
)
def test_what_is_no_alias(two: Catalog, name: str) -> None:
    with pytest.raises(NoSuchDatabaseError):
        two.database(name)


def test_two_jobs_of_one_name_have_no_common_latest(two: Catalog) -> None:
    with pytest.raises(AmbiguousDatabaseError) as error:
        two.database("orders_latest")

    # The newest of each.
    assert error.value.candidates == ("prod__eu__orders__chk-1", "prod__us__orders__chk-2")


def test_an_alias_is_told_apart_among_what_a_user_sees(two: Catalog) -> None:
    seen = two.visible(lambda name: name.startswith("prod__us__"))

    assert seen.database("orders_latest").name == "prod__us__orders__chk-2"
    with pytest.raises(NoSuchDatabaseError) as error:
        seen.database("chk-1")
    assert error.value.near == ("prod__us__orders__chk-2",)


def test_a_name_like_the_end_of_a_path_is_suggested_as_a_whole(two: Catalog) -> None:
    with pytest.raises(NoSuchDatabaseError) as error:
        two.database("chk-77")

    assert "lab__my~20job__chk-7" in error.value.near


# ---- roots ----


def test_two_roots_of_one_label_are_refused_with_labels_that_help(tmp_path: Path) -> None:
    one, other = (put(tmp_path / job / "savepoints" / "chk-1").parent for job in ("jobA", "jobB"))

    with pytest.raises(ConflictingRootsError) as error:
        Catalog([Root(path=str(one)), Root(path=str(other))])
    assert str(error.value) == (
        f"expected a different label for each folder, found 'savepoints' of {one}, 'savepoints' of {other}; "
        f"label them: jobA={one} jobB={other}"
    )
    with pytest.raises(ConflictingRootsError) as error:
        Catalog([Root(path=str(one), label="job"), Root(path=str(other), label="JOB")])
    assert error.value.suggestions == (f"jobA={one}", f"jobB={other}")
    assert Catalog([Root(path=str(one), label="jobA"), Root(path=str(other))]).databases == [
        "jobA__chk-1",
        "savepoints__chk-1",
    ]


@pytest.mark.parametrize("inner", ["", "job", "job/chk-1/_metadata"])
def test_a_root_inside_another_is_refused(tmp_path: Path, inner: str) -> None:
    put(tmp_path / "job" / "chk-1")
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)

    for roots in (
        [Root(path=str(tmp_path), label="a"), Root(path=str(tmp_path / inner), label="b")],
        [Root(path=f"{tmp_path}-link/{inner}", label="a"), Root(path=str(tmp_path), label="b")],
    ):
        with pytest.raises(ConflictingRootsError, match="leave one of them out"):
            Catalog(roots)


def test_a_label_is_one_part_of_a_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidDatabaseNameError, match="expected a label without a slash, found 'a/b'"):
        Catalog([Root(path=str(tmp_path), label="a/b")])


def test_no_name_can_be_registered_that_a_savepoint_under_a_root_may_get(tmp_path: Path) -> None:
    put(tmp_path / "prod" / "chk-1")
    other = str(put(tmp_path / "other" / "chk-2", 2))
    catalog = live(Root(path=str(tmp_path / "prod")))

    for name in ("PROD", "prod__chk-2"):
        with pytest.raises(DuplicateDatabaseError):
            catalog.add(name, other)
    catalog.add("production", other)
    assert catalog.databases == ["prod__chk-1", "production"]


# ---- age and job ----


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("3f2a/chk-4", "3f2a"),
        ("jobs/3f2a/savepoint-ab12cd-0123456789ab", "ab12cd"),
        ("nightly/savepoint-42", "nightly"),
        ("chk-1", "prod"),
    ],
)
def test_a_database_knows_its_age_and_its_job(tmp_path: Path, path: str, job: str) -> None:
    put(tmp_path / path, modified_s=NOON)

    [name] = (catalog := Catalog([Root(path=str(tmp_path), label="prod")])).databases
    database = catalog.database(name)

    assert (database.job.title, database.created_at) == (job, datetime(2026, 9, 1, 12, tzinfo=UTC))
    assert not database.is_described


def test_a_savepoint_that_is_the_root_or_was_registered_knows_them_too(tmp_path: Path) -> None:
    path = put(tmp_path / "3f2a" / "chk-4")
    registered = Catalog().add("mine", str(path))

    for database in (connect(path).database("chk-4"), registered):
        assert (database.job.title, database.created_at) == ("3f2a", datetime(2026, 9, 1, 12, tzinfo=UTC))


def test_the_age_of_a_remote_savepoint_takes_no_request_of_its_own(store: ObjectStore, proxy: Proxy) -> None:
    content = (CHECKPOINTS / "chk-1" / "_metadata").read_bytes()
    for key in ("ages/3f2a/chk-1", "ages/one"):
        store.put(f"{key}/_metadata", content)
        store.modify(f"{key}/_metadata", NOON)
    below, alone = Catalog([Root(path=proxy.url("ages/3f2a"))]), connect(proxy.url("ages/one"))
    added = Catalog().add("added", proxy.url("ages/one"))
    proxy.taken()

    found = [below.database("3f2a__chk-1"), alone.database("one"), added]

    assert [one.created_at for one in found] == [datetime(2026, 9, 1, 12, tzinfo=UTC)] * 3
    assert [one.job.title for one in found] == ["3f2a", "ages", "ages"]
    assert proxy.taken() == []
