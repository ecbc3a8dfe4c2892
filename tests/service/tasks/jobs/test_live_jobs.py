"""Live jobs: the catalog learns what a cluster says, `latest` follows, and a cluster that is away takes nothing away."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import Catalog
from catalog.catalog import Root
from readers import operator_id_of
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from service.tasks.jobs.clusters import Clusters
from tests.service.tasks.jobs.conftest import RECORDED_FOLDER, MakeCheckpoint, settings_of
from tests.support.flinkrest import RecordedFlink, recorded_flink
from tests.support.paths import DATA
from tests.support.serving import listening
from tests.support.waiting import awaited


def numbers_of(flink: RecordedFlink) -> list[int]:
    """The numbers of recorded checkpoints that are complete, the newest first."""
    history = flink.recorded["checkpoints"]["body"]["history"]
    return [one["id"] for one in history if one["status"] == "COMPLETED" and not one["is_savepoint"]]


def served(flink: RecordedFlink, tmp_path: Path, /, **values: Any) -> tuple[Catalog, Clusters]:
    """A catalog over the folder of checkpoints, which looks at it only when it is told to, and its clusters."""
    root = str(tmp_path / "checkpoints")
    catalog = Catalog([Root(path=root, label="prod")])
    return catalog, Clusters(settings_of(flink, tmp_path, **values), catalog, [root])


def test_a_job_has_its_name_its_state_and_its_checkpoints(
    flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest, older = numbers_of(flink)[:2]
    for number in (older, newest):
        make_checkpoint(flink.job_id, number)
    catalog, clusters = served(flink, tmp_path)
    clusters.look()

    [job] = catalog.jobs()
    live, facts = clusters.live(job), catalog.facts_of(job)
    assert live is not None
    assert facts is not None
    assert (live.label, live.name, live.state, live.error) == ("prod", "counting", "RUNNING", None)
    assert (facts.name, facts.state) == ("counting", "RUNNING")
    assert live.checkpoints.completed >= 12
    assert [one.name for one in job.databases] == [f"prod__{flink.job_id}__chk-{n}" for n in (newest, older)]
    recorded = {one["id"]: one for one in flink.recorded["checkpoints"]["body"]["history"]}
    for database, number in zip(job.databases, (newest, older), strict=True):
        assert database.created_at is not None
        assert database.created_at.timestamp() * 1000 == recorded[number]["trigger_timestamp"]
    assert set(facts.operator_uids.values()) >= {"numbers", "aggregate"}
    assert clusters.statuses[0].version == flink.recorded["config"]["body"]["flink-version"]


def test_the_plan_names_operators_of_which_a_checkpoint_stores_only_ids(
    newest_flink: RecordedFlink, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    old = DATA / "flink" / "1.20.3" / "wordcount-hashmap-savepoints" / "canonical"
    shutil.copytree(old, tmp_path / "checkpoints" / newest_flink.job_id / f"chk-{newest}")
    catalog, clusters = served(newest_flink, tmp_path)
    [database] = catalog.known()
    before = database.tables
    clusters.look()

    unnamed = operator_id_of("aggregate")
    assert unnamed in before
    assert "aggregate" not in before
    assert "aggregate" in database.tables
    assert database.table("aggregate").schema == database.table(unnamed).schema


def test_the_name_of_a_folder_makes_no_job_live(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    make_checkpoint(newest_flink.job_id, newest)
    catalog, clusters = served(newest_flink, tmp_path, flink_path_map="")
    clusters.look()

    [job] = catalog.jobs()
    assert job.job_id == newest_flink.job_id
    assert clusters.live(job) is None
    assert catalog.facts_of(job) is None
    assert job.databases[0].checkpoint_facts is None
    assert not clusters.places.has_served(clusters.statuses[0].jobs[0].paths)


def test_a_checkpoint_that_the_history_of_flink_has_lost_is_of_the_job_of_its_folder(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, 1)
    catalog, clusters = served(newest_flink, tmp_path)
    clusters.look()

    [job] = catalog.jobs()
    live, facts = clusters.live(job), catalog.facts_of(job)
    assert 1 not in numbers_of(newest_flink)
    assert live is not None
    assert facts is not None
    assert live.name == facts.name == "counting"


def test_a_folder_that_two_clusters_name_is_of_neither_until_one_has_lost_the_job(
    make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    with recorded_flink("2.3.0") as one, recorded_flink("2.3.0") as other:
        make_checkpoint(one.job_id, numbers_of(one)[0])
        catalog, clusters = served(one, tmp_path, flink=f"one={one.url};other={other.url}")
        clusters.look()
        [job] = catalog.jobs()
        both, facts = clusters.live(job), catalog.facts_of(job)
        one.set("GET /jobs/overview", (200, {"jobs": []}))
        clusters.look()
        left = clusters.live(job)

    assert (both, facts) == (None, None)
    assert left is not None
    assert (left.label, left.error) == ("other", None)


def test_two_folders_of_one_job_id_are_not_mixed(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    original = make_checkpoint(newest_flink.job_id, newest)
    copy = tmp_path / "backup" / newest_flink.job_id / original.name
    copy.parent.mkdir(parents=True)
    os.rename(original, copy)
    make_checkpoint(newest_flink.job_id, newest)
    roots = [Root(path=str(tmp_path / name), label=name) for name in ("checkpoints", "backup")]
    catalog = Catalog(roots)
    clusters = Clusters(settings_of(newest_flink, tmp_path), catalog, [root.path for root in roots])
    clusters.look()

    jobs = {job.label: job for job in catalog.jobs()}
    live = clusters.live(jobs["checkpoints"])
    assert live is not None
    assert {str(one.path) for one in jobs["checkpoints"].databases} <= live.paths
    assert not {str(one.path) for one in jobs["backup"].databases} & live.paths


def test_jobs_of_two_clusters_with_one_id_are_told_apart_by_their_paths(
    make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    zeros = "0" * 32
    with recorded_flink("2.3.0") as one, recorded_flink("2.3.0") as other:
        for flink, name in ((one, "orders"), (other, "payments")):
            for request, answer in [*flink.answers.items()]:
                text = (
                    json.dumps(answer).replace("/savepointdb-cluster/", f"/{name}/").replace("counting", name)
                )
                flink.set(request.replace(flink.job_id, zeros), json.loads(text.replace(flink.job_id, zeros)))
        newest = numbers_of(one)[0]
        checkpoint = make_checkpoint(zeros, newest)
        for name in ("orders", "payments"):
            shutil.copytree(checkpoint, tmp_path / name / "checkpoints" / zeros / checkpoint.name)
        roots = [Root(path=str(tmp_path / name), label=name) for name in ("orders", "payments")]
        catalog = Catalog(roots)
        path_map = f"file:/tmp={tmp_path}"
        settings = Settings.of(flink=f"{one.url};{other.url}", flink_path_map=path_map)
        clusters = Clusters(settings, catalog, [root.path for root in roots])
        clusters.look()

        live = {job.label: clusters.live(job) for job in catalog.jobs()}
        facts = {job.label: catalog.facts_of(job) for job in catalog.jobs()}
    assert {label: one.name for label, one in live.items() if one} == {
        "orders": "orders",
        "payments": "payments",
    }
    assert {label: one.name for label, one in facts.items() if one} == {
        "orders": "orders",
        "payments": "payments",
    }


def test_latest_follows_a_checkpoint_that_completes(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    make_checkpoint(newest_flink.job_id, newest)
    catalog, clusters = served(newest_flink, tmp_path)
    clusters.look()
    make_checkpoint(newest_flink.job_id, newest + 1)

    def completed(body: Any) -> None:
        one = json.loads(json.dumps(next(one for one in body["history"] if one["id"] == newest)))
        one["id"] = newest + 1
        one["external_path"] = one["external_path"].replace(f"chk-{newest}", f"chk-{newest + 1}")
        body["history"].insert(0, one)

    # Nobody has looked at the root since.
    assert [one.name.rpartition("-")[2] for one in catalog.known()] == [str(newest)]
    newest_flink.answer("checkpoints", completed)
    clusters.look()

    assert catalog.newest is not None
    assert catalog.newest.path.endswith(f"chk-{newest + 1}")


def test_what_flink_and_the_storage_have_forgotten_is_forgotten(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest, *older = numbers_of(newest_flink)
    kept = make_checkpoint(newest_flink.job_id, older[-1])
    catalog, clusters = served(newest_flink, tmp_path)
    clusters.look()
    before = clusters.statuses[0].jobs[0].paths

    def only_newest(body: Any) -> None:
        body["history"] = [one for one in body["history"] if one["id"] == newest]
        body["latest"].update(savepoint=None)

    newest_flink.answer("checkpoints", only_newest)
    clusters.look()

    assert len(before) > 5
    assert clusters.statuses[0].jobs[0].paths == {str(kept), str(kept.with_name(f"chk-{newest}"))}
    assert catalog.known()[0].checkpoint_facts is not None


def test_a_look_without_news_looks_at_no_root(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    make_checkpoint(newest_flink.job_id, newest)
    catalog, clusters = served(newest_flink, tmp_path)
    clusters.look()
    make_checkpoint(newest_flink.job_id, newest + 1)
    clusters.look()

    assert len(catalog.known()) == 1


def test_a_cluster_that_is_away_takes_nothing_away(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, numbers_of(newest_flink)[0])
    catalog, clusters = served(newest_flink, tmp_path)
    clusters.look()
    seen = clusters.statuses[0].last_seen_at
    newest_flink.set("GET /jobs/overview", (500, {"errors": ["Leader is gone."]}))
    clusters.look()

    [status] = clusters.statuses
    [job] = catalog.jobs()
    live, facts = clusters.live(job), catalog.facts_of(job)
    assert status.error == "prod: GET /jobs/overview: HTTP status 500: Leader is gone."
    assert status.last_seen_at == seen
    assert live is not None
    assert live.state == "RUNNING"
    assert facts is not None
    assert facts.name == "counting"
    newest_flink.answer("jobs-overview")
    clusters.look()
    assert clusters.statuses[0].error is None


def test_a_job_that_the_cluster_has_forgotten_says_so(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    make_checkpoint(newest_flink.job_id, numbers_of(newest_flink)[0])
    catalog, clusters = served(newest_flink, tmp_path)
    clusters.look()
    newest_flink.set("GET /jobs/overview", (200, {"jobs": []}))
    clusters.look()

    [job] = catalog.jobs()
    live = clusters.live(job)
    assert live is not None
    assert live.error == "the cluster does not list the job any more"


def test_a_job_that_has_ended_is_asked_once_more(newest_flink: RecordedFlink, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    _, clusters = served(newest_flink, tmp_path)
    newest_flink.answer("jobs-overview-canceled")
    newest_flink.answer("checkpoints-canceled")
    for _ in range(3):
        clusters.look()

    asked = [path for _, path, _, _ in newest_flink.requests]
    assert asked.count(f"/jobs/{newest_flink.job_id}/checkpoints") == 1
    assert asked.count("/jobs/overview") == 3
    assert clusters.statuses[0].jobs[0].state == "CANCELED"


@pytest.mark.parametrize(
    ("request_name", "spoil", "expected"),
    [
        (
            "checkpoints",
            lambda body: body["history"][0].update(id="12"),
            "history[0]: expected an integer id, found the text '12'",
        ),
        (
            "checkpoints",
            lambda body: body["history"][0].update(trigger_timestamp=1 << 62),
            "expected milliseconds since 1970 as trigger_timestamp",
        ),
        ("checkpoints", lambda body: body.update(history=None), "expected a list history, found nothing"),
        ("checkpoints", lambda body: body.pop("counts"), "counts: expected an object, found nothing"),
        ("plan", lambda body: body.update(plan={"nodes": 3}), "expected a job plan of Flink's REST API"),
    ],
)
def test_an_answer_about_a_job_of_another_version_spoils_only_that_job(
    newest_flink: RecordedFlink,
    tmp_path: Path,
    request_name: str,
    spoil: Any,
    expected: str,
) -> None:
    (tmp_path / "checkpoints").mkdir()
    _, clusters = served(newest_flink, tmp_path)
    newest_flink.answer(request_name, spoil)
    clusters.look()

    [status] = clusters.statuses
    [live] = status.jobs
    assert status.error is None
    assert (live.name, live.state) == ("counting", "RUNNING")
    assert expected in (live.error or "")


@pytest.mark.parametrize("job_id", ["../../admin", "a" * 31, "A" * 32, 7, None, "a" * 32 + "?x"])
def test_an_id_that_is_none_becomes_part_of_no_request(
    newest_flink: RecordedFlink, tmp_path: Path, job_id: Any
) -> None:
    (tmp_path / "checkpoints").mkdir()
    _, clusters = served(newest_flink, tmp_path)
    newest_flink.answer("jobs-overview", lambda body: body["jobs"][0].update(jid=job_id))
    clusters.look()

    assert "expected 32 hexadecimal digits as jid" in (clusters.statuses[0].error or "")
    assert {path for _, path, _, _ in newest_flink.requests} == {"/config", "/jobs/overview"}


def test_a_path_of_a_hostile_cluster_opens_nothing(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    make_checkpoint("0" * 32, newest)
    outside = tmp_path / "private"
    os.rename(tmp_path / "checkpoints" / ("0" * 32), outside)

    def elsewhere(body: Any) -> None:
        for one in body["history"]:
            if "external_path" in one:
                one["external_path"] = f"file:{tmp_path}/checkpoints/../private/chk-{newest}"

    newest_flink.answer("checkpoints", elsewhere)
    catalog, clusters = served(newest_flink, tmp_path, flink_path_map="")
    clusters.look()

    assert catalog.known() == []
    assert catalog.jobs() == []


@pytest.mark.slow
def test_jobs_elsewhere_are_named_to_users_who_see_everything(
    newest_flink: RecordedFlink, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").mkdir()
    keys = KeyFile(tmp_path / "keys.json")
    secrets = {grant: keys.create(f"user {grant[0]}", [grant]) for grant in ("*", "checkpoints/*")}
    root = str(tmp_path / "checkpoints")
    settings = settings_of(newest_flink, tmp_path, flink_path_map="file:/tmp=/mnt")
    app = create_app(settings, Catalog([Root(path=root)]), roots=[root], authenticator=Authenticator(keys))
    app.state.service.clusters.look()
    found = {}
    with listening(app, starts=False) as url, httpx.Client(base_url=url, timeout=60) as client:
        for grant, secret in secrets.items():
            answer = client.get("/api/flink", headers={"Authorization": f"Bearer {secret}"})
            found[grant] = answer.json()["clusters"][0]["elsewhere"]
    app.state.service.queries.close()

    [job] = found["*"]
    assert (job["job_id"], job["job_name"], job["state"]) == (newest_flink.job_id, "counting", "RUNNING")
    assert job["path"].startswith("/mnt/savepointdb-cluster/")
    assert found["checkpoints/*"] == []


@pytest.mark.slow
def test_the_doctor_asks_clusters_too(
    newest_flink: RecordedFlink,
    make_checkpoint: MakeCheckpoint,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    make_checkpoint(newest_flink.job_id, numbers_of(newest_flink)[0])
    root = str(tmp_path / "checkpoints")

    def said(*arguments: str) -> list[str]:
        main(["doctor-env", "--flink", f"prod={newest_flink.url}", *arguments])
        lines = capfd.readouterr().out.splitlines()
        return [line for line in lines if line.split()[1] in ("cluster", "job")]

    known = said("--root", root, "--flink-path-map", f"{RECORDED_FOLDER}={tmp_path}")
    [cluster, job] = said()
    newest_flink.set("GET /config", (500, {"errors": ["No leader."]}))
    [down] = said("--root", root)

    assert known == ["ok      cluster         prod: Flink 2.3.0, 1 of 1 jobs run"]
    assert cluster == known[0]
    assert job.startswith(
        "missing job             prod: counting: its checkpoints, such as /tmp/savepointdb-cluster/"
    )
    assert down == "wrong   cluster         prod: GET /config: HTTP status 500: No leader."


def test_the_service_says_what_is_live_and_goes_on_without_the_cluster(
    newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    newest = numbers_of(newest_flink)[0]
    make_checkpoint(newest_flink.job_id, newest)
    root = str(tmp_path / "checkpoints")
    catalog = Catalog([Root(path=root, label="prod")])
    newest_flink.set("GET /config", lambda _: time.sleep(60))
    settings = settings_of(newest_flink, tmp_path, flink_timeout_s=1.0, flink_poll_s=0.1)
    with (
        listening(create_app(settings, catalog, roots=[root])) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        down = awaited(lambda: [one for one in client.get("/api/flink").json()["clusters"] if one["error"]])[
            0
        ]
        [alone] = client.get("/api/jobs").json()["jobs"]
        newest_flink.answer("config")
        # A look may be late on a busy machine, too.
        live = awaited(
            lambda: (
                one
                if (one := client.get("/api/jobs").json()["jobs"][0]["live"]) and not one["error"]
                else None
            )
        )
        up = awaited(
            lambda: [one for one in client.get("/api/flink").json()["clusters"] if not one["error"]]
        )[0]
        metrics = awaited(
            lambda: text if 'up{cluster="prod"} 1.0' in (text := client.get("/metrics").text) else None
        )

    assert "expected an answer within 1 s, found none" in down["error"]
    assert (down["label"], down["version"], down["last_seen_at"]) == ("prod", None, None)
    assert alone["databases"] == [f"prod__{newest_flink.job_id}__chk-{newest}"]
    assert alone["live"] is None
    assert (live["state"], live["url_label"], live["error"]) == ("RUNNING", "prod", None)
    assert live["checkpoints"]["completed"] >= 12
    assert not live["may_savepoint"]
    assert (up["version"], up["error"]) == ("2.3.0", None)
    assert newest_flink.url not in json.dumps([down, live, up])
    assert 'savepointdb_flink_looks_total{cluster="prod",outcome="failed"}' in metrics
    assert 'savepointdb_flink_up{cluster="prod"} 1.0' in metrics
    assert 'savepointdb_flink_jobs{cluster="prod",state="RUNNING"} 1.0' in metrics
