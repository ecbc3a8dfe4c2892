"""Metrics, logs, and checks of the environment."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from catalog import Catalog
from catalog.catalog import Root
from catalog.kernels import COMPILED_UNITS
from readers.compiled.kernel import compile_all, folders
from readers.storage.temporary import CACHE_VARIABLE
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.doors.cli import doctor_env
from service.doors.cli.doctor_env import FINE, MISSING, WRONG, Check, checks
from service.doors.operations.logs import AUDIT, JsonFormatter, TextFormatter, install
from service.query.engines.registry import ENGINES, RegisteredEngine, Requirement, Role
from tests.support.paths import DATA

Serving = Callable[[FastAPI], AbstractContextManager[str]]
FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"


@contextmanager
def audited(serving: Serving) -> Iterator[httpx.Client]:
    app = create_app(
        Settings.of(audit_log=True, workers=1),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
    )
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def service(serving: Serving) -> Iterator[httpx.Client]:
    with audited(serving) as client:
        yield client


@pytest.fixture
def unasked(serving: Serving) -> Iterator[httpx.Client]:
    """A service without any query yet."""
    with audited(serving) as client:
        yield client


def metric(client: httpx.Client, name: str, **labels: str) -> float | None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None


# ---- metrics ----


@pytest.mark.slow
def test_metrics_count_queries_by_how_they_end(unasked: httpx.Client) -> None:
    for sql in ("SELECT count(*) FROM native.aggregate", "SELECT 1", "SELECT 1/0::INT + 'a'", "SELECT nope"):
        unasked.post("/api/query", json={"sql": sql})

    assert metric(unasked, "savepointdb_queries_total", state="finished", engine="duckdb", code="") == 2
    assert metric(unasked, "savepointdb_query_seconds_count", state="finished") == 2
    assert metric(unasked, "savepointdb_queries_total", state="failed", code="COLUMN_NOT_FOUND") == 1
    assert metric(unasked, "savepointdb_databases") == 2
    assert metric(unasked, "savepointdb_queries_open", state="running") == 0
    assert metric(unasked, "savepointdb_answer_rows_total") == 2
    assert (metric(unasked, "process_resident_memory_bytes") or 0) > 0


@pytest.mark.slow
def test_no_metric_holds_what_was_asked(service: httpx.Client) -> None:
    service.post("/api/query", json={"sql": "SELECT 'hunter2' FROM native.aggregate LIMIT 1"})

    text = service.get("/metrics").text
    assert "hunter2" not in text
    assert "native" not in text


# ---- logs ----


def test_the_audit_log_has_the_shape_of_a_statement_and_no_value(
    service: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    sql = "SELECT value, 'hunter2' FROM native.aggregate WHERE key = 'key_662' AND value < 171717171717"
    with caplog.at_level(logging.INFO, logger=AUDIT):
        answer = service.post("/api/query", json={"sql": sql}).json()
        service.post("/api/query", json={"sql": "SELECT CAST('key_662' AS INT)"})

    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.name == AUDIT]
    assert [line["state"] for line in lines] == ["finished", "failed"]
    first, second = lines
    assert first["query_id"] == answer["query_id"]
    assert first["user"] == "127.0.0.1"
    assert first["databases"] == ["native"]
    assert (first["row_count"], first["bytes_read"]) == (1, answer["bytes_read"])
    assert "?" in first["statement"]
    assert second["code"] == "INVALID_VALUE"
    for line in lines:
        assert not any(value in json.dumps(line) for value in ("hunter2", "key_662", "171717171717"))


def test_a_line_of_the_log_is_one_line() -> None:
    record = logging.LogRecord("savepointdb", logging.INFO, "", 0, "a\nb %s", ("c\r\nd",), None)
    record.fields = {"user": "x\ny"}

    assert TextFormatter().format(record).count("\n") == 0
    assert json.loads(JsonFormatter().format(record))["message"] == "a\nb c\r\nd"
    assert JsonFormatter().format(record).count("\n") == 0


def test_a_line_of_the_log_does_not_steer_the_terminal() -> None:
    record = logging.LogRecord(
        "savepointdb", logging.WARNING, "", 0, "%s is broken", ("c\x1b[2J\udcff",), None
    )

    assert TextFormatter().format(record).endswith(r" warning c\x1b[2J\udcff is broken")


@pytest.mark.parametrize("settings", [Settings.of(log_level="loud"), Settings.of(log_format="xml")])
def test_a_level_or_format_that_is_not_known_is_refused(settings: Settings) -> None:
    with pytest.raises(ValueError, match="expected a log_level"):
        install(settings)


def test_a_service_without_roots_prints_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 2
    assert "expected --root" in capsys.readouterr().err


# ---- the doctor ----


def found(settings: Settings, *roots: str) -> dict[str, Check]:
    return {check.name: check for check in checks(settings, [Root(path=root) for root in roots])}


def test_this_environment_has_what_is_needed(tmp_path: Path) -> None:
    states = {name: check.state for name, check in found(Settings(), str(FLINK)).items()}

    assert states.pop("keys") == MISSING
    assert states.pop("java") in (FINE, MISSING)
    assert states.pop("compiled code") in (FINE, MISSING)
    assert {name for name, state in states.items() if state != FINE} <= {"pyspark", "grpc", "jwt"}


def test_the_doctor_reports_compiled_code_of_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_all(COMPILED_UNITS)
    kept = [folder for folder in folders() if folder.is_dir()]
    before = found(Settings())["compiled code"]
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "own"))
    nothing = found(Settings())
    for folder in kept:
        shutil.copytree(folder, tmp_path / "own" / "kernels", dirs_exist_ok=True)
    every = found(Settings())["compiled code"]
    for file in (tmp_path / "own" / "kernels").glob(f"{COMPILED_UNITS[-1]}-*.bin"):
        file.write_bytes(file.read_bytes()[:-1])
    damaged = found(Settings())["compiled code"]

    assert (before.state, every.state) == (FINE, FINE)
    assert nothing["compiled code"].state == damaged.state == MISSING
    assert nothing["compiled code"].found.startswith(f"{len(COMPILED_UNITS)} of {len(COMPILED_UNITS)} parts")
    assert damaged.found.startswith(f"1 of {len(COMPILED_UNITS)} parts")
    assert nothing["cache"].found.startswith(str(tmp_path / "own"))


def test_faults_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    keys.chmod(0o644)
    settings = Settings.of(keys_file=str(keys), temp_directory=str(keys / "below"))

    checked = found(settings, str(tmp_path / "none"))

    assert [checked[name].state for name in ("keys", "temp directory", "root")] == [WRONG] * 3
    assert "readable by others" in checked["keys"].found
    assert main(["doctor-env", "--root", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_the_doctor_checks_the_roots_of_the_settings_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f'roots = ["here={FLINK}", "away={tmp_path / "none"}"]')

    assert main(["doctor-env", "--config", str(config)]) == 1
    roots = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines() if " root " in line]
    reason = "expected a savepoint or a folder of savepoints, found nothing"
    assert roots == [
        ["ok", "root", f"{FLINK}: 2 savepoints, all files are there"],
        ["wrong", "root", f"{tmp_path / 'none'} cannot be read: {reason}"],
    ]


def rooted(capsys: pytest.CaptureFixture[str], *roots: str) -> tuple[int, list[tuple[str, str, str]]]:
    """Return the exit code of doctor-env, and (state, check, text) of what it says of roots."""
    code = main(["doctor-env", *(part for root in roots for part in ("--root", root))])
    lines = [
        (line[:8].strip(), line[8:24].strip(), line[24:]) for line in capsys.readouterr().out.splitlines()
    ]
    return code, [line for line in lines if line[1] in ("roots", "root", "savepoint")]


def test_the_doctor_looks_for_the_files_of_savepoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = shutil.copytree(
        FLINK.parent / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint", tmp_path / "job"
    )
    (tmp_path / "empty").mkdir()
    before = rooted(capsys, str(whole), f"later={tmp_path / 'empty'}")
    [first, second, *_] = sorted((whole / "shared").iterdir())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    (whole / "chk-2" / "_metadata").write_bytes(b"not one")

    code, lines = rooted(capsys, str(whole))

    assert before[1] == [
        ("ok", "root", f"{whole}: 2 savepoints, all files are there"),
        ("missing", "root", f"{tmp_path / 'empty'}: no savepoint is there yet"),
    ]
    assert code == 1
    [root, one, two] = lines
    assert root == ("wrong", "root", f"{whole}: 2 of 2 savepoints cannot be read whole")
    assert one[2].startswith("job__chk-1: 2 of 22 files missing or cut: ")
    assert first.name in one[2] or second.name in one[2]
    assert two[2].startswith("job__chk-2: expected")


def test_the_doctor_says_which_roots_cannot_stand_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = [str(shutil.copytree(FLINK / "canonical", tmp_path / name / "chk")) for name in ("a", "b")]

    code, lines = rooted(capsys, *roots)
    inside = rooted(capsys, str(tmp_path / "a"), roots[0])
    labelled = rooted(capsys, *(f"{name}={root}" for name, root in zip("ab", roots, strict=True)))

    assert code == 1
    assert lines[0][:2] == ("wrong", "roots")
    assert lines[0][2].endswith(f"label them: a={roots[0]} b={roots[1]}")
    assert "inside" in inside[1][0][2]
    assert [state for state, *_ in labelled[1]] == ["ok", "ok"]


def test_what_the_doctor_looks_for_is_what_engines_need(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = (Requirement("no_such_package", "pip install it"), Requirement("pyarrow", "pip install pyarrow"))
    toy = RegisteredEngine("toy", "Toy", Role.NAMED, "toys:Toy", needs)
    monkeypatch.setattr(doctor_env, "ENGINES", (*ENGINES, toy))

    checked = found(Settings())

    assert checked["no_such_package"].state == MISSING
    assert checked["no_such_package"].found == "not installed; the engine Toy needs it: pip install it"
    assert {"duckdb", "pyspark", "java"} <= checked.keys()
