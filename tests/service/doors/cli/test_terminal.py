"""The command line on a terminal: rows that fit, and what is told beside them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from service import cli
from service.base.settings import UNLIMITED, settings_of
from tests.support.paths import DATA
from tests.support.terminal import OnTerminal, run_on_terminal

NATIVE = str(DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native")
EVERYTHING = str(DATA / "flink" / "2.3.0" / "everything-rocksdb-savepoints" / "native")
META = "SELECT operator_id, operator_name, state_name, value_serializer, decode_status FROM StateMeta"


def query(sql: str, *options: str, columns: int = 80, errors_too: bool = False) -> OnTerminal:
    return run_on_terminal(command(sql, *options), columns=columns, errors_too=errors_too)


def command(sql: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "service.cli", "query", sql, "--savepoint", NATIVE, *options]


@pytest.mark.slow
def test_a_terminal_shows_forty_rows_and_the_number_of_all() -> None:
    seen = query("SELECT range AS n FROM range(2000000)")

    assert seen.code == 0
    assert seen.screen.splitlines() == [" n", "──", *(f"{n:>2}" for n in range(40))]
    assert seen.errors == "2,000,000 rows (40 shown)\n"


@pytest.mark.slow
def test_few_rows_are_counted_too() -> None:
    seen = query("SELECT key FROM aggregate WHERE key = 'key_662'")

    assert (seen.screen, seen.errors) == ("key\n───────\nkey_662\n", "1 row\n")


@pytest.mark.slow
def test_as_many_rows_as_the_user_asks_for() -> None:
    seen = query("SELECT range AS n FROM range(100)", "--max-rows", "60")

    assert seen.screen.splitlines()[2:] == [f"{n:>2}" for n in range(60)]
    assert seen.errors == "savepointdb: there are more than 60 rows\n"


@pytest.mark.slow
def test_a_pipe_gets_all_rows_and_no_count(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["query", "SELECT range AS n FROM range(100)", "--savepoint", NATIVE])

    seen = capsys.readouterr()
    assert seen.out.splitlines()[2:] == [f"{n:>2}" for n in range(100)]
    assert (code, seen.err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_process_of_its_own_writes_every_format(name: str, tmp_path: Path) -> None:
    sql = "SELECT key, value FROM aggregate WHERE key = 'key_662'"
    path = tmp_path / f"rows.{name}"

    subprocess.run(command(sql, "--format", name, "--output", str(path)), check=True, timeout=60)

    read = parquet.read_table(path) if name == "parquet" else pa.ipc.open_stream(path).read_all()
    assert read.to_pylist() == [{"key": "key_662", "value": 11290}]


@pytest.mark.slow
def test_columns_without_room_are_left_out_and_named() -> None:
    seen = query(META, columns=70)

    lines = seen.screen.splitlines()
    assert lines[0].split() == ["operator_id", "operator_name", "value_serializer"]
    assert max(map(len, lines)) <= 70
    # The ids stand whole.
    assert re.fullmatch(r"[0-9a-f]{32}", lines[2].split()[0])
    assert seen.errors.splitlines()[1:] == [
        "2 columns left out: state_name, decode_status (--format line shows every column)"
    ]


@pytest.mark.slow
def test_columns_that_scans_add_are_left_out_first() -> None:
    seen = query("SELECT * FROM aggregate__count WHERE key = 'key_662'", columns=18)

    assert seen.screen.splitlines()[0].split() == ["key", "value"]
    assert seen.errors.splitlines()[1:] == [
        "3 columns left out: namespace, _key_group, _subtask (--format line shows every column)"
    ]


@pytest.mark.slow
def test_line_format_shows_each_value_on_a_line() -> None:
    sql = "SELECT key, value, 'a\nb' AS text FROM aggregate__count WHERE key IN ('key_662', 'key_663') ORDER BY key"

    seen = query(sql, "--format", "line")

    assert seen.screen == (
        "  key = key_662\nvalue = 11290\n text = a\\nb\n\n  key = key_663\nvalue = 132\n text = a\\nb\n"
    )
    assert seen.errors == "2 rows\n"


@pytest.mark.slow
def test_tables_of_inspect_fit_the_terminal() -> None:
    seen = run_on_terminal([sys.executable, "-m", "service.cli", "inspect", NATIVE], columns=70)

    lines = seen.screen.splitlines()
    assert lines[3].split() == ["uid", "name", "id", "max"]
    assert "  left out, for lack of room: parallelism, size" in lines
    assert max(len(line) for line in lines[1:] if "left out" not in line) <= 70


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table", "line"])
def test_explain_is_shown_as_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(["query", "EXPLAIN SELECT key FROM aggregate", "--savepoint", NATIVE, "--format", name]) == 0
    )

    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "engine: duckdb"
    assert [line for line in lines if line.startswith("reads: ")] == [
        "reads: native.aggregate: 2 of 2 splits, 128 of 128 key groups, 41,280 of 41,280 bytes, not cached; "
        "no condition that prunes"
    ]
    assert len(lines) > 4
    assert "\\n" not in shown


@pytest.mark.slow
def test_the_progress_is_cleared_before_the_first_row() -> None:
    seen = query(
        "SELECT count(*) FILTER (hash(range) % 3 = 0) > 0 AS found FROM range(200000000)", errors_too=True
    )

    assert seen.code == 0
    # The line is written over and over: what stands on the screen is what follows the last clearing.
    visible = re.sub(r"[^\n]*\r\x1b\[K", "", seen.screen)
    assert visible == "found\n─────\ntrue\n1 row\n"


@pytest.mark.slow
def test_a_command_has_no_time_limit_unless_it_is_given() -> None:
    assert settings_of({}, {}, UNLIMITED).queries.timeout_s == float("inf")
    assert settings_of({"timeout_s": 9000.0}, {}, UNLIMITED).queries.timeout_s == 9000
    assert settings_of({}, {"SAVEPOINTDB_TIMEOUT_S": "5"}, UNLIMITED).queries.timeout_s == 5
    assert settings_of({}, {}).queries.timeout_s == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "imported"),
    [
        ("service.cli", "service.doors.cli.output"),
        ("savepointdb", "argparse"),
        ("savepointdb", "service.doors.cli.output"),
    ],
)
def test_an_interrupt_while_modules_are_imported_leaves_no_traceback(program: str, imported: str) -> None:
    endless = command("SELECT count(*) FROM range(2000000000)")[3:]
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", program, *endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.rstrip().endswith(imported):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert [line for line in errors.splitlines() if not line.startswith("import time:")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT * FROM aggregate WHERE key = 662",
            "line 1, column 37: Could not convert string 'key_163' to INT32 when casting from source column key "
            "(key is a text: compare it with texts in single quotes, such as '662')",
        ),
        (
            'SELECT * FROM aggregate WHERE key = "key_662"',
            "line 1, column 37: there is no column 'key_662' "
            "(did you mean \"key\"? a text stands in single quotes: 'key_662')",
        ),
    ],
)
def test_errors_have_a_position_and_say_what_to_write(
    sql: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", sql, "--savepoint", NATIVE]) == 1
    found = capsys.readouterr().err.removeprefix("savepointdb: ").strip()
    assert re.sub(r"'key_\d+' to", "'key_163' to", found) == message


@pytest.mark.slow
def test_a_sum_over_states_of_several_types_names_the_typed_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sql = "SELECT sum(value) FROM kinds"

    assert cli.main(["query", sql, "--savepoint", EVERYTHING]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("savepointdb: line 1, column 12: No function matches")
    assert '"kinds__<state>" has the type of one state' in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["lookup", "--verbose"],
        ["query", "SELECT 1", "--savepoint"],
        ["query", "SHOW SCHEMAS", "--savepoint"],
    ],
    ids=" ".join,
)
def test_an_empty_folder_is_unreadable(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*command, str(tmp_path), *(["key"] if command[0] == "lookup" else [])]

    assert cli.main(arguments) == 3

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == (
        f"savepointdb: {tmp_path}: expected a savepoint, a checkpoint or a folder with some, "
        "found no _metadata in or below it"
    )


@pytest.mark.slow
def test_the_folder_of_shared_files_is_no_savepoint(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"

    assert cli.main(["inspect", str(checkpoint / "shared")]) == 3
    assert "found no _metadata in or below it" in capsys.readouterr().err


@pytest.mark.slow
def test_an_empty_folder_beside_a_savepoint_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = ["--savepoint", str(tmp_path), "--savepoint", EVERYTHING]

    assert cli.main(["query", "SELECT 1 AS one", *sources, "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"one"', "1"]


@pytest.mark.slow
def test_a_cut_metadata_file_is_called_damaged_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = Path(NATIVE, "_metadata").read_bytes()
    (tmp_path / "_metadata").write_bytes(content[:300])

    assert cli.main(["inspect", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("savepointdb: damaged or incomplete: expected ")


@pytest.mark.slow
def test_help_begins_with_what_every_query_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["query", "--help"])

    output = capsys.readouterr().out
    assert output.startswith("usage: savepointdb query [NAME=]PATH… (SQL | --saved NAME)")
    options = re.findall(r"^  (--[a-z-]+)", output, re.MULTILINE)
    assert options[:5] == ["--savepoint", "--saved", "--param", "--format", "--output"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("serve", ["--root", "--port", "--host", "--keys-file"]),
        ("inspect", ["--format", "--output", "--no-cache", "--verbose"]),
        ("lookup", ["--format", "--output", "--no-cache", "--verbose"]),
    ],
)
def test_help_begins_with_what_every_call_needs(
    capsys: pytest.CaptureFixture[str], name: str, first: list[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])

    own, *groups = re.split(
        r"\n\n(?=[a-zA-Z][a-zA-Z ,]+:\n)", capsys.readouterr().out.partition("options:")[2]
    )
    assert re.findall(r"^  (--[a-z-]+)", own, re.MULTILINE)[: len(first)] == first
    assert groups[0].startswith("names of operators, places of files:")
