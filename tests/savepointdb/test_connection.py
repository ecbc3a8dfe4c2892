"""`connect`: one savepoint, several, none; what is there, and how it is shown."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import savepointdb
from tests.support.objectstore import ObjectStore, Proxy
from tests.support.paths import DATA, PROJECT

WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
HASHMAP = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints"
TABLES = [
    "StateMeta",
    "operators",
    "files",
    "source_offsets",
    "timers",
    "restore_check",
    "required_classes",
    "xray",
    "xray_keys",
    "xray_largest",
    "xray_orphan_timers",
    "mod7-no-uid",
    "mod7-no-uid__seen",
    "mod7-no-uid__wide",
    "aggregate",
    "aggregate__count",
    "aggregate__wide",
    "source",
    "source__topic-partition-offset-states",
]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder of a job with two checkpoints, the second newer."""
    for number in (1, 2):
        shutil.copytree(WORDCOUNT, tmp_path / "jobA" / f"chk-{number}")
        os.utime(tmp_path / "jobA" / f"chk-{number}" / "_metadata", (number * 1000, number * 1000))
    return tmp_path / "jobA"


def test_an_import_loads_nothing_heavy() -> None:
    code = "import savepointdb, sys; print(sorted({'pyarrow', 'duckdb', 'numba', 'numpy', 'readers', 'service'} & sys.modules.keys()))"

    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    assert loaded.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_list_of_tables_needs_neither_an_engine_nor_the_decoder() -> None:
    code = (
        "import savepointdb, sys\n"
        f"savepointdb.connect({str(WORDCOUNT)!r}).tables\n"
        "print(sorted({'duckdb', 'numba', 'pandas'} & sys.modules.keys()))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    assert loaded.stdout.strip() == "[]"


def test_the_package_names_what_it_has() -> None:
    assert set(savepointdb.__all__) <= set(dir(savepointdb))
    assert all(hasattr(savepointdb, name) for name in savepointdb.__all__)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        savepointdb.conect  # type: ignore[attr-defined]  # noqa: B018  # what a user mistypes


def test_a_savepoint_has_its_tables(db: savepointdb.Connection) -> None:
    assert db.tables == TABLES
    assert list(db) == TABLES
    assert db._ipython_key_completions_() == TABLES
    assert db.databases == ["native"]
    assert "aggregate" in db
    assert "AGGREGATE" in db
    assert "aggregat" not in db
    assert 5 not in db


def test_a_connection_says_what_is_there(db: savepointdb.Connection) -> None:
    title, facts, _, _, *rows, others = repr(db).splitlines()

    assert title == f"savepointdb: {WORDCOUNT}"
    assert re.fullmatch(
        r"savepoint 2, .+ \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\), job \S+, written by Flink 2.1 or newer",
        facts,
    )
    assert rows == [
        "  mod7-no-uid__seen                      VALUE          Integer  Long                           2.2 kB  decoded",
        "  aggregate__count                       VALUE          String   Long                           16 kB   decoded",
        "  source__topic-partition-offset-states  OPERATOR_LIST           Tuple3<String, Integer, Long>  72 B    decoded",
    ]
    facts_and_operators = [name for name in TABLES if "__" not in name or name.endswith("__wide")]
    assert others == f"  also: {', '.join(facts_and_operators)}"


def test_a_table_says_what_it_is(db: savepointdb.Connection) -> None:
    table = db["aggregate__count"]

    assert repr(table).splitlines() == [
        '"native"."aggregate__count": state count of operator aggregate; 5 columns, about 41 kB to read',
        "  key         VARCHAR",
        "  namespace   VARCHAR",
        "  value       BIGINT",
        "  _key_group  INTEGER",
        "  _subtask    INTEGER",
    ]
    assert table.columns == table.schema.names
    assert "<strong>&quot;native&quot;.&quot;aggregate__count&quot;" in table._repr_html_()


def test_an_unknown_table_has_near_names(db: savepointdb.Connection) -> None:
    with pytest.raises(savepointdb.TableNotFoundError) as raised:
        db["agregate"]

    assert str(raised.value) == (
        'there is no table \'agregate\' (did you mean "aggregate" or "aggregate__wide" or "aggregate__count"?)'
    )


def test_a_folder_has_a_database_each(job: Path) -> None:
    with savepointdb.connect(job) as db:
        assert db.databases == ["jobA__chk-1", "jobA__chk-2", "latest"]
        assert db.sql("SELECT count(*) FROM latest.aggregate").fetchall() == [(1000,)]
        assert db.database().tables == TABLES
        assert db.database("chk-1").sql("SELECT count(*) FROM aggregate").fetchall() == [(1000,)]
        assert repr(db.database()["aggregate"]).startswith('"jobA__chk-2"."aggregate"')
        assert repr(db.table("aggregate", database="chk-1")).startswith('"jobA__chk-1"."aggregate"')
        assert repr(db).splitlines() == [
            f"savepointdb: 2 databases in {job}",
            "  jobA__chk-1",
            "  jobA__chk-2",
            "  latest",
        ]
    with savepointdb.connect(job, database="latest") as db:
        assert db.sql("SELECT count(*) FROM aggregate").fetchall() == [(1000,)]


def test_tables_of_a_folder_are_those_of_its_newest_savepoint(job: Path) -> None:
    with savepointdb.connect(job) as db:
        with pytest.warns(savepointdb.QueryWarning) as warned:
            assert db.sql("SELECT count(*) FROM aggregate").fetchall() == [(1000,)]
        assert db.tables == TABLES
        assert repr(db["aggregate"]).startswith('"jobA__chk-2"."aggregate"')
        assert db["aggregate"].scan(where="value > 190").fetchone() is not None
        with pytest.raises(savepointdb.DatabaseNotFoundError, match="chk-9"):
            db.database("chk-9")

    assert [(str(one.message), one.filename) for one in warned] == [
        (
            'tables that name no database are read from "jobA__chk-2", the newest of 2; '
            "connect(…, database=…) names another",
            __file__,
        )
    ]
    with pytest.raises(savepointdb.DatabaseNotFoundError):
        savepointdb.connect(job, database="chk-9")


def test_new_checkpoints_appear(job: Path) -> None:
    with savepointdb.connect(job, rescan_after_s=0.0) as db:
        shutil.copytree(WORDCOUNT, job / "chk-3")

        assert "jobA__chk-3" in db.databases


def test_savepoints_are_opened_together_by_name(job: Path) -> None:
    with savepointdb.connect({"before": job / "chk-1", "after": str(job / "chk-2")}) as db:
        assert db.databases == ["before", "after", "latest"]
        joined = db.sql("SELECT count(*) FROM before.aggregate a JOIN after.aggregate b USING (key)")
        assert joined.fetchall() == [(1000,)]


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_path_without_savepoints_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(savepointdb.SavepointError, match=name):
        savepointdb.connect(tmp_path / name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"thread": 2}, "connect: expected a setting, found thread; is it threads?"),
        ({"threads": "two"}, "connect: threads: expected a value of type int, found 'two'"),
        ({"cache": "maybe"}, "cache: expected on or off, found 'maybe'"),
        ({"threads": -3}, "threads: expected what DuckDB takes, found -3: Must have at least 1 thread!"),
        (
            {"memory_limit": "4 elephants"},
            "memory_limit: expected what DuckDB takes, found '4 elephants': Unknown unit",
        ),
        ({"max_temp_size": "much"}, "max_temp_size: expected what DuckDB takes, found 'much': "),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(savepointdb.InvalidRequestError) as raised:
        savepointdb.connect(WORDCOUNT, **settings).sql("SELECT 1").fetchall()

    assert str(raised.value).startswith(message)


