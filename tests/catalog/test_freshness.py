"""`latest` and `<label>_latest`: which checkpoint they stand for, on checkpoints that Flink wrote."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from catalog import NoSuchDatabaseError
from catalog.aliases import Schema
from catalog.catalog import Catalog, Root
from tests.support.objectstore import ObjectStore, Proxy
from tests.support.paths import DATA

CHECKPOINTS = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
OF_CHECKPOINT = {1: 6774, 2: 11290}
"""The count of `key_662` in each."""


def put(root: Path, name: str, number: int, modified_s: int) -> Path:
    """Copy a checkpoint, with a `_metadata` that was modified at a time."""
    folder = root / name
    shutil.copytree(CHECKPOINTS / f"chk-{number}", folder)
    shutil.copytree(CHECKPOINTS / "shared", root / "shared", dirs_exist_ok=True)
    os.utime(folder / "_metadata", (modified_s, modified_s))
    return folder


def count(catalog: Catalog, name: str) -> int:
    rows = catalog.database(name).table("aggregate").scan(columns=["value"], key="key_662").to_arrow()
    [value] = rows.column("value").to_pylist()
    return int(value)


def aliases(catalog: Catalog) -> dict[str, str | None]:
    return {schema.name: schema.alias_of for schema in catalog.schemas() if schema.alias_of is not None}


def test_of_several_folders_the_latest_is_what_was_modified_last_whatever_its_name_and_number(
    tmp_path: Path,
) -> None:
    put(tmp_path / "a", "chk-1", 1, 2000)
    put(tmp_path / "b", "chk-2", 2, 1000)
    catalog = Catalog([Root(path=str(tmp_path), label="r")])

    assert count(catalog, "latest") == count(catalog, "LATEST") == OF_CHECKPOINT[1]
    assert catalog.schema_names == ["r__a__chk-1", "r__b__chk-2", "latest", "r_latest"]
    assert catalog.databases == ["r__a__chk-1", "r__b__chk-2"]
    assert aliases(catalog) == {"latest": "r__a__chk-1", "r_latest": "r__a__chk-1"}
    assert (catalog.database("latest").name, catalog.database("latest").checkpoint_id) == ("r__a__chk-1", 1)


@pytest.mark.parametrize(
    "times", [{1: 10, 10: 20, 2: 30, 9: 40}, {10: 10, 9: 20, 2: 30, 1: 40}, dict.fromkeys((1, 2, 9, 10), 10)]
)
def test_in_a_copied_folder_of_checkpoints_the_highest_number_is_the_latest(
    tmp_path: Path, times: dict[int, int]
) -> None:
    for number, modified_s in times.items():
        put(tmp_path / "job", f"chk-{number}", 1 + number % 2, modified_s)
    catalog = Catalog([Root(path=str(tmp_path), label="r")])

    for alias in ("latest", "r_latest", "job_latest"):
        assert catalog.database(alias).name == "r__job__chk-10"
    assert [one.folder for one in catalog.job("job").databases] == ["chk-10", "chk-9", "chk-2", "chk-1"]
    # The others are not read.
    assert [one.folder for one in catalog.known() if one.is_described] == ["chk-10"]


def test_a_copied_checkpoint_makes_its_job_no_newer_than_another(tmp_path: Path) -> None:
    put(tmp_path / "old", "chk-1", 1, 9000)
    put(tmp_path / "old", "chk-2", 2, 1000)
    put(tmp_path / "new", "chk-1", 1, 2000)

    assert Catalog([Root(path=str(tmp_path), label="r")]).database("latest").name == "r__new__chk-1"


def test_of_those_modified_at_once_the_highest_checkpoint_is_the_latest(tmp_path: Path) -> None:
    put(tmp_path, "chk-a", 2, 1000)
    put(tmp_path, "chk-b", 1, 1000)
    put(tmp_path, "chk-c", 2, 999)
    (put(tmp_path, "chk-d", 1, 1000) / "_metadata").write_bytes(b"not one")
    os.utime(tmp_path / "chk-d" / "_metadata", (1000, 1000))

    assert aliases(Catalog([Root(path=str(tmp_path), label="r")]))["latest"] == "r__chk-a"


def test_the_latest_is_the_newest_that_can_be_read_and_the_log_names_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "chk-1", 1, 1000)
    put(tmp_path, "chk-2", 2, 2000)
    for name, modified_s in (("chk-3", 3000), ("chk-4", 4000)):
        metadata = put(tmp_path, name, 2, modified_s) / "_metadata"
        metadata.write_bytes(metadata.read_bytes()[:1000])
        os.utime(metadata, (modified_s, modified_s))
    catalog = Catalog([Root(path=str(tmp_path))])

    assert count(catalog, "latest") == OF_CHECKPOINT[2]
    assert count(catalog, "latest") == OF_CHECKPOINT[2]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "chk-4 is newer, but: expected" in said[0]
    assert "chk-3 is newer, but: expected" in said[1]


def test_only_the_newest_metadata_is_read_where_the_times_tell(tmp_path: Path) -> None:
    put(tmp_path, "chk-1", 1, 1000)
    put(tmp_path, "chk-2", 2, 2000)
    catalog = Catalog([Root(path=str(tmp_path), label="r")])

    found = catalog.schemas()

    assert [schema.database.is_described for schema in found] == [False, True, True, True]


def test_every_label_has_a_latest_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / "p", "chk-1", 2, 1000)
    put(tmp_path / "p", "chk-2", 1, 3000)
    put(tmp_path / "s", "chk-3", 2, 2000)
    put(tmp_path / "bare", "chk-4", 2, 500)

    catalog = Catalog(
        [
            Root(path=str(tmp_path / "p"), label="Prod"),
            Root(path=str(tmp_path / "s"), label="staging"),
            Root(path=str(tmp_path / "bare")),
        ]
    )

    assert aliases(catalog) == {
        "latest": "Prod__chk-2",
        "Prod_latest": "Prod__chk-2",
        "staging_latest": "staging__chk-3",
        "bare_latest": "bare__chk-4",
    }
    assert count(catalog, "prod_LATEST") == OF_CHECKPOINT[1]
    assert count(catalog, "staging_latest") == OF_CHECKPOINT[2]


def test_an_only_root_without_a_label_lists_one_latest(tmp_path: Path) -> None:
    put(tmp_path / "a", "chk-1", 1, 1000)
    put(tmp_path / "a", "chk-2", 2, 2000)
    catalog = Catalog([Root(path=str(tmp_path / "a"))])

    assert aliases(catalog) == {"latest": "a__chk-2"}
    assert catalog.schema("A_latest") == Schema("a_latest", catalog.database("a__chk-2"))


def test_roots_that_are_savepoints_have_one_latest(tmp_path: Path) -> None:
    roots = [Root(path=str(put(tmp_path, f"chk-{number}", number, number))) for number in (1, 2)]

    assert aliases(Catalog(roots)) == {"latest": "chk-2"}


def test_a_catalog_of_one_keeps_its_default_and_lists_no_alias(tmp_path: Path) -> None:
    put(tmp_path, "chk-1", 1, 1000)
    catalog = Catalog([Root(path=str(tmp_path), label="job")])

    assert catalog.default is catalog.database("chk-1")
    assert catalog.schemas() == [Schema("job__chk-1", catalog.database("chk-1"))]
    # A job that keeps one checkpoint has a dashboard, too.
    assert catalog.database("latest") is catalog.database("job_latest") is catalog.database("chk-1")


def test_a_catalog_of_none_has_no_latest(tmp_path: Path) -> None:
    catalog = Catalog([Root(path=str(tmp_path), label="r")])

    assert catalog.schemas() == []
    with pytest.raises(NoSuchDatabaseError):
        catalog.database("latest")


def test_a_root_that_has_the_name_wins_and_a_folder_does_not(tmp_path: Path) -> None:
    put(tmp_path / "r", "Latest", 1, 1000)
    put(tmp_path / "r", "chk-2", 2, 2000)
    below = Catalog([Root(path=str(tmp_path / "r"))])
    roots = Catalog([Root(path=str(tmp_path / "r" / name)) for name in ("Latest", "chk-2")])

    assert below.database("latest").name == below.database("LATEST").name == "r__chk-2"
    assert roots.schema_names == ["Latest", "chk-2"]
    assert (roots.database("latest").name, roots.database("LATEST").checkpoint_id) == ("Latest", 1)
    assert aliases(roots) == {}


def test_a_registered_name_wins_and_counts_for_no_alias(tmp_path: Path) -> None:
    put(tmp_path / "root", "chk-0", 1, 900)
    put(tmp_path / "root", "chk-1", 1, 1000)
    registered = put(tmp_path / "other", "chk-9", 2, 9000)
    catalog = Catalog([Root(path=str(tmp_path / "root"), label="job")])

    catalog.add("mine", str(registered))
    assert aliases(catalog) == {"latest": "job__chk-1", "job_latest": "job__chk-1"}
    catalog.add("latest", str(registered))

    assert aliases(catalog) == {"job_latest": "job__chk-1"}
    assert count(catalog, "latest") == OF_CHECKPOINT[2]


def test_a_user_who_may_not_see_the_newest_gets_the_newest_visible_one(tmp_path: Path) -> None:
    put(tmp_path, "chk-0", 2, 500)
    put(tmp_path, "chk-1", 1, 1000)
    put(tmp_path, "secret", 2, 2000)
    catalog = Catalog([Root(path=str(tmp_path), label="job")])

    some = catalog.visible(lambda name: name.startswith("job__chk-"))
    alias_only = catalog.visible(lambda name: name in ("latest", "job_latest"))

    assert aliases(catalog) == {"latest": "job__secret", "job_latest": "job__secret"}
    assert aliases(some) == {"latest": "job__chk-1", "job_latest": "job__chk-1"}
    assert count(some, "latest") == OF_CHECKPOINT[1]
    assert alias_only.schemas() == []
    for name in ("latest", "job_latest", "secret"):
        with pytest.raises(NoSuchDatabaseError) as error:
            alias_only.database(name)
        assert error.value.near == ()


def test_a_new_checkpoint_is_the_latest_at_once_but_not_for_a_query_that_began_before(tmp_path: Path) -> None:
    put(tmp_path, "chk-1", 1, 1000)
    catalog = Catalog([Root(path=str(tmp_path), label="r")], rescan_after_s=0)
    view = catalog.visible(lambda _name: True)
    assert count(view, "latest") == OF_CHECKPOINT[1]

    put(tmp_path, "chk-2", 2, 2000)

    assert count(catalog, "latest") == OF_CHECKPOINT[2]
    assert count(catalog.visible(lambda _name: True), "latest") == OF_CHECKPOINT[2]
    assert count(view, "latest") == OF_CHECKPOINT[1]


def test_a_removed_checkpoint_is_the_latest_no_more_though_the_next_look_is_far(tmp_path: Path) -> None:
    put(tmp_path, "chk-1", 1, 1000)
    put(tmp_path, "chk-2", 2, 2000)
    catalog = Catalog([Root(path=str(tmp_path), label="r")], rescan_after_s=3600)
    never = Catalog([Root(path=str(tmp_path), label="r")])

    (tmp_path / "chk-2").rename(tmp_path.parent / f"{tmp_path.name}-away")

    assert catalog.schema("latest") == Schema("latest", catalog.database("chk-1"))
    assert catalog.databases == ["r__chk-1"]
    assert never.database("latest").name == "r__chk-2"


def test_the_times_of_remote_checkpoints_are_those_of_their_listing(store: ObjectStore, proxy: Proxy) -> None:
    for number, name in enumerate(("chk-3", "chk-1", "chk-2")):
        content = (CHECKPOINTS / "chk-1" / "_metadata").read_bytes()
        store.put(f"fresh/a/{name}/_metadata", content)
        store.modify(f"fresh/a/{name}/_metadata", 1_000_000 + number)
    for number in range(20):
        store.put(f"fresh/b/chk-{number}/_metadata", content)
        store.modify(f"fresh/b/chk-{number}/_metadata", 2_000_000 - number)
    roots = [Root(path=proxy.url(f"fresh/{label}"), label=label) for label in ("a", "b")]
    alone = [Root(path=proxy.url(f"fresh/a/{name}"), label=name) for name in ("chk-1", "chk-2", "chk-3")]

    many, some = Catalog(roots), Catalog(alone)
    proxy.taken()

    assert aliases(many) == {"latest": "b__chk-0", "a_latest": "a__chk-2", "b_latest": "b__chk-0"}
    assert aliases(some)["latest"] == "chk-2"
    # Whether the newest one can be read is what its `_metadata` tells; the others are not asked.
    asked = {re.search(r"fresh/([ab]/chk-\d+)", str(request))[1] for request in proxy.taken()}  # type: ignore[index]
    assert asked == {"a/chk-2", "b/chk-0"}
