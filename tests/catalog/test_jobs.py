"""Which savepoints belong to which job, by their paths alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import (
    Catalog,
    CheckpointFacts,
    Database,
    Job,
    JobFacts,
    NoSuchDatabaseError,
    NoSuchJobError,
    Root,
)
from catalog.errors import AmbiguousDatabaseError, AmbiguousJobError
from catalog.history import jobs_of
from catalog.references import NO_FACTS, SavepointReference, database_name, job_place
from tests.support.checkpoints import NOON, put

ID = "3f2a91c0d1e2f30415263748596a7b8c"
OTHER = "00000000000000000000000000000000"


def jobs(*paths: str, label: str = "prod", root: str = "/root") -> dict[str, list[str]]:
    """Name of the job → the paths of its databases, as names below the root."""
    return {job.name: [one.name for one in job.databases] for job in found(*paths, label=label, root=root)}


def found(*paths: str, label: str = "prod", root: str = "/root") -> list[Job]:
    return jobs_of([database(path, label, root) for path in paths], NO_FACTS)


def database(path: str, label: str = "prod", root: str = "/root", modified_ns: int = 0) -> Database:
    folders = tuple(path.split("/")) if path else ()
    whole = f"{root}/{path}".rstrip("/")
    return Database(
        database_name(label, folders),
        SavepointReference(path=whole),
        modified_ns=modified_ns,
        job=job_place(label, folders, whole),
    )


# ---- grouping ----


def test_the_checkpoints_of_a_folder_are_of_one_job_the_newest_first() -> None:
    assert jobs("jobA/chk-9", "jobA/chk-10", "us/jobB/chk-1") == {
        "prod__jobA": ["prod__jobA__chk-10", "prod__jobA__chk-9"],
        "prod__us__jobB": ["prod__us__jobB__chk-1"],
    }


@pytest.mark.parametrize(("moment", "place"), [(10, 4), (30, 1), (70, 0)])
def test_a_savepoint_takes_its_place_by_time_and_checkpoints_stay_in_order(moment: int, place: int) -> None:
    # A copy of chk-3 was made before those of chk-1 and chk-2.
    times = {"chk-1": 40, "chk-2": 50, "chk-3": 20, "chk-4": 60, "nightly": moment}
    expected = ["chk-4", "chk-3", "chk-2", "chk-1"]
    expected.insert(place, "nightly")

    [job] = jobs_of([database(f"job/{name}", modified_ns=at) for name, at in times.items()], NO_FACTS)

    assert [one.folder for one in job.databases] == expected


def test_a_savepoint_joins_the_only_job_whose_id_begins_with_its_digits() -> None:
    paths = (f"checkpoints/{ID}/chk-4", "savepoints/savepoint-3f2a91-0c1d2e3f4a5b")

    assert jobs(*paths) == {
        f"prod__checkpoints__{ID}": [
            f"prod__checkpoints__{ID}__chk-4",
            "prod__savepoints__savepoint-3f2a91-0c1d2e3f4a5b",
        ]
    } or jobs(*paths) == {
        f"prod__checkpoints__{ID}": [
            "prod__savepoints__savepoint-3f2a91-0c1d2e3f4a5b",
            f"prod__checkpoints__{ID}__chk-4",
        ]
    }


def test_a_savepoint_joins_none_of_two_jobs() -> None:
    paths = (
        f"a/{ID}/chk-4",
        f"b/{ID}/chk-4",
        "savepoint-3f2a91-0c1d2e3f4a5b",
        "savepoint-3f2a91-ffffffffffff",
    )

    assert jobs(*paths) == {
        f"prod__a__{ID}": [f"prod__a__{ID}__chk-4"],
        f"prod__b__{ID}": [f"prod__b__{ID}__chk-4"],
        "prod__savepoint-3f2a91": [
            "prod__savepoint-3f2a91-ffffffffffff",
            "prod__savepoint-3f2a91-0c1d2e3f4a5b",
        ],
    }


def test_savepoints_of_several_jobs_in_one_folder_do_not_mix() -> None:
    paths = ("sp/savepoint-3f2a91-0c1d2e3f4a5b", "sp/savepoint-3f2a92-0c1d2e3f4a5b")

    assert list(jobs(*paths)) == ["prod__sp__savepoint-3f2a91", "prod__sp__savepoint-3f2a92"]


def test_a_folder_that_is_called_like_savepoints_of_a_job_is_another_job() -> None:
    paths = ("savepoint-3f2a91-0c1d2e3f4a5b", "savepoint-3f2a91/chk-1")

    assert jobs(*paths) == {
        "prod__savepoint-3f2a91": ["prod__savepoint-3f2a91__chk-1"],
        "prod__~savepoint-3f2a91": ["prod__savepoint-3f2a91-0c1d2e3f4a5b"],
    }


def test_folders_of_one_name_are_two_jobs() -> None:
    two = [*found("us/orders/chk-1", "eu/orders/chk-1"), *found("orders/chk-1", label="lab")]

    assert [job.title for job in two] == ["orders"] * 3
    assert len({job.name for job in two}) == 3


def test_roots_of_one_folder_name_are_two_jobs(tmp_path: Path) -> None:
    for place in ("a", "b"):
        put(tmp_path / place / "job" / "chk-1")

    one, other = Catalog([Root(path=str(tmp_path / place / "job"), label=place) for place in "ab"]).jobs()

    assert [(job.name, job.databases[0].name) for job in (one, other)] == [
        ("a", "a__chk-1"),
        ("b", "b__chk-1"),
    ]


def test_a_root_that_is_the_folder_of_a_job_has_the_id_of_its_path() -> None:
    [job] = found("chk-1", "chk-2", root=f"/flink/{ID}")

    assert (job.name, job.title, job.job_id) == ("prod", "prod", ID)


def test_a_root_that_is_a_savepoint_is_a_job() -> None:
    [job] = found("", root="/flink/jobA/chk-7")

    assert (job.name, job.title, job.history) == ("prod", "jobA", "prod__history")


_FOLDERS = st.sampled_from(
    [
        "a",
        "A",
        "chk-1",
        "chk-02",
        ID,
        OTHER,
        "history",
        "savepoint-3f2a91",
        "savepoint-3f2a91-ab",
        "~history",
        "_x",
    ]
)
_PATHS = st.sets(st.lists(_FOLDERS, min_size=1, max_size=3).map("/".join), max_size=12)


@given(_PATHS)
def test_every_database_is_of_one_job_and_names_are_unique(paths: set[str]) -> None:
    made = found(*paths)

    assert sorted(one.name for job in made for one in job.databases) == sorted(
        database_name("prod", path.split("/")) for path in paths
    )
    assert len({job.name for job in made}) == len(made)
    taken = {database_name("prod", path.split("/")).casefold() for path in paths}
    assert taken.isdisjoint(job.history.casefold() for job in made)
    assert len({job.history for job in made}) == len(made)


@given(_PATHS, st.lists(_FOLDERS, min_size=1, max_size=3).map("/".join))
def test_what_else_is_there_renames_no_folder_of_checkpoints(paths: set[str], more: str) -> None:
    before, after = found(*paths), found(*{*paths, more})

    own = {job.name for job in before if any(one.job.id_prefix is None for one in job.databases)}
    assert own <= {job.name for job in after}


# ---- names ----


def test_a_job_is_found_by_name_id_and_title(tmp_path: Path) -> None:
    put(tmp_path / "flink" / ID / "chk-1")
    put(tmp_path / "orders" / "chk-1")
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])

    for name in (f"prod__flink__{ID}", f"PROD__flink__{ID}", ID):
        assert catalog.job(name).job_id == ID
    assert catalog.job("Orders") == catalog.job("prod__orders")
    with pytest.raises(NoSuchJobError, match="no job 'ordres'; near: orders"):
        catalog.job("ordres")


def test_a_title_of_two_jobs_names_none(tmp_path: Path) -> None:
    for place in ("eu", "us"):
        put(tmp_path / place / "orders" / "chk-1")
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])

    with pytest.raises(AmbiguousJobError) as error:
        catalog.job("orders")
    with pytest.raises(AmbiguousDatabaseError) as of_history:
        catalog.schema("orders__history")

    assert error.value.candidates == ("prod__eu__orders", "prod__us__orders")
    assert of_history.value.candidates == ("prod__eu__orders__history", "prod__us__orders__history")


def test_a_user_sees_the_jobs_of_what_is_visible(tmp_path: Path) -> None:
    put(tmp_path / ID / "chk-1")
    put(tmp_path / ID / "chk-2", 2)
    put(tmp_path / "savepoint-3f2a91-0c1d2e3f4a5b")
    put(tmp_path / "secret" / "chk-1")
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])

    some = catalog.visible(lambda name: name.endswith("chk-1") and "secret" not in name)
    only = catalog.visible(lambda name: "savepoint" in name)

    assert [(job.name, [one.name for one in job.databases]) for job in some.jobs()] == [
        (f"prod__{ID}", [f"prod__{ID}__chk-1"])
    ]
    # The name of the job would say what else there is.
    assert [(job.name, job.job_id) for job in only.jobs()] == [("prod__savepoint-3f2a91", None)]
    for name in ("prod__secret", "secret"):
        with pytest.raises(NoSuchJobError):
            some.job(name)
        with pytest.raises(NoSuchDatabaseError):
            some.schema(f"{name}__history")


@pytest.mark.slow
def test_jobs_of_three_thousand_checkpoints_open_nothing(tmp_path: Path) -> None:
    for number in range(3000):
        folder = tmp_path / f"job-{number % 3}" / f"chk-{number}"
        folder.mkdir(parents=True)
        (folder / "_metadata").write_bytes(b"no savepoint")
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])

    made = catalog.jobs()

    assert [(job.name, len(job.databases)) for job in made] == [
        (f"prod__job-{one}", 1000) for one in range(3)
    ]
    assert made[0].databases[0].name == "prod__job-0__chk-2997"
    assert not any(one.is_described for job in made for one in job.databases)


# ---- what a cluster says ----


def test_a_cluster_names_jobs_and_dates_checkpoints(tmp_path: Path) -> None:
    chk, savepoint = put(tmp_path / "ck" / ID / "chk-1"), put(tmp_path / "mine" / "nightly", 2)
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])
    triggered = datetime(2026, 9, 1, 11, 59, 30, tzinfo=UTC)

    catalog.learn(
        JobFacts(
            job_id=ID,
            name="Word Count",
            state="RUNNING",
            checkpoints={
                f"file:{chk}": CheckpointFacts(
                    checkpoint_id=1, kind="CHECKPOINT", created_at=triggered, status="COMPLETED"
                ),
                str(savepoint): CheckpointFacts(checkpoint_id=2, kind="SAVEPOINT"),
            },
        )
    )

    [job] = catalog.jobs()
    facts = catalog.visible(lambda _name: True).facts_of(job)
    assert facts is not None
    assert (facts.name, facts.state) == ("Word Count", "RUNNING")
    assert catalog.database("chk-1").created_at == triggered
    assert catalog.database("nightly").created_at == datetime.fromtimestamp(NOON + 2, UTC)
    assert (job.name, {one.name for one in job.databases}) == (
        f"prod__ck__{ID}",
        {f"prod__ck__{ID}__chk-1", "prod__mine__nightly"},
    )


def test_what_a_cluster_says_anew_replaces_what_it_said(tmp_path: Path) -> None:
    chk = put(tmp_path / ID / "chk-1")
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])
    then = datetime(2026, 9, 1, tzinfo=UTC)
    made = CheckpointFacts(checkpoint_id=1, kind="CHECKPOINT", created_at=then)

    catalog.learn(JobFacts(job_id=ID, checkpoints={str(chk): made}))
    before = catalog.database("chk-1").created_at
    catalog.learn(JobFacts(job_id=ID))

    assert before == then
    assert catalog.database("chk-1").created_at == datetime.fromtimestamp(NOON + 1, UTC)


def test_a_database_is_readable_or_not_and_has_an_age(tmp_path: Path) -> None:
    put(tmp_path / "job" / "chk-1")
    (put(tmp_path / "job" / "chk-2", 2) / "_metadata").write_bytes(b"no savepoint")
    newest, oldest = Catalog([Root(path=str(tmp_path), label="prod")]).job("job").databases

    assert (newest.readable, oldest.readable) == (False, True)
    assert oldest.age is not None
    assert oldest.lineage is not None