def test_what_is_no_path_is_refused() -> None:
    for path in ("", {}, {"a": ""}):
        with pytest.raises(savepointdb.InvalidRequestError, match="expected a path, found none"):
            savepointdb.connect(path)
    with pytest.raises(TypeError):
        savepointdb.connect(5)  # type: ignore[arg-type]  # what a user may give


def test_names_of_folders_are_escaped(tmp_path: Path) -> None:
    folder = shutil.copytree(WORDCOUNT, tmp_path / "<img src=x>\x1b[2J")

    with savepointdb.connect(folder) as db:
        html, text = db._repr_html_() + db["aggregate"]._repr_html_(), repr(db)
        assert db["aggregate"].scan(key="key_662", columns="value").fetchall() == [(11290,)]

    assert "<img" not in html
    assert "&lt;img src=x&gt;" in html
    assert "\x1b" not in html + text


def test_two_paths_in_one_another_are_refused(job: Path) -> None:
    with pytest.raises(savepointdb.InvalidRequestError, match="inside"):
        savepointdb.connect({"a": job, "b": job / "chk-1"})


def test_settings_reach_the_engine(db: savepointdb.Connection) -> None:
    with (
        savepointdb.connect(WORDCOUNT, max_scan_bytes=10) as limited,
        pytest.raises(savepointdb.QueryError, match="expected a query that reads at most 10 bytes"),
    ):
        limited.sql("SELECT * FROM aggregate").fetchall()

    with pytest.raises(savepointdb.QueryTimeoutError):
        db.sql("SELECT sum(i) FROM range(100000000000) t(i)", timeout_s=0.2).fetchall()


