"""The command line: what goes to which stream, and exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet

from service import cli
from service.doors.cli.sources import roots_of
from tests.support.damaged import write_in_files
from tests.support.objectstore import ObjectStore, Proxy
from tests.support.oldversions import unpack_old
from tests.support.paths import DATA
from tests.support.waiting import PATIENCE_S, awaited

FLINK = DATA / "flink"
NATIVE = str(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native")
CANONICAL = str(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "canonical")
EVERYTHING = str(FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "native")
ONE_KEY = "SELECT key, value FROM aggregate WHERE key = 'key_662'"
COUNT = "SELECT count(*) AS keys FROM aggregate"


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Runs the command line in this process: (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, bytes, str]:
        try:
            code = cli.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        sys.stdout.flush()
        output, errors = capfdbinary.readouterr()
        return code, output, errors.decode()

    return call


def test_a_query_prints_a_table_and_nothing_else(run: Any) -> None:
    assert run("query", ONE_KEY, "--savepoint", NATIVE) == (
        0,
        "key      value\n───────  ─────\nkey_662  11290\n".encode(),
        "",
    )


def test_every_format_goes_to_standard_output(run: Any) -> None:
    def output(name: str) -> bytes:
        code, content, errors = run("query", ONE_KEY, "--savepoint", NATIVE, "--format", name)
        assert (code, errors) == (0, "")
        return bytes(content)

    row = {"key": "key_662", "value": 11290}
    assert json.loads(output("json")) == [row]
    assert json.loads(output("jsonl")) == row
    assert output("csv") == b'"key","value"\r\n"key_662",11290\r\n'
    assert pa.ipc.open_stream(output("arrow")).read_all().to_pylist() == [row]
    assert parquet.read_table(io.BytesIO(output("parquet"))).to_pylist() == [row]


def test_output_goes_to_a_file(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"

    assert run("query", ONE_KEY, "--savepoint", NATIVE, "--format", "csv", "--output", str(path)) == (
        0,
        b"",
        "",
    )
    assert path.read_bytes() == b'"key","value"\r\n"key_662",11290\r\n'


def test_the_suffix_of_the_output_names_its_format(run: Any, tmp_path: Path) -> None:
    def written(name: str, *options: str) -> bytes:
        assert (
            run("query", ONE_KEY, "--savepoint", NATIVE, "--output", str(tmp_path / name), *options)[0] == 0
        )
        return (tmp_path / name).read_bytes()

    row = {"key": "key_662", "value": 11290}
    assert json.loads(written("rows.json")) == [row]
    assert json.loads(written("rows.jsonl")) == row
    assert written("rows.CSV") == b'"key","value"\r\n"key_662",11290\r\n'
    assert pa.ipc.open_stream(written("rows.arrow")).read_all().to_pylist() == [row]
    for name in ("rows.parquet", "rows.pq"):
        assert parquet.read_table(io.BytesIO(written(name))).to_pylist() == [row]
    assert written("rows.md").startswith(b"| key ")
    assert written("rows.html").startswith(b"<table>")
    assert (
        written("rows.txt") == written("rows") == "key      value\n───────  ─────\nkey_662  11290\n".encode()
    )
    assert json.loads(written("rows.ndjson")) == row
    assert json.loads(written("rows.csv", "--format", "jsonl")) == row
    assert json.loads(written("rows.json.gz", "--format", "jsonl")) == row


@pytest.mark.parametrize("suffix", ["csv.gz", "feather", "XLSX", "xml"])
def test_a_file_that_is_called_like_a_format_that_is_not_written_gets_no_table(
    run: Any, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"rows.{suffix}"

    code, _, errors = run("query", ONE_KEY, "--savepoint", NATIVE, "--output", str(path))

    assert (code, path.exists()) == (2, False)
    assert f" as {suffix.split('.')[-1].lower()}: expected a suffix such as .csv" in errors


@pytest.mark.parametrize(
    "words", [["lookup", NATIVE, "key_662"], ["diff", NATIVE, NATIVE]], ids=lambda words: words[0]
)
def test_other_commands_write_the_format_that_the_suffix_names(
    run: Any, tmp_path: Path, words: list[str]
) -> None:
    code, output, _ = run(*words, "--output", str(tmp_path / "rows.json"))

    assert (code, output) == (0, b"")
    assert json.loads((tmp_path / "rows.json").read_bytes())


def test_a_table_in_a_pipe_has_whole_cells(run: Any) -> None:
    code, output, _ = run("query", "SELECT repeat('ab', 5000) AS long, 1 AS n", "--savepoint", NATIVE)

    assert (code, output.decode().splitlines()[2]) == (0, "ab" * 5000 + "  1")


def test_two_savepoints_have_the_given_names(run: Any) -> None:
    sql = "SELECT count(*) AS n FROM old.aggregate JOIN new.aggregate USING (key, value)"

    code, output, _ = run(
        "query", sql, "--savepoint", f"old={CANONICAL}", "--savepoint", f"new={NATIVE}", "--format", "jsonl"
    )

    assert (code, output) == (0, b'{"n":1000}\n')


def test_a_query_over_missing_files_fails_or_says_what_it_lacks(run: Any, tmp_path: Path) -> None:
    folder = write_in_files(Path(CANONICAL), tmp_path / "sp")
    [file] = folder.glob("source-1.*")
    file.unlink()
    sql = "SELECT count(*) AS positions FROM source_offsets"

    failed = run("query", sql, "--savepoint", str(folder), "--format", "csv")
    partial = run("query", sql, "--savepoint", str(folder), "--format", "csv", "--allow-partial")

    assert failed[:2] == (3, b"")
    assert file.name in failed[2]
    assert partial[:2] == (0, b'"positions"\r\n2\r\n')
    assert "source_offsets lacks rows" in partial[2]
    assert file.name in partial[2]


def test_max_rows_prints_a_notice_on_standard_error(run: Any) -> None:
    code, output, errors = run(
        "query", "SELECT key FROM aggregate", "--savepoint", NATIVE, "--max-rows", "2", "--format", "jsonl"
    )

    assert (code, len(output.splitlines())) == (0, 2)
    assert errors == "savepointdb: there are more than 2 rows\n"


@pytest.mark.parametrize(
    "words",
    [
        [NATIVE, COUNT],
        [NATIVE, "--max-rows", "1", COUNT],
        ["--max-rows", "1", NATIVE, COUNT],
        ["--savepoint", NATIVE, COUNT],
        [COUNT, "--savepoint", NATIVE],
        [f"native={NATIVE}", COUNT],
        [NATIVE, "-"],
        ["-", "--savepoint", NATIVE],
        [NATIVE, "--", COUNT],
    ],
)
def test_the_path_of_a_query_comes_first_or_behind_an_option(
    run: Any, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(COUNT))

    assert run("query", "--format", "csv", *words) == (0, b'"keys"\r\n1000\r\n', "")


def test_a_query_takes_several_paths_in_either_form(run: Any) -> None:
    sql = "SELECT o.value AS old, n.value AS new FROM old.aggregate o JOIN new.aggregate n USING (key) WHERE key = 'key_662'"
    for words in (
        [f"old={CANONICAL}", f"new={NATIVE}", sql],
        [f"old={CANONICAL}", sql, "--savepoint", f"new={NATIVE}"],
    ):
        assert run("query", *words, "--format", "csv") == (0, b'"old","new"\r\n11290,11290\r\n', "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected SQL or --saved, found neither: savepointdb query PATH SQL"),
        (["--savepoint", NATIVE], "expected SQL or --saved, found neither: savepointdb query PATH SQL"),
        ([NATIVE], f"expected SQL behind the path {NATIVE}: savepointdb query PATH SQL"),
        (
            [COUNT],
            "expected the path of a savepoint, as PATH or as --savepoint PATH: savepointdb query PATH SQL",
        ),
        ([COUNT, NATIVE], "expected PATH before SQL, found SQL first: savepointdb query PATH SQL"),
        ([NATIVE, COUNT, "--saved", "x"], "expected SQL or --saved, and not both"),
        ([COUNT, "--savepoint", NATIVE, "--saved", "x"], "expected SQL or --saved, and not both"),
        (
            ["--saved", "x"],
            "expected the path of a savepoint, as PATH or as --savepoint PATH: savepointdb query PATH SQL",
        ),
        ([NATIVE, "--saved", "x"], "expected --saved-queries, the file of the saved query"),
    ],
)
def test_a_query_without_a_path_or_a_statement_says_what_is_missing(
    run: Any, words: list[str], message: str
) -> None:
    assert run("query", *words) == (2, b"", f"savepointdb: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["query", "SELECT * FROM agregate", "--savepoint", NATIVE],
            1,
            "line 1, column 15: there is no table",
        ),
        (["query", "SELECT vlaue FROM aggregate", "--savepoint", NATIVE], 1, "there is no column 'vlaue'"),
        (["query", "DROP TABLE x", "--savepoint", NATIVE], 1, "DROP is not allowed"),
        (
            [
                *("query", "SELECT 1", "--savepoint", NATIVE),
                *("--engine", "spark", "--spark-master", "spark://127.0.0.1:1"),
            ],
            1,
            "duckdb",
        ),
        (
            ["query", "SELECT 1", "--savepoint", NATIVE, "--spark-options", "x"],
            2,
            "expected spark.NAME=VALUE",
        ),
        (
            [
                "query",
                "SELECT count(*) FROM range(1000000000000)",
                "--savepoint",
                NATIVE,
                "--timeout-s",
                "0.2",
            ],
            1,
            "not done within 0.2 s",
        ),
        (
            ["query", "SELECT 1", "--savepoint", NATIVE, "--output", "/nothing/x"],
            2,
            "cannot write /nothing/x",
        ),
        (["query", "SELECT 1"], 2, "--savepoint"),
        (["query", "SELECT 1", "--savepoint", NATIVE, "--format", "xml"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
        (["nothing"], 2, "expected a command or the path of a savepoint, found 'nothing'"),
        (["query", "SELECT 1", "--savepoint", "/nothing/there"], 3, "/nothing/there"),
        (["inspect", "/nothing/there"], 3, "/nothing/there"),
        (["lookup", "/nothing/there", "x"], 3, "/nothing/there"),
        (["serve", "--root", "/nothing/there", "--port", "0"], 3, "/nothing/there"),
    ],
)
def test_exit_codes_and_errors(run: Any, arguments: list[str], code: int, message: str) -> None:
    found, output, errors = run(*arguments)

    assert (found, output) == (code, b"")
    assert message in errors
    if "usage:" not in errors:
        assert len(errors.splitlines()) == 1
        assert errors.startswith("savepointdb: ")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.txt"])
def test_a_full_disk_leaves_no_half_of_the_rows(run: Any, name: str, tmp_path: Path) -> None:
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / name
    try:
        # A longer file fails as on a full disk, with another reason.
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, whole[1]))
        answer = run("query", NATIVE, "SELECT * FROM aggregate", "--no-cache", "--output", str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, whole)

    assert answer == (1, b"", f"savepointdb: cannot write {path}: File too large\n")
    assert list(tmp_path.iterdir()) == []
    assert run("query", NATIVE, "SELECT * FROM aggregate", "--output", "/dev/full") == (
        *(1, b""),
        "savepointdb: cannot write /dev/full: No space left on device\n",
    )


def test_a_failed_command_leaves_no_folder_behind(run: Any, tmp_path: Path) -> None:
    spill = ["--temp-directory", str(tmp_path)]

    for sql, path in (
        ("SELECT 1", "/nothing/there"),
        ("SELECT * FROM nothing", NATIVE),
        ("SELECT 1", NATIVE),
    ):
        run("query", sql, "--savepoint", path, *spill)

    assert list(tmp_path.iterdir()) == []


def test_a_broken_savepoint_has_its_exit_code_and_names_the_file(run: Any, tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "sp")
    metadata = tmp_path / "sp" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:50])

    code, output, errors = run("query", "SELECT * FROM aggregate", "--savepoint", str(tmp_path / "sp"))

    assert (code, output) == (3, b"")
    assert str(tmp_path) in errors


def test_verbose_adds_the_traceback(run: Any) -> None:
    code, _, errors = run("query", "SELECT * FROM agregate", "--savepoint", NATIVE, "--verbose")

    assert code == 1
    assert "Traceback" in errors
    assert errors.splitlines()[-1].startswith("savepointdb: ")


def test_inspect_shows_operators_states_and_sizes(run: Any) -> None:
    code, output, errors = run("inspect", NATIVE)
    text = output.decode()

    assert (code, errors) == (0, "")
    assert text.startswith("native: savepoint 2, ")
    for word in (
        "aggregate__count",
        "VALUE",
        "String",
        "Long",
        "mod7-no-uid",
        "Tuple3<String, Integer, Long>",
    ):
        assert word in text
    assert text.rstrip().endswith("all of it decodes")


def test_inspect_shows_the_notes_of_decoded_states(run: Any, tmp_path: Path) -> None:
    code, output, _ = run("inspect", str(unpack_old(tmp_path, "heaptimers") / "native"))

    assert code == 0
    assert "8 decoded states with a note" in output.decode()
    assert "timers: this savepoint holds none for the windows" in output.decode()


def test_inspect_as_json_has_all_columns(run: Any) -> None:
    _, output, _ = run("inspect", str(Path(NATIVE).parent), "--format", "json")

    found = json.loads(output)

    assert [one["name"] for one in found] == [
        f"wordcount-rocksdb-savepoints__{name}" for name in ("canonical", "native")
    ]
    assert {state["state_name"] for state in found[1]["states"]} == {
        "seen",
        "count",
        "topic-partition-offset-states",
    }
    assert len(found[1]["operators"]) == 3


def test_lookup_shows_every_state_and_timer_of_a_key(run: Any) -> None:
    code, output, _ = run("lookup", EVERYTHING, "k0", "--format", "jsonl")
    rows = [json.loads(line) for line in output.splitlines()]

    assert code == 0
    assert {row["operator"] for row in rows} == {"kinds", "types", "tumbling-window"}
    assert [row["value"] for row in rows if row["state"] == "list"] == [0, 1, 2, 3]
    assert {row["map_key"]: row["value"] for row in rows if row["state"] == "map"}["m3"] is None
    timers = [row for row in rows if row["kind"].endswith(" TIMER")]
    assert {row["kind"] for row in timers} == {"EVENT TIMER", "PROCESSING TIMER"}
    assert "1970-01-01T00:00:09.999" in [row["value"] for row in timers]
    assert any(row["namespace"] for row in timers)


def test_lookup_reads_the_key_as_the_type_of_the_operator(run: Any) -> None:
    def found(key: str) -> list[tuple[str, Any]]:
        _, output, _ = run("lookup", NATIVE, key, "--format", "jsonl")
        return [(row["operator"], row["value"]) for row in map(json.loads, output.splitlines())]

    [(operator, count)] = found("3")
    assert (operator, count > 0) == ("mod7-no-uid", True)
    assert found("key_662") == [("aggregate", 11290)]


def test_a_source_may_have_a_name(tmp_path: Path) -> None:
    odd = tmp_path / "a=b"
    odd.mkdir()

    assert [
        (root.label, root.path) for root in roots_of(["x=/p", "/p/a=b", str(odd), "s3://b/k=v", "x=s3://b/k"])
    ] == [
        ("x", "/p"),
        ("", "/p/a=b"),
        ("", str(odd)),
        ("", "s3://b/k=v"),
        ("x", "s3://b/k"),
    ]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "service.cli", *arguments]


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    query = command("query", "SELECT * FROM range(10000000)", "--savepoint", NATIVE, "--format", "csv")
    with subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(100)
        running.stdout.close()

        assert running.wait(PATIENCE_S) == 0
        assert running.stderr.read() == b""


def test_statement_from_standard_input_in_a_process_of_its_own() -> None:
    ended = subprocess.run(
        command("query", "-", "--savepoint", NATIVE, "--format", "jsonl"),
        input=ONE_KEY.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b'{"key":"key_662","value":11290}\n', b"")


def test_version(run: Any) -> None:
    code, output, errors = run("--version")

    assert (code, errors) == (0, "")
    assert re.fullmatch(
        rb"savepointdb [0-9.]+\n"
        rb"(commit  [0-9a-f]{12}(\+changes)?\n)?"
        rb"reads   Flink 1\.2 \xe2\x80\x93 2\.3 \(_metadata versions 1 \xe2\x80\x93 6\)\n"
        rb"writes  Flink 1\.11 \xe2\x80\x93 2\.3 \(_metadata versions 3 \xe2\x80\x93 6\)\n",
        output,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("query", "SELECT count(*) FROM aggregate", "--savepoint", NATIVE),
            "the output cannot be written: ",
        ),
        (("doctor-env",), "the output cannot be written: "),
    ],
    ids=["by the command", "at the end"],
)
def test_output_that_nobody_can_take_is_an_error_of_one_line(
    arguments: tuple[str, ...], message: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            command(*arguments), env=environment, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )

    assert ended.returncode == 1
    assert ended.stderr.decode().startswith(f"savepointdb: {message}No space left on device")
    assert ended.stderr.count(b"\n") == 1


def test_help_loads_no_engine() -> None:
    script = "import sys; from service import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
    script += (
        "sys.exit(any(name in sys.modules for name in ('duckdb', 'pyarrow', 'numba', 'fastapi', 'sqlglot')))"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=60)

    assert ended.returncode == 0
    assert b"lookup" in ended.stdout


@pytest.mark.slow
def test_serve_logs_savepoints_that_cannot_be_read(broken_neighbour: Path) -> None:
    serve = command("serve", "--root", f"job={broken_neighbour}", "--port", "0")
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        said = next(line for line in running.stderr if "cannot be read" in line)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)

    assert "chk-2" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_write_that_is_asked_to_end_leaves_no_target(
    sent: signal.Signals, code: int, tmp_path: Path
) -> None:
    target = tmp_path / "new"
    write = command("write", NATIVE, "UPDATE aggregate__count SET value = value + 1", "--to", str(target))
    # On a busy machine a write may end before the signal comes.
    for _ in range(20):
        # Whoever runs the tests under nohup ignores a signal, and so would the command.
        before = signal.signal(sent, signal.SIG_DFL)
        try:
            running = subprocess.Popen(write, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finally:
            signal.signal(sent, before)
        with running:
            while running.poll() is None and not target.exists():
                pass
            running.send_signal(sent)
            _, told = running.communicate(timeout=PATIENCE_S)
        # It may be whole when the signal comes.
        if running.returncode and not (target / "_metadata").exists():
            break
        shutil.rmtree(target)

    assert (running.returncode, told, target.exists()) == (code, "", False)


def answered(address: str) -> httpx.Response | None:
    """The answer of a service, if it listens."""
    try:
        return httpx.get(address, timeout=60)
    except httpx.TransportError:
        return None


@pytest.mark.slow
def test_serve_answers_and_ends_at_a_signal() -> None:
    serve = command("serve", "--root", f"job={Path(NATIVE).parent}", "--port", "0")
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stdout is not None
        told = running.stderr.readline()
        address = next(word for word in told.split() if word.startswith("http://")).removesuffix("/")
        health = awaited(lambda: answered(f"{address}/healthz"))
        databases = httpx.get(f"{address}/api/databases", timeout=60).json()["databases"]
        running.send_signal(signal.SIGTERM)

        assert told.startswith("savepointdb serves 2 savepoints at ")
        assert health.json() == {"status": "ok"}
        assert {one["name"] for one in databases if one["alias_of"] is None} == {
            f"job__{name}" for name in ("canonical", "native")
        }
        assert running.wait(PATIENCE_S) in (0, -signal.SIGTERM)
        assert running.stdout.read() == ""
        assert running.stderr.read() == ""


def test_a_port_in_use_is_an_error(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, errors = run("serve", "--root", NATIVE, "--port", str(taken.getsockname()[1]))

    assert code == 2
    assert "cannot listen" in errors


@pytest.mark.slow
def test_a_query_does_not_depend_on_time_zone_and_locale() -> None:
    sql = "SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00' AS t, CAST('2020-01-01' AS TIMESTAMPTZ) AS u, lower('I') AS i"
    environment = os.environ | {"TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8"}

    ended = subprocess.run(
        command("query", sql, "--savepoint", NATIVE, "--format", "jsonl"),
        env=environment,
        capture_output=True,
        check=True,
        timeout=60,
    )

    instant = "2020-01-01T00:00:00.000000Z"
    assert json.loads(ended.stdout) == {"t": instant, "u": instant, "i": "i"}


# ---- names from files ----

OLD = FLINK / "1.20.3" / "wordcount-hashmap-savepoints" / "canonical"


def test_stateinfo_write_describes_a_savepoint(run: Any, tmp_path: Path) -> None:
    savepoint = shutil.copytree(OLD, tmp_path / "savepoint")
    plan = tmp_path / "plan.json"
    vertex = {"id": "f7c20420360e0172e54933e6abdd481a", "name": "aggregate"}
    plan.write_text(json.dumps({"vertices": [vertex]}), encoding="utf-8")

    code, output, errors = run("stateinfo", "write", str(savepoint), "--plan", str(plan))

    assert (code, output, errors) == (0, b"", f"written to {savepoint}/stateInfo\n")
    assert run("inspect", str(savepoint))[1].decode().count("aggregate__count") == 1


def test_stateinfo_write_names_what_it_cannot_read(run: Any, tmp_path: Path) -> None:
    code, _, errors = run("stateinfo", "write", str(OLD), "--output", str(tmp_path / "x"), "--plan", "none")

    assert code == 3
    assert "expected a job plan" in errors


def test_uids_and_stateinfo_from_files_name_the_tables(run: Any, tmp_path: Path) -> None:
    uids, state_info = tmp_path / "uids", tmp_path / "info"
    uids.write_text("aggregate\n", encoding="utf-8")
    operator = {"id": "f7c20420360e0172e54933e6abdd481a", "uid": "aggregate"}
    state_info.write_text(json.dumps({"version": 1, "operators": [operator]}), encoding="utf-8")

    for names in (("--uids", str(uids)), ("--state-info", str(state_info))):
        assert "aggregate__count" in run("inspect", str(OLD), *names)[1].decode()
    assert run("inspect", str(OLD), "--uids", "none")[0] == 3


@pytest.mark.parametrize("given", ["option", "environment"])
def test_the_jars_of_the_job_name_the_fields_of_objects_that_kryo_wrote(
    run: Any, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, jar = DATA / "corpus/1.20.3/alltypes-hashmap/canonical", str(DATA / "classes/jobs.jar")
    options = ("--jar", jar) if given == "option" else ()
    if given == "environment":
        monkeypatch.setenv("SAVEPOINTDB_JAR", jar)
    sql = "SELECT key, value FROM types__v_kryo_generic ORDER BY key"

    code, output, _ = run("query", sql, "--savepoint", str(path), "--format", "csv", *options)

    assert code == 0
    assert output.decode().splitlines() == [
        '"key","value"',
        '"k0","{""@class"":""corpus.T$Generic"",""a"":1,""b"":""one"",""c"":[""x"",2]}"',
        '"k1","{""@class"":""corpus.T$Generic"",""a"":-1,""b"":null,""c"":[]}"',
    ]


def test_a_jar_that_is_missing_is_named(run: Any) -> None:
    code, _, errors = run("inspect", str(OLD), "--jar", "nowhere.jar")

    assert code == 3
    assert "nowhere.jar" in errors


LOADED = """
import json, sys
from service.cli import main
code = main(sys.argv[1:])
names = ("numba", "pandas", "fastapi", "uvicorn", "pyspark", "rocksdict", "tomllib", "service.query.engines.spark.sql")
print(json.dumps([code, [name for name in names if name in sys.modules]]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def is_compiled() -> None:
    """Compile all code, and keep it."""
    subprocess.run(command("compile"), check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.usefixtures("is_compiled")
@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "SELECT count(*), max(value) FROM aggregate", "--savepoint", NATIVE),
        ("query", "SELECT count(*) FROM StateMeta", "--savepoint", NATIVE),
        ("lookup", NATIVE, "key_662"),
        ("inspect", NATIVE),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_query_loads_neither_the_compiler_nor_a_server_nor_pandas(arguments: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], check=True, capture_output=True, text=True
    )

    assert json.loads(ended.stderr) == [0, []]


@pytest.mark.slow
def test_pandas_can_still_be_imported() -> None:
    pytest.importorskip("pandas")
    program = (
        "from service.base.machine import load_without_pandas; load_without_pandas(); import pyarrow as pa; "
        "import sys; assert 'pandas' not in sys.modules; import pandas; "
        "assert pa.table({'a': [1, 2]}).to_pandas()['a'].sum() == 3; "
        "assert pa.array(pandas.Series([1.0, float('nan')])).null_count == 1"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_a_process_leaves_no_files_of_its_own(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    statement = "SELECT count(*) FROM aggregate"

    ended = subprocess.run(
        command("query", statement, "--savepoint", NATIVE, "--format", "csv"),
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip

    assert (ended.stdout.split(), ended.stderr) == (['"count_star()"', "1000"], "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_failed_statement_ends_the_process_with_its_code() -> None:
    ended = subprocess.run(
        command("query", "SELECT nothing FROM aggregate", "--savepoint", NATIVE),
        check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "there is no column 'nothing'" in ended.stderr


def test_compile_prints_when_it_is_done(run: Any) -> None:
    code, output, errors = run("compile")

    assert (code, output, errors) == (0, b"", "savepointdb: all is compiled\n")


# --- remote savepoints ---


def test_commands_take_a_savepoint_in_an_object_store(run: Any, store: ObjectStore, proxy: Proxy) -> None:
    store.upload(INCREMENTAL, "cli")
    url = proxy.url("cli/chk-2")

    assert b"11290" in run("query", ONE_KEY, "--savepoint", url)[1]
    assert b"11290" in run("lookup", url, "key_662")[1]
    assert run("inspect", url, "--format", "json")[0] == 0
    code, output, errors = run("query", ONE_KEY, "--savepoint", proxy.url("cli/chk-7"))
    assert (code, output) == (3, b"")
    assert errors.startswith("savepointdb: expected a savepoint")
    assert errors.count("\n") == 1


# --- moved savepoints ---

RECORDED = "file:/tmp/savepointdb-fixtures/2.3.0/wordcount-rocksdb-checkpoint-incremental/cp/818600d67918fd602d804fa8a20e3c3e"
INCREMENTAL = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"


@pytest.fixture
def scattered(tmp_path: Path) -> Path:
    """A checkpoint without its shared files, which are somewhere else."""
    shutil.copytree(INCREMENTAL / "chk-2", tmp_path / "chk-2")
    shutil.copytree(INCREMENTAL / "shared", tmp_path / "there" / "files")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("query", ONE_KEY, "--savepoint", "{}"),
        ("lookup", "{}", "key_662"),
        ("inspect", "{}"),
        ("stateinfo", "write", "{}", "--output", "{}.json"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_takes_the_new_place_of_moved_files(
    run: Any, scattered: Path, command: tuple[str, ...]
) -> None:
    arguments = [part.format(scattered / "chk-2") for part in command]
    mapped = ["--path-map", f"{RECORDED}/shared={scattered}/there/files", "--path-map", "s3://a/b=c=/nowhere"]

    code, output, _ = run(*arguments, *mapped)

    assert code == 0
    if command[0] in ("query", "lookup"):
        assert b"11290" in output
        failed, _, errors = run(*arguments)
        assert failed == 3
        assert "found neither" in errors


@pytest.fixture
def broken_neighbour(tmp_path: Path) -> Path:
    """A folder of two savepoints, of which the newer one is cut."""
    for name in ("chk-1", "chk-2"):
        shutil.copytree(CANONICAL, tmp_path / name)
    metadata = tmp_path / "chk-2" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:1000])
    return tmp_path


def test_a_lookup_answers_beside_a_broken_savepoint_and_names_it(run: Any, broken_neighbour: Path) -> None:
    code, output, errors = run("lookup", str(broken_neighbour), "key_662", "--format", "jsonl")
    missed = run("lookup", str(broken_neighbour), "no such key")

    assert code == 0
    assert [(row["operator"], row["value"]) for row in map(json.loads, output.splitlines())] == [
        ("aggregate", 11290)
    ]
    assert "chk-2" in errors
    assert errors.count("\n") == 1
    # The key may be in the other one.
    assert missed[:2] == (3, b"")
    broken, told = missed[2].splitlines()
    assert broken == errors.rstrip()
    assert told == (
        "savepointdb: no state has the key 'no such key'; keys here look like: 4 (mod7-no-uid), key_100 (aggregate) "
        "(of what can be read)"
    )


def test_a_query_that_names_no_database_takes_the_newest_readable_one(
    run: Any, broken_neighbour: Path
) -> None:
    code, output, errors = run("query", ONE_KEY, "--savepoint", f"job={broken_neighbour}", "--format", "csv")
    other = run("query", ONE_KEY, "--savepoint", str(broken_neighbour), "--database", "chk-2")
    named = run("query", ONE_KEY, "--savepoint", str(broken_neighbour), "--database", "chk-1")

    assert (code, output) == (0, b'"key","value"\r\n"key_662",11290\r\n')
    assumed, skipped = errors.splitlines()[-2:]
    assert assumed == (
        'savepointdb: tables that name no database are read from "job__chk-1", the newest of 2; '
        "--database names another"
    )
    assert skipped.startswith(
        'savepointdb: "latest" is "job__chk-1": "job__chk-2" is newer, and cannot be read: damaged'
    )
    assert other[0] == 3
    assert (named[0], named[2]) == (0, "")


def test_an_unknown_database_is_an_error_of_any_statement(run: Any) -> None:
    code, output, errors = run("query", "SELECT 1", "--savepoint", NATIVE, "--database", "nativ")

    assert (code, output) == (1, b"")
    assert errors.startswith("savepointdb: there is no database 'nativ'")
    assert '"native"' in errors


def test_show_create_table_is_shown_as_lines(run: Any) -> None:
    code, output, _ = run("query", "SHOW CREATE TABLE aggregate__count", "--savepoint", NATIVE)

    assert code == 0
    assert output.decode().splitlines()[:3] == [
        "CREATE TABLE native.aggregate__count (",
        "    key VARCHAR,",
        "    namespace VARCHAR,",
    ]


def test_an_inspection_goes_on_beside_a_broken_savepoint(run: Any, broken_neighbour: Path) -> None:
    code, output, errors = run("inspect", str(broken_neighbour))

    assert code == 0
    assert b"aggregate__count" in output
    assert "chk-2 cannot be read" in errors


def test_an_inspection_sees_that_files_are_missing(run: Any, tmp_path: Path) -> None:
    checkpoint = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    shutil.copytree(checkpoint, tmp_path / "checkpoint")
    file = max((tmp_path / "checkpoint" / "shared").iterdir())
    file.unlink()

    code, output, errors = run("inspect", str(tmp_path / "checkpoint" / "chk-2"))
    other, facts, _ = run("inspect", str(tmp_path / "checkpoint" / "chk-2"), "--format", "json")

    assert (code, errors, other) == (1, "savepointdb: files are missing or cut: chk-2\n", 1)
    assert b"1 file missing or cut" in output
    assert b"all of it decodes" not in output
    [missing] = json.loads(facts)[0]["missing_files"]
    assert missing["path"].endswith(file.name)
