"""The timeline of a key: on the command line, over HTTP and in Python."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI

import savepointdb
from catalog import Catalog, Root
from service.base.principal import Principal
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from tests.support.checkpoints import COUNTS, put
from tests.support.waiting import awaited

BROKEN = (
    "expected a _metadata file that begins with 4960672d and a version, found 6e6f2073 (…/_metadata, byte 0)"
)
Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Five checkpoints: the count of `key_662` changes in the fourth, and the third cannot be read."""
    for number, content in ((41, 1), (42, 1), (43, 1), (44, 2), (45, 2)):
        put(tmp_path / "job" / f"chk-{number}", content, modified_s=1_788_264_000 + number)
    broken = tmp_path / "job" / "chk-43" / "_metadata"
    broken.write_bytes(b"no savepoint")
    os.utime(broken, (1_788_264_043, 1_788_264_043))
    return tmp_path / "job"


def test_unchanged_checkpoints_are_folded(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(job), "key_662"]) == 0

    printed = capsys.readouterr()
    lines = [line.split("  ") for line in printed.out.splitlines()]
    assert [[cell.strip() for cell in line if cell.strip()] for line in lines[2:]] == [
        ["aggregate", "count", "chk-41 … chk-42", "2026-09-01 12:00:41", "6774"],
        ["aggregate", "count", "chk-43", "2026-09-01 12:00:43", f"cannot be read: {BROKEN}"],
        ["aggregate", "count", "chk-44 … chk-45", "2026-09-01 12:00:44", "11290"],
    ]
    assert "not all of it can be read: job__chk-43: " in printed.err


def test_programs_get_a_row_for_each_checkpoint(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(job), "key_662", "--format", "jsonl", "--last", "3"]) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["database"], row["checkpoint_id"], row["value"], row["changed"]) for row in rows] == [
        ("job__chk-43", 43, None, False),
        ("job__chk-44", 2, COUNTS[2], True),
        ("job__chk-45", 2, COUNTS[2], False),
    ]
    assert [row["error"] is None for row in rows] == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nobody"], 1, "no state of job job has the key 'nobody'"),
        (["key_662", "--operator", "other"], 2, "job job has mod7-no-uid › seen, aggregate › count"),
        (["key_662", "--state", "other"], 2, "operator and state leave no state"),
        (["key_662", "--job", "jo"], 2, "no job 'jo'"),
        (["key_662", "--last", "0"], 2, "--last: expected 1 or more, found 0"),
    ],
)
def test_what_is_not_there_is_said(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    assert main(["history", str(job), *arguments]) == code
    assert text in capsys.readouterr().err


def test_of_several_jobs_one_is_named(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(job.parent / "other" / "chk-1")
    root = f"p={job.parent}"

    assert main(["history", root, "key_662"]) == 2
    assert (
        "--job: expected one, found 2 (name one of them: p__job (5), p__other (1))" in capsys.readouterr().err
    )
    assert (
        main(["history", root, "key_662", "--job", "other", "--operator", "AGGREGATE", "--state", "count"])
        == 0
    )
    assert "6774" in capsys.readouterr().out


def test_a_job_of_which_nothing_can_be_read_is_unreadable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (put(tmp_path / "job" / "chk-1") / "_metadata").write_bytes(b"no savepoint")

    assert main(["history", str(tmp_path / "job"), "key_662"]) == 3
    assert "expected" in capsys.readouterr().err


def test_a_state_that_came_later_has_no_rows_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "job" / "chk-1")
    put(tmp_path / "job" / "chk-2", 2)
    script = "CREATE TABLE aggregate__flags AS SELECT 'key_662' AS key, 7 AS value"
    later = tmp_path / "job" / "chk-3"
    assert main(["write", str(tmp_path / "job" / "chk-2"), script, "--to", str(later)]) == 0
    capsys.readouterr()

    assert main(["history", str(tmp_path / "job"), "key_662", "--state", "flags"]) == 0

    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[2] for line in lines] == ["chk-1", "chk-3"]
    assert [line.split()[-1] for line in lines] == ["row", "7"]


def test_python_has_the_timeline(job: Path) -> None:
    unread = "not all of it can be read: job__chk-43: expected a _metadata"
    with pytest.warns(savepointdb.QueryWarning, match=unread):
        found = savepointdb.history(job, "key_662")
    with pytest.warns(savepointdb.QueryWarning, match=unread):
        missing = savepointdb.history(job, "nobody")

    [state] = found.states
    assert [(point.folder, point.changed, point.error is None) for point in state.points] == [
        ("chk-41", True, True),
        ("chk-42", False, True),
        ("chk-43", False, False),
        ("chk-44", True, True),
        ("chk-45", False, True),
    ]
    assert found.to_arrow()["value"].to_pylist() == ["6774", "6774", None, "11290", "11290"]
    assert "chk-44 … chk-45" in repr(found)
    html = found._repr_html_()
    assert html.startswith("<div><strong>savepointdb: key_662 in job ")
    assert "11290" in html
    assert pa.table(found) == found.to_arrow()
    assert repr(missing) == "savepointdb: no state of job job has the key 'nobody'"
    with pytest.raises(savepointdb.JobNotFoundError):
        savepointdb.history(job, "key_662", job="jo")
    with pytest.raises(savepointdb.InvalidRequestError, match="last: expected 1 or more"):
        savepointdb.history(job, "key_662", last=0)


@pytest.mark.slow
def test_the_api_has_the_timeline_of_what_the_user_sees(job: Path, serving: Serving) -> None:
    catalog = Catalog([Root(path=str(job.parent), label="prod")])
    some = catalog.visible(Principal(name="", grants=("prod/job/chk-4?",)).sees)
    with (
        serving(create_app(Settings.of(workers=1), some)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        answer = http.post("/api/jobs/job/timeline", json={"key": "key_662", "last": 3})
        missing = http.post("/api/jobs/other/timeline", json={"key": "key_662"})
        nobody = http.post("/api/jobs/job/timeline", json={"key": "nobody"}).json()

        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["job"], found["key"]) == ("prod__job", "key_662")
        [state] = [one for one in found["states"] if any(point["rows"] for point in one["points"])]
        assert (state["operator"], state["state"], state["table_name"]) == (
            "aggregate",
            "count",
            "aggregate__count",
        )
        assert [
            (point["database"], point["changed"], point["error"] is None) for point in state["points"]
        ] == [
            ("prod__job__chk-43", False, False),
            ("prod__job__chk-44", True, True),
            ("prod__job__chk-45", False, True),
        ]
        assert [point["rows"] for point in state["points"]][1] == [
            {"namespace": None, "map_key": None, "list_index": None, "value": "11290"}
        ]
        assert str(job) not in answer.text
        assert missing.status_code == 404
        assert not any(point["rows"] for one in nobody["states"] for point in one["points"])


def test_a_timeline_whose_client_has_left_ends(job: Path, serving: Serving) -> None:
    catalog = Catalog([Root(path=str(job.parent), label="prod")])
    with (
        serving(create_app(Settings.of(workers=1, max_running=1), catalog)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        endless = {"sql": "SELECT count(*) FROM range(1000000000000)"}
        first = http.post("/api/queries", json=endless).json()["query_id"]
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/api/jobs/job/timeline", json={"key": "key_662"}, timeout=1)

        def ended() -> list[str] | None:
            states = {one["query_id"]: one["state"] for one in http.get("/api/queries").json()["queries"]}
            del states[first]
            return [*states.values()] if states and not {"queued", "running"} & {*states.values()} else None

        states = awaited(ended)
        http.delete(f"/api/queries/{first}")

    assert states == ["cancelled"]