def test_a_closed_connection_says_so(db: savepointdb.Connection) -> None:
    answer = db.sql("SELECT 1")
    answer.fetchall()
    db.close()
    db.close()

    with pytest.raises(savepointdb.InvalidRequestError, match=r"the connection is closed \(connect again\)"):
        answer.fetchall()
    assert repr(db) == "savepointdb: the connection is closed (connect again)"


def test_a_connection_travels_to_another_process(db: savepointdb.Connection) -> None:
    with pickle.loads(pickle.dumps(db)) as copy:
        assert copy.sql("SELECT count(*) FROM aggregate").fetchall() == [(1000,)]


def test_a_savepoint_in_an_object_store_is_opened(store: ObjectStore, proxy: Proxy) -> None:
    url = proxy.url(store.upload(WORDCOUNT, "python/savepoint-1"))

    with savepointdb.connect(url) as db:
        assert db.sql("SELECT value FROM aggregate WHERE key = 'key_662'").fetchall() == [(11290,)]


@pytest.mark.parametrize("as_setting", [False, True])
def test_the_jars_of_the_job_say_how_its_objects_are_laid_out(as_setting: bool) -> None:
    path, jar = DATA / "corpus/1.20.3/alltypes-hashmap/native", DATA / "classes/jobs.jar"
    given: dict[str, Any] = {"jar": str(jar)} if as_setting else {"jars": [jar]}

    with savepointdb.connect(path, uids=["types"], **given) as connection:
        rows = connection.sql("SELECT key, value.extra FROM types__v_pojo_inner ORDER BY key").fetchall()

    assert rows == [("k0", None), ("k1", None), ("k2", 33), ("k3", None)]


def test_a_history_is_a_database_of_statements() -> None:
    name = "wordcount-rocksdb-checkpoint-incremental__checkpoint__history"
    statement = "SELECT count(*) FROM aggregate"
    with savepointdb.connect(DATA / "flink/2.3.0/wordcount-rocksdb-checkpoint-incremental") as known:
        expected = known.sql(f'SELECT count(*) FROM "{name}".aggregate').fetchall()

        assert known.database(name).sql(statement).fetchall() == expected
        with pytest.raises(savepointdb.DatabaseNotFoundError) as raised:
            _ = known.database(name).tables
    assert f'"{name}"' not in str(raised.value)
