"""Savepoints that Flink takes for a client: asked for once, watched, opened when they are there, and only for users who may."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import Catalog
from catalog.catalog import Root
from service.cli import main
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.service.tasks.jobs.conftest import RECORDED_FOLDER, SAVEPOINT, MakeCheckpoint, settings_of
from tests.support.flinkrest import RecordedFlink
from tests.support.serving import listening
from tests.support.waiting import awaited

TAKEN = "savepoint-taken-000000000000"


def answer_savepoint(flink: RecordedFlink, made: Path | None = None, *, done: str = "savepoint-done") -> None:
    """Let the cluster take a savepoint in two looks; then it lies at `made`."""
    looks = iter(["savepoint-begun"])

    def status(handler: Any) -> None:
        name = next(looks, done)
        recorded = flink.recorded[name]
        body = json.loads(json.dumps(recorded["body"]))
        if name == "savepoint-done" and made is not None:
            shutil.copytree(SAVEPOINT, made, dirs_exist_ok=True)
            folder, _, _ = body["operation"]["location"].rpartition("/")
            body["operation"]["location"] = f"{folder}/{made.name}"
        handler.send(recorded["status"], json.dumps(body).encode())

    def order(handler: Any) -> None:
        _, path, _, body = flink.requests[-1]
        trigger_id = json.loads(body)["triggerId"]
        flink.set(f"GET {path}/{trigger_id}", status)
        handler.send(202, json.dumps({"request-id": trigger_id}).encode())

    flink.set(flink.request_of("savepoint"), order)


@contextmanager
def service(
    flink: RecordedFlink, tmp_path: Path, keys: KeyFile | None = None, **values: Any
) -> Iterator[httpx.Client]:
    """A service over checkpoints and savepoints, once it has seen the job live."""
    (tmp_path / "savepoints").mkdir(exist_ok=True)
    roots = [Root(path=str(tmp_path / name), label=name) for name in ("checkpoints", "savepoints")]
    settings = settings_of(flink, tmp_path, **{"flink_savepoints": True} | values)
    app = create_app(
        settings, Catalog(roots), roots=[root.path for root in roots], authenticator=Authenticator(keys)
    )
    app.state.service.clusters.look()
    with listening(app, starts=False) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client
    app.state.service.triggers.close()
    app.state.service.queries.close()


def ended(client: httpx.Client, path: str) -> dict[str, Any]:
    status: dict[str, Any] = awaited(
        lambda: found if (found := client.get(path).json())["status"] != "running" else None
    )
    return status


def test_a_savepoint_is_taken_watched_and_opened(
    any_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(any_flink.job_id, 1)
    answer_savepoint(any_flink, tmp_path / "savepoints" / TAKEN)
    with service(any_flink, tmp_path) as client:
        [job] = client.get("/api/jobs").json()["jobs"]
        begun = client.post(f"/api/jobs/{job['name']}/savepoints", json={"format": "native"})
        status = ended(client, begun.headers["location"])
        [listed] = client.get(f"/api/jobs/{job['name']}/savepoints").json()["savepoints"]
        database = client.get(f"/api/databases/{status['database']}").json()
        metrics = client.get("/metrics").text

    [order] = [json.loads(body) for method, _, _, body in any_flink.requests if method == "POST"]
    assert begun.status_code == 202
    assert begun.json()["id"] == order.pop("triggerId") == status["id"]
    assert order == {"formatType": "NATIVE", "cancel-job": False}
    assert (status["status"], status["database"], status["error"]) == (
        "finished",
        f"savepoints__{TAKEN}",
        None,
    )
    assert listed == status
    assert job["live"]["may_savepoint"]
    assert database["error"] is None
    assert 'savepointdb_savepoints_total{code="",format="native"} 1.0' in metrics


def test_a_savepoint_that_flink_cannot_make_says_why(
    any_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(any_flink.job_id, 1)
    answer_savepoint(any_flink, done="savepoint-failed")
    with service(any_flink, tmp_path, flink_savepoint_directory="s3://there/savepoints") as client:
        begun = client.post(f"/api/jobs/{any_flink.job_id}/savepoints", json={})
        status = ended(client, begun.headers["location"])

    [order] = [json.loads(body) for method, _, _, body in any_flink.requests if method == "POST"]
    assert order["target-directory"] == "s3://there/savepoints"
    assert order["formatType"] == "CANONICAL"
    assert (status["status"], status["database"]) == ("failed", None)
    assert status["error"]["code"] == "SAVEPOINT_FAILED"
    assert status["error"]["message"].startswith("Flink made no savepoint: ")
    assert "/proc/" not in status["error"]["message"]


def test_a_savepoint_outside_of_the_roots_is_not_opened(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    answer_savepoint(newest_flink, tmp_path / "elsewhere" / TAKEN)
    path_map = f"{RECORDED_FOLDER}={tmp_path};{RECORDED_FOLDER}/savepoints={tmp_path}/elsewhere"
    with service(newest_flink, tmp_path, flink_path_map=path_map) as client:
        begun = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
        status = ended(client, begun.headers["location"])
        names = [one["name"] for one in client.get("/api/databases").json()["databases"]]

    assert status["error"] == {
        "code": "SAVEPOINT_FAILED",
        "message": f"Flink made the savepoint {TAKEN!r}, but in no folder that is served",
        "hint": "serve its folder with --root; --flink-path-map OLD=NEW if it is called otherwise here",
        "position": None,
    }
    assert not any(TAKEN in name for name in names)


@pytest.mark.slow
def test_a_refusal_of_flink_is_the_answer(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    refusal = (
        400,
        {
            "errors": [
                "Config key [state.savepoints.dir] is not set. Property [target-directory] must be provided."
            ]
        },
    )
    newest_flink.set(newest_flink.request_of("savepoint"), refusal)
    with service(newest_flink, tmp_path) as client:
        answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
        listed = client.get(f"/api/jobs/{newest_flink.job_id}/savepoints").json()

    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "FLINK_REFUSES"
    assert "[target-directory] must be provided" in answer.json()["error"]["message"]
    assert listed == {"savepoints": []}


@pytest.mark.slow
def test_an_answer_that_was_lost_is_found_by_our_id(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    answer_savepoint(newest_flink, tmp_path / "savepoints" / TAKEN)
    taking = newest_flink.answers[newest_flink.request_of("savepoint")]
    assert callable(taking)

    class Deaf:
        """What loses the answer."""

        def send(self, *_: Any) -> None:
            pass

    newest_flink.set(newest_flink.request_of("savepoint"), lambda _: taking(Deaf()))  # type: ignore[arg-type]
    with service(newest_flink, tmp_path) as client:
        begun = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
        status = ended(client, begun.headers["location"])

    assert status["database"] == f"savepoints__{TAKEN}"
    assert [method for method, _, _, _ in newest_flink.requests].count("POST") == 1


@pytest.mark.slow
def test_a_job_has_one_open_savepoint(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    answer_savepoint(newest_flink, done="savepoint-begun")
    with service(newest_flink, tmp_path) as client:
        begun = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
        again = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})

    assert begun.status_code == 202
    assert (again.status_code, again.json()["error"]["code"]) == (409, "SAVEPOINT_OPEN")


@pytest.mark.slow
def test_nobody_waits_for_a_savepoint_for_ever(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    answer_savepoint(newest_flink, done="savepoint-begun")
    with service(newest_flink, tmp_path, flink_savepoint_timeout_s=0.5) as client:
        begun = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
        status = ended(client, begun.headers["location"])

    assert status["error"]["message"] == "expected a savepoint within 0.5 s; Flink may still make it"


def test_only_users_with_the_grant_may_have_savepoints_taken(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    answer_savepoint(newest_flink, tmp_path / "savepoints" / TAKEN)
    keys = KeyFile(tmp_path / "keys.json")
    secrets = {
        grant: keys.create(f"user {number}", [grant])
        for number, grant in enumerate(
            ("*", "write:*", "savepoints:checkpoints/*", "savepoints:other/*", "savepoints:checkpoints__*")
        )
    }
    found = {}
    with service(newest_flink, tmp_path, keys) as client:
        for grant, secret in secrets.items():
            client.headers["Authorization"] = f"Bearer {secret}"
            jobs = client.get("/api/jobs").json()["jobs"]
            answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
            if answer.status_code == 202:
                ended(client, answer.headers["location"])
            may = [job["live"]["may_savepoint"] for job in jobs if job["live"]]
            found[grant] = answer.status_code, (answer.json().get("error") or {}).get("code"), may

    assert found == {
        "*": (403, "FORBIDDEN", [False]),
        "write:*": (403, "FORBIDDEN", [False]),
        "savepoints:checkpoints/*": (202, None, [True]),
        "savepoints:other/*": (404, "JOB_NOT_FOUND", []),
        "savepoints:checkpoints__*": (202, None, [True]),
    }


def test_the_name_of_a_savepoint_gives_no_right_to_the_job_with_its_digits(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    named = tmp_path / "savepoints" / f"savepoint-{newest_flink.job_id[:6]}-000000000000"
    shutil.copytree(SAVEPOINT, named)
    keys = KeyFile(tmp_path / "keys.json")
    secret = keys.create("user", ["checkpoints/*", "write:savepoints/*", "savepoints:savepoints/*"])
    with service(newest_flink, tmp_path, keys) as client:
        client.headers["Authorization"] = f"Bearer {secret}"
        [job] = client.get("/api/jobs").json()["jobs"]
        answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})

    assert f"savepoints__{named.name}" in job["databases"]
    assert job["live"]["may_savepoint"] is False
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert "POST" not in [method for method, _, _, _ in newest_flink.requests]


def test_a_folder_with_the_id_of_a_job_gives_no_right_to_that_job(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 14)
    shutil.copytree(tmp_path / "checkpoints", tmp_path / "savepoints")
    answer_savepoint(newest_flink, tmp_path / "savepoints" / TAKEN)
    keys = KeyFile(tmp_path / "keys.json")
    secret = keys.create("user", ["savepoints/*", "write:savepoints/*", "savepoints:savepoints/*"])
    asked = {"sql": "SELECT job_name, state FROM savepointdb.jobs"}
    with service(newest_flink, tmp_path, keys) as client:
        client.headers["Authorization"] = f"Bearer {secret}"
        [job] = client.get("/api/jobs").json()["jobs"]
        answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})
        rows = client.post("/api/query", json=asked).json()["rows"]
        [database] = client.get("/api/databases").json()["databases"]

    assert job["job_id"] == newest_flink.job_id
    assert (job["live"], job["job_name"], job["state"]) == (None, None, None)
    assert rows == [[None, None]]
    assert database["created_at"].startswith("2023-11-14T22:13:34")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "JOB_NOT_RUNNING")
    assert "POST" not in [method for method, _, _, _ in newest_flink.requests]


def test_a_service_takes_no_savepoints_unless_it_is_told_to(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    with service(newest_flink, tmp_path, flink_savepoints=False) as client:
        answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})

    assert answer.status_code == 403
    assert answer.json()["error"]["hint"] == "its owner can allow it with the setting flink_savepoints"
    assert "POST" not in [method for method, _, _, _ in newest_flink.requests]


@pytest.mark.slow
def test_a_job_that_has_ended_gives_no_savepoint(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    newest_flink.answer("jobs-overview-canceled")
    with service(newest_flink, tmp_path) as client:
        answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "JOB_NOT_RUNNING")
    assert answer.json()["error"]["message"] == "expected a job that runs, found it CANCELED"


def test_the_command_waits_and_prints_where_the_savepoint_is(
    newest_flink: RecordedFlink, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "savepoints" / TAKEN
    options = ["--flink", f"prod={newest_flink.url}"]
    options += ["--flink-path-map", f"file:/tmp/savepointdb-cluster={tmp_path}"]
    codes, printed = [], []
    for job in (newest_flink.job_id, newest_flink.job_id[:6], "counting"):
        answer_savepoint(newest_flink, made)
        codes.append(main(["savepoint", job, *options, "--wait"]))
        printed.append(capfd.readouterr())

    assert codes == [0, 0, 0]
    assert {one.out for one in printed} == {f"{made}\n"}
    assert {one.err for one in printed} == {"savepointdb: checkpoint 1, 3 operators\n"}


def test_the_command_says_what_is_wrong(
    newest_flink: RecordedFlink, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        code = main(["savepoint", *arguments])
        return code, capfd.readouterr().err

    url = f"prod={newest_flink.url}"
    assert said("counting") == (
        2,
        "savepointdb: expected --flink, the address of Flink's REST API, such as http://jobmanager:8081\n",
    )
    code, message = said("other", "--flink", url)
    assert code == 2
    assert f"found other; there are {newest_flink.job_id} (counting)" in message
    newest_flink.answer("jobs-overview-canceled")
    assert said("counting", "--flink", url) == (
        2,
        "savepointdb: expected a job that runs, found counting CANCELED\n",
    )
    newest_flink.answer("jobs-overview")
    answer_savepoint(newest_flink, done="savepoint-failed")
    code, message = said("counting", "--flink", url, "--wait")
    assert code == 1
    assert message.startswith("savepointdb: Flink made no savepoint: ")
    newest_flink.set("GET /jobs/overview", (500, {"errors": []}))
    assert said("counting", "--flink", url) == (
        1,
        "savepointdb: prod: GET /jobs/overview: HTTP status 500: no reason\n",
    )


@pytest.mark.parametrize(("given", "expected"), [(None, "CANONICAL"), ("native", "NATIVE")], ids=str)
def test_every_door_asks_for_the_same_format(
    newest_flink: RecordedFlink,
    make_checkpoint: MakeCheckpoint,
    tmp_path: Path,
    given: str | None,
    expected: str,
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    asked = []
    for is_http in (True, False):
        answer_savepoint(newest_flink, tmp_path / "savepoints" / TAKEN)
        with service(newest_flink, tmp_path) as client:
            if is_http:
                path = f"/api/jobs/{newest_flink.job_id}/savepoints"
                assert client.post(path, json={"format": given} if given else {}).status_code == 202
            else:
                words = ["savepoint", "counting", "--flink", newest_flink.url]
                assert main([*words, *(["--format", given] if given else [])]) == 0
        orders = [body for method, path, _, body in newest_flink.requests if method == "POST"]
        asked.append(json.loads(orders[-1])["formatType"])

    assert asked == [expected, expected]


def test_every_door_refuses_another_format(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    with service(newest_flink, tmp_path) as client:
        answer = client.post(f"/api/jobs/{newest_flink.job_id}/savepoints", json={"format": "heap"})
    with pytest.raises(SystemExit) as ended_with:
        main(["savepoint", "counting", "--flink", newest_flink.url, "--format", "heap"])

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert "format: expected one of canonical, native, found 'heap'" in answer.json()["error"]["message"]
    assert ended_with.value.code == 2
