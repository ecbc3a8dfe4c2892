"""The shell: statements of a pipe, commands, completion, and what a person sees at a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from pyarrow import parquet

from service import cli
from service.doors.cli.shell.completion import ConsoleCompleter
from service.doors.cli.shell.console import Console
from service.doors.cli.shell.statements import statements_of
from service.doors.cli.shell.terminal import PrivateHistory
from tests.support.consoles import comparable
from tests.support.paths import DATA, PROJECT
from tests.support.terminal import Talk

FLINK = DATA / "flink" / "2.3.0"
NATIVE = str(FLINK / "wordcount-rocksdb-savepoints" / "native")
JOB = FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
ONE = "SELECT key, value FROM aggregate WHERE key = 'key_662'"
ONE_AS_CSV = b'"key","value"\r\n"key_662",11290\r\n'


class Piped:
    """The end of a shell whose statements came from a pipe."""

    def __init__(self, code: int, output: bytes, errors: str) -> None:
        self.code, self.output, self.errors = code, output, errors


@pytest.fixture
def pipe(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Piped]:
    """Runs a shell over statements, in this process."""

    def call(script: str | bytes, *options: str, path: str = NATIVE) -> Piped:
        content = script.encode() if isinstance(script, str) else script
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        try:
            code = cli.main([path, *options])
        except SystemExit as ended:
            code = int(ended.code or 0)
        sys.stdout.flush()
        output, errors = capfdbinary.readouterr()
        return Piped(code, output, errors.decode())

    return call


def test_statements_of_a_pipe_run_one_after_the_other(pipe: Callable[..., Piped]) -> None:
    seen = pipe(f"{ONE};\nSELECT count(*) AS n\nFROM aggregate; -- the end\n", "--format", "csv")

    assert (seen.code, seen.output, seen.errors) == (0, ONE_AS_CSV + b'"n"\r\n1000\r\n', "")


def test_the_last_statement_needs_no_semicolon(pipe: Callable[..., Piped]) -> None:
    assert pipe(ONE, "--format", "csv").output == ONE_AS_CSV
    assert pipe("").code == pipe("\n -- nothing\n;;").code == 0


def test_the_first_statement_that_fails_ends_a_pipe_with_its_code(pipe: Callable[..., Piped]) -> None:
    seen = pipe(
        "SELECT 1 AS a;\n\n  SELECT 2 AS b; SELECT x\nFROM agregate; SELECT 3 AS c;", "--format", "csv"
    )

    assert (seen.code, seen.output) == (1, b'"a"\r\n1\r\n"b"\r\n2\r\n')
    assert seen.errors.startswith(
        "savepointdb: line 4, column 6: there is no table 'agregate' in database 'native' (did you mean \"aggregate\""
    )


def test_errors_have_the_line_and_the_column_of_the_pipe(pipe: Callable[..., Piped]) -> None:
    seen = pipe("SELECT 1 AS a;\n/* two */ SELECT 2 AS b; SELECT x FROM agregate")

    assert "line 2, column 40: there is no table 'agregate'" in seen.errors


@pytest.mark.parametrize("script", [".tables", ".schema", "SHOW TABLES", "DESCRIBE"])
def test_the_tables_of_a_savepoint_that_cannot_be_read_are_no_empty_list(
    pipe: Callable[..., Piped], tmp_path: Path, script: str
) -> None:
    for name in ("savepoint-1", "savepoint-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_metadata").write_bytes((Path(NATIVE) / "_metadata").read_bytes()[:1000])

    seen = pipe(script, path=str(tmp_path))

    assert (seen.code, seen.output) == (3, b"")
    assert "_metadata" in seen.errors


def test_a_pipe_that_is_no_text_is_wrong_usage(pipe: Callable[..., Piped]) -> None:
    seen = pipe(b"SELECT '\xff'")

    assert (seen.code, seen.errors) == (
        2,
        "savepointdb: expected text in UTF-8 in standard input, found other bytes\n",
    )


@pytest.mark.parametrize(
    ("script", "options", "code", "message"),
    [
        (
            "UPDATE aggregate SET value = 1",
            (),
            1,
            "line 1, column 1: UPDATE is not allowed (SELECT, EXPLAIN, SHOW, DESCRIBE and SUMMARIZE are allowed; "
            "to change states in a new savepoint, use: savepointdb write SOURCE --to TARGET 'SCRIPT')",
        ),
        ("DELETE FROM aggregate", (), 1, "use: savepointdb write SOURCE"),
        ("WITH a AS (INSERT INTO b VALUES (1)) SELECT 1", (), 1, "use: savepointdb write SOURCE"),
        ("DELETE FROM aggregate", ("--dialect", "trino"), 1, "use: savepointdb write SOURCE"),
        ("CALL rewind_kafka('a', 'b', 1)", ("--dialect", "flink"), 1, "found CALL (SELECT, EXPLAIN"),
        ("CREATE TABLE a AS SELECT 1", (), 1, "use: savepointdb create TARGET"),
        ("COPY aggregate TO 'a.csv'", (), 1, "use --output FILE or savepointdb export"),
        ("SELECT 1", ("--database", "nativ"), 1, "there is no database 'nativ'"),
        ("SELECT * FROM '/etc/passwd'", (), 1, "line 1, column 15: expected a file with one"),
        (".tabels", (), 2, "there is no command .tabels (did you mean .tables"),
        (".zzz", (), 2, "there is no command .zzz (.help lists them)"),
        (".mo", (), 2, ".mode: expected"),
        (".o x", (), 2, "there is no command .o (did you mean .once or .output?)"),
        (".mode jsn", (), 2, "found jsn (did you mean json"),
        (".timer perhaps", (), 2, ".timer: expected on or off, found perhaps"),
        (".maxrows 0", (), 2, ".maxrows: expected N|all, found 0"),
        (".width -3", (), 2, ".width: expected N|auto, found -3"),
        (".quit now", (), 2, ".quit: expected no arguments, found now"),
        (".database nativ", (), 1, "there is no database 'nativ'"),
        (".read /no/such.sql", (), 2, "cannot read /no/such.sql: No such file or directory"),
        (".once rows.csv.gz", (), 2, "cannot write rows.csv.gz as gz: expected a suffix such as .csv"),
        (".output /no/such/file", (), 2, "cannot write /no/such/file: No such file or directory"),
        ('.read "a', (), 2, ".read: expected quotation marks in pairs"),
        (r"\dt", (), 2, r"there is no command \dt (.tables does the same)"),
        (r"\zz", (), 2, r"there is no command \zz (.help lists the commands of this shell)"),
    ],
)
def test_what_fails_says_why(
    pipe: Callable[..., Piped], script: str, options: tuple[str, ...], code: int, message: str
) -> None:
    seen = pipe(f"{script}\n" if script[0] in ".\\" else script, *options)

    if script == ".mo":
        assert (seen.code, seen.output) == (0, b".mode table\n")
        return
    assert (seen.code, seen.output) == (code, b"")
    assert message in seen.errors


def test_a_path_that_is_not_there_is_unreadable(pipe: Callable[..., Piped]) -> None:
    seen = pipe("SELECT 1", path="/no/such/savepoint")

    assert (seen.code, seen.output) == (3, b"")
    assert "/no/such/savepoint" in seen.errors


def test_a_word_that_is_neither_command_nor_path_has_near_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["qury", "SELECT 1"])

    assert ended.value.code == 2
    assert (
        "expected a command or the path of a savepoint, found 'qury': there is no such file or folder (did you mean query?)"
        in capsys.readouterr().err
    )


def test_commands_change_how_answers_look(pipe: Callable[..., Piped]) -> None:
    seen = pipe(f".mode csv\n{ONE};\n.mode jsonl\n{ONE};\n.mode line\n{ONE};\n.mode\n")

    assert seen.output.decode() == (
        '"key","value"\r\n"key_662",11290\r\n{"key":"key_662","value":11290}\n  key = key_662\nvalue = 11290\n.mode line\n'
    )


def test_answers_are_tables_of_markdown_and_html(pipe: Callable[..., Piped]) -> None:
    statement = "SELECT key, value, namespace FROM aggregate WHERE key IN ('key_662', 'key_1') ORDER BY key"
    seen = pipe(f".mode markdown\n{statement};\n.mode html\n{statement};\n")

    assert seen.output.decode() == (
        "| key     | value | namespace |\n"
        "| ------- | ----: | --------- |\n"
        "| key_1   |    38 | NULL      |\n"
        "| key_662 | 11290 | NULL      |\n"
        "<table>\n"
        '<thead><tr><th>key</th><th align="right">value</th><th>namespace</th></tr></thead>\n'
        "<tbody>\n"
        '<tr><td>key_1</td><td align="right">38</td><td>NULL</td></tr>\n'
        '<tr><td>key_662</td><td align="right">11290</td><td>NULL</td></tr>\n'
        "</tbody>\n"
        "</table>\n"
    )


def test_modes_have_the_names_of_other_shells_too(pipe: Callable[..., Piped]) -> None:
    seen = pipe(".mode jsonlines\n.mode\n.mode duckbox\n.mode\n.mode Column\n.mode\n")

    assert seen.output.decode() == ".mode jsonl\n.mode table\n.mode table\n"


@pytest.mark.slow
def test_answers_go_to_a_file_one_after_the_other(pipe: Callable[..., Piped], tmp_path: Path) -> None:
    path = tmp_path / "my rows.jsonl"
    path.write_text("old", encoding="utf-8")

    seen = pipe(
        f'.mode jsonl\n.output "{path}"\nSELECT 1 AS a;\nSELECT x;\n.output\nSELECT 3 AS a;\n', "--verbose"
    )
    again = pipe(f'.mode jsonl\n.output "{path}"\nSELECT 1 AS a;\nSELECT 2 AS a;\n.output\nSELECT 3 AS a;\n')

    assert (seen.code, seen.output) == (1, b"")
    assert (again.code, again.output) == (0, b'{"a":3}\n')
    assert [json.loads(line)["a"] for line in path.read_text(encoding="utf-8").splitlines()] == [1, 2]


def test_once_is_for_one_answer(pipe: Callable[..., Piped], tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"

    seen = pipe(f".mode parquet\n.once {path}\n{ONE};\n.mode csv\n{ONE};\n")

    assert (seen.code, seen.output) == (0, ONE_AS_CSV)
    assert parquet.read_table(path).to_pylist() == [{"key": "key_662", "value": 11290}]


def test_the_suffix_of_a_file_names_the_format_unless_a_mode_was_chosen(
    pipe: Callable[..., Piped], tmp_path: Path
) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"

    seen = pipe(f".once {first}\n{ONE};\n.mode\n.mode jsonl\n.once {second}\nSELECT 2 AS b;\n")

    assert (seen.code, seen.output) == (0, b".mode table\n")
    assert (first.read_bytes(), second.read_bytes()) == (ONE_AS_CSV, b'{"b":2}\n')


def test_a_file_of_parquet_holds_one_answer(pipe: Callable[..., Piped], tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"

    seen = pipe(f".mode parquet\n.output {path}\n{ONE};\nSELECT 2 AS b;\n")

    assert (seen.code, seen.output) == (2, b"")
    assert f"{path} has an answer already, and parquet holds one" in seen.errors
    assert parquet.read_table(path).to_pylist() == [{"key": "key_662", "value": 11290}]


def test_files_of_statements_run_where_they_are_read(pipe: Callable[..., Piped], tmp_path: Path) -> None:
    (tmp_path / "inner.sql").write_text("SELECT 1 AS a;\nSELECT x\nFROM nowhere;", encoding="utf-8")
    (tmp_path / "outer.sql").write_text(
        f".mode csv\n.read {tmp_path}/inner.sql\nSELECT 2 AS b;", encoding="utf-8"
    )
    (tmp_path / "endless.sql").write_text(f".read {tmp_path}/endless.sql\n", encoding="utf-8")

    seen = pipe(f".read {tmp_path}/outer.sql\nSELECT 3 AS c;")
    endless = pipe(f".read {tmp_path}/endless.sql\n")

    assert (seen.code, seen.output) == (1, b'"a"\r\n1\r\n')
    assert "line 3, column 6: there is no table 'nowhere'" in seen.errors
    assert f"{tmp_path}/inner.sql ends with this error" in seen.errors
    assert endless.code == 2
    assert "expected at most 16 files that read each other" in endless.errors


def test_tables_are_listed_by_a_part_of_their_names_or_a_pattern(pipe: Callable[..., Piped]) -> None:
    seen = pipe(".mode csv\n.tables gregate\n.tables agg*count\n.tables nothing\n")

    count = '"aggregate__count","state count of operator aggregate"\r\n'
    head = '"name","comment"\r\n'
    lines = seen.output.decode()
    assert seen.code == 0
    assert lines.startswith(head + '"aggregate",')
    assert lines.endswith(head + count + head)


@pytest.mark.slow
def test_a_schema_is_shown_as_a_statement(pipe: Callable[..., Piped]) -> None:
    count = (
        "CREATE TABLE native.aggregate__count (\n    key VARCHAR,\n    namespace VARCHAR,\n    value BIGINT,\n"
        "    _key_group INTEGER,\n    _subtask INTEGER\n);\n"
        "COMMENT ON TABLE native.aggregate__count IS 'state count of operator aggregate';\n"
    )

    assert pipe(".schema AGGREGATE__count\n").output.decode() == count
    assert pipe(".schema native.aggregate__count\n").output.decode() == count
    assert pipe(".schema *count\n").output.decode() == count
    assert pipe(".schema mod7-no-uid__seen\n").output.startswith(
        b'CREATE TABLE native."mod7-no-uid__seen" (\n'
    )
    assert pipe(".schema\n").output.count(b"CREATE TABLE") == 19
    failed = pipe(".schema agregate\n")
    assert (failed.code, failed.output) == (1, b"")
    assert "there is no table 'agregate'" in failed.errors


def test_the_database_is_chosen_by_use_and_by_a_command(pipe: Callable[..., Piped], tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(JOB, folder)
    for number in (1, 2):
        os.utime(folder / f"chk-{number}" / "_metadata", (number, number))
    value = "SELECT value FROM aggregate WHERE key = 'key_662';"

    seen = pipe(
        f'{value}\nUSE "chk-1";\n{value}\n.database latest\n{value}\n.database\nUSE nowhere;',
        *("--format", "jsonl"),
        path=str(folder),
    )

    assert seen.output.decode().split("\n") == [
        '{"value":11290}',
        '{"value":6774}',
        '{"value":11290}',
        ".database latest",
        "",
    ]
    assert (seen.code, seen.errors.startswith("savepointdb: there is no database 'nowhere'")) == (1, True)


@pytest.mark.slow
def test_several_paths_are_databases_beside_each_other(
    pipe: Callable[..., Piped], monkeypatch: pytest.MonkeyPatch
) -> None:
    canonical = str(FLINK / "wordcount-rocksdb-savepoints" / "canonical")

    seen = pipe(
        "SELECT count(*) AS n FROM old.aggregate JOIN new.aggregate USING (key, value)",
        *(f"new={NATIVE}", "--format", "jsonl"),
        path=f"old={canonical}",
    )

    assert (seen.code, seen.output) == (0, b'{"n":1000}\n')


@pytest.mark.slow
def test_a_statement_in_another_dialect(pipe: Callable[..., Piped]) -> None:
    script = "SELECT 7 / 2 AS n, element_at(map(array['a'], array[1]), 'a') AS a;"

    assert pipe(f".dialect trino\n{script}", "--format", "jsonl").output == b'{"n":3,"a":1}\n'
    assert pipe(script, "--dialect", "trino", "--format", "jsonl").output == b'{"n":3,"a":1}\n'


def test_a_saved_query_runs_with_its_parameters(pipe: Callable[..., Piped], tmp_path: Path) -> None:
    path = tmp_path / "saved.toml"
    path.write_text('[queries.one]\nsql = "SELECT value FROM aggregate WHERE key = :key"\n', encoding="utf-8")

    seen = pipe(".run one key=key_662\n.run two\n", "--format", "jsonl", "--saved-queries", str(path))

    assert (seen.code, seen.output) == (1, b'{"value":11290}\n')
    assert "'two'" in seen.errors
    assert "expected --saved-queries" in pipe(".run one\n").errors
    assert "expected NAME=VALUE" in pipe(".run one key\n").errors


def test_help_has_a_line_for_each_command(pipe: Callable[..., Piped]) -> None:
    lines = pipe(".help\n").output.decode().splitlines()
    one = pipe(".help mode\n").output.decode()

    assert [line.split()[0] for line in lines[:-2]] == sorted(line.split()[0] for line in lines[:-2])
    assert {
        ".tables",
        ".schema",
        ".mode",
        ".output",
        ".timer",
        ".help",
        ".database",
        ".read",
        ".maxrows",
        ".width",
        ".quit",
        ".lookup",
        ".history",
        ".diff",
        ".xray",
        ".check",
    } <= {line.split()[0] for line in lines[:-2]}
    assert one.startswith(".mode table|line|markdown|html|json|jsonl|csv|arrow|parquet  Choose the format")


# ---- use cases ----


def test_use_cases_run_over_the_database_that_is_chosen(pipe: Callable[..., Piped]) -> None:
    script = """
        .lookup key_662
        .history key_662 --last 1
        .diff --key key_521
        .database checkpoint__chk-1
        .lookup key_662
        .diff checkpoint__chk-2 --state aggregate__count --key key_521
        SELECT 1 AS done;
        """

    seen = pipe(script, "--format", "jsonl", path=str(JOB))

    rows = [json.loads(line) for line in seen.output.splitlines()]
    assert (seen.code, seen.errors) == (0, "")
    assert [(row.get("database"), row.get("value")) for row in rows] == [
        ("checkpoint__chk-2", 11290),
        ("checkpoint__chk-2", 11290),
        (None, None),
        ("checkpoint__chk-1", 6774),
        (None, None),
        (None, None),
    ]
    assert [(row["value_before"], row["value_after"]) for row in (rows[2], rows[4])] == [(46, 78), (78, 46)]
    assert rows[-1] == {"done": 1}


def test_use_cases_answer_as_their_commands_do(
    pipe: Callable[..., Piped], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    newest = f"{JOB}/chk-2"
    for line, command in (
        (".xray --quick", ["xray", newest, "--quick"]),
        (".check", ["check", newest]),
        (
            ".bisect 'SELECT 1 FROM aggregate LIMIT 1'",
            ["bisect", str(JOB), "SELECT 1 FROM aggregate LIMIT 1"],
        ),
    ):
        seen = pipe(f".mode json\n{line}\n", path=str(JOB)).output
        cli.main([*command, "--format", "json"])
        expected = capfdbinary.readouterr().out.replace(b'"chk-2', b'"checkpoint__chk-2')
        assert seen == expected


def test_answers_of_use_cases_go_where_those_of_statements_go(
    pipe: Callable[..., Piped], tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    seen = pipe(
        f".output {path}\n.lookup key_662\nSELECT 1 AS one;\n.lookup key_521\n.output\nSELECT 2 AS two;\n"
    )

    assert (seen.code, seen.output.split()) == (0, [b"two", "───".encode(), b"2"])
    assert path.read_bytes().splitlines() == [
        b'"database","operator","state","kind","namespace","map_key","list_index","value"',
        b'"native","aggregate","count","VALUE",,,,"11290"',
        b'"one"',
        b"1",
        b'"database","operator","state","kind","namespace","map_key","list_index","value"',
        b'"native","aggregate","count","VALUE",,,,"78"',
    ]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (
            ".lookup",
            2,
            ".lookup: the following arguments are required: KEY (.help lookup shows its arguments)",
        ),
        (".lookup a b", 2, ".lookup: unrecognized arguments: b (.help lookup shows its arguments)"),
        (".lookup nothing", 1, "no state has the key 'nothing'"),
        (".check --backend x", 2, ".check: argument --backend: invalid choice: 'x'"),
        (".check --against /nothing/there", 4, "/nothing/there"),
        (".diff", 2, "there is no savepoint before 'native' in its job that can be read"),
        (".diff nativ", 1, "there is no database 'nativ' (did you mean \"native\"?)"),
        (".xray --nothing", 2, ".xray: unrecognized arguments: --nothing"),
    ],
)
def test_a_use_case_that_fails_ends_a_script(
    pipe: Callable[..., Piped], line: str, code: int, message: str
) -> None:
    seen = pipe(f"{line}\nSELECT 1;\n")

    assert (seen.code, seen.output) == (code, b"")
    assert seen.errors.startswith("savepointdb: ")
    assert message in seen.errors
    assert seen.errors.count("\n") == 1


def test_help_of_a_use_case_shows_its_options(pipe: Callable[..., Piped]) -> None:
    seen = pipe(".help lookup\n").output.decode()

    assert seen.startswith(
        ".lookup KEY  Show all states and timers of one key.\n\nusage: .lookup KEY [option …]\n"
    )
    assert pipe(".lookup --help\n").output.decode() in seen


def test_a_beginning_means_a_command_of_the_shell_first(pipe: Callable[..., Piped]) -> None:
    assert pipe(".h\n").output == pipe(".help\n").output
    assert pipe(".di trino\n").code == 0
    assert b"11290" in pipe(".l key_662\n").output


# ---- where statements end ----


@pytest.mark.parametrize(
    ("text", "ended", "is_open"),
    [
        ("SELECT 1", [], True),
        ("SELECT 1;", ["SELECT 1"], False),
        ("SELECT ';'; SELECT 2", ["SELECT ';'"], True),
        ('SELECT ";" FROM t;', ['SELECT ";" FROM t'], False),
        ("SELECT `a;b`;", ["SELECT `a;b`"], False),
        ("SELECT 'it''s;'; ", ["SELECT 'it''s;'"], False),
        (r"SELECT E'\';'; x", [r"SELECT E'\';'"], True),
        (r"SELECT date'\'; x", [r"SELECT date'\'"], True),
        ("SELECT $$;$$; SELECT $a$;$$;$a$;", ["SELECT $$;$$", " SELECT $a$;$$;$a$"], False),
        ("SELECT a$b$;c", ["SELECT a$b$"], True),
        ("-- one;\nSELECT 1; -- two;", ["-- one;\nSELECT 1"], False),
        ("/* ; /* ; */ ; */ ;", [], False),
        ("/* ; /* ; */ ;", [], True),
        ("SELECT 1; /* open", ["SELECT 1"], True),
        ("SELECT 'open;", [], True),
        (" ; ;\n", [], False),
        ("", [], False),
    ],
)
def test_where_statements_end(text: str, ended: list[str], is_open: bool) -> None:
    found = statements_of(text)

    assert ([one.text for one in found.ended], found.is_open) == (ended, is_open)


@given(st.text(alphabet="ab;'\"`$-/*\n\\E "))
def test_nothing_of_a_text_is_lost(text: str) -> None:
    found = statements_of(text)

    end = 0
    for one in found.ended:
        # Between two statements there is nothing that asks for anything.
        between = statements_of(text[end : one.start])
        assert (list(between.ended), between.is_open) == ([], False)
        end = one.start + len(one.text)
        assert text[one.start : end] == one.text
        assert text[end] == ";"
    assert text[found.rest.start :] == found.rest.text


_PIECES = st.sampled_from(
    [
        "SELECT 1",
        "'a;b'",
        '"a;b"',
        "$$;$$",
        "$x$;$$;$x$",
        "/* ; */",
        "x",
        "E'\\';'",
        "-- ;\n",
        "`;`",
        "'it''s'",
    ]
)


@given(
    st.lists(st.lists(_PIECES, min_size=1).map(lambda pieces: "SELECT " + " ".join(pieces) + " "), max_size=5)
)
def test_joined_statements_are_cut_where_they_were_joined(statements: list[str]) -> None:
    text = ";".join(statements) + ";"

    found = statements_of(text)

    assert [one.text for one in found.ended] == statements
    assert not found.is_open


# ---- completion ----


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    parser = cli.parser_of("shell")
    console = Console(
        parser.parse_args(["shell", str(FLINK / "wordcount-rocksdb-savepoints")]), is_terminal=False
    )
    yield console
    console.close()


@pytest.fixture(scope="module")
def complete(console: Console) -> Callable[[str], dict[str, str]]:
    """Returns what Tab offers at the `|` of a text: the text that it makes of it → what it is."""
    completer = ConsoleCompleter(console)

    def call(text: str) -> dict[str, str]:
        before, _, after = text.partition("|")
        document = Document(before + after, len(before))
        return {
            before[: len(before) + one.start_position] + one.text: one.display_meta_text
            for one in completer.get_completions(document, CompleteEvent(completion_requested=True))
        }

    return call


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT * FROM aggregate__c|", ["SELECT * FROM aggregate__count"]),
        ("select * from AGGREGATE__c|", ["select * from aggregate__count"]),
        ("SELECT * FROM mod7-no-uid__s|", ['SELECT * FROM "mod7-no-uid__seen"']),
        ('SELECT * FROM "mod7-no-uid__s|', ['SELECT * FROM "mod7-no-uid__seen"']),
        ('SELECT * FROM "aggregate__c|', ['SELECT * FROM "aggregate__count"']),
        (
            "SELECT * FROM wordcount-rocksdb-savepoints__n|",
            ['SELECT * FROM "wordcount-rocksdb-savepoints__native".'],
        ),
        ("SELECT * FROM latest.aggregate__c|", ["SELECT * FROM latest.aggregate__count"]),
        ("SELECT * FROM information_schema.ta|", ["SELECT * FROM information_schema.tables"]),
        ("SELECT * FROM aggregate a JOIN aggregate__c|", ["SELECT * FROM aggregate a JOIN aggregate__count"]),
        ("SELECT * FROM aggregate, aggregate__c|", ["SELECT * FROM aggregate, aggregate__count"]),
        ("SELECT nam| FROM aggregate__count", ["SELECT namespace"]),
        ("SELECT 1; SELECT nam| FROM aggregate__count; SELECT 2", ["SELECT 1; SELECT namespace"]),
        ("SELECT a.nam| FROM aggregate__count AS a", ["SELECT a.namespace"]),
        ("SELECT b.nam| FROM StateMeta, latest.aggregate__count b", ["SELECT b.namespace"]),
        ("SELECT value.f| FROM source", ["SELECT value.f0", "SELECT value.f1", "SELECT value.f2"]),
        ("SELECT VALUE.| FROM source", ["SELECT VALUE.f0", "SELECT VALUE.f1", "SELECT VALUE.f2"]),
        ("SELECT s.value.f1| FROM source AS s", ["SELECT s.value.f1"]),
        ("SELECT source.value.f1| FROM source", ["SELECT source.value.f1"]),
        ("SELECT latest.source.value.f1| FROM latest.source", ["SELECT latest.source.value.f1"]),
        ("SELECT value.f0.| FROM source", []),
        ("SELECT nothing.| FROM source", []),
        ("SELECT part| FROM source_offsets", ['SELECT "partition"', "SELECT partition by"]),
        ("SUMMARIZE aggregate__c|", ["SUMMARIZE aggregate__count"]),
        ("SHOW CREATE TABLE aggregate__c|", ["SHOW CREATE TABLE aggregate__count"]),
        ("SHOW T|", ["SHOW TABLES", "SHOW TABLES FROM", "SHOW TABLES LIKE"]),
        ("sel|", ["select"]),
        ("SEL|", ["SELECT"]),
        ("USE lat|", ["USE latest"]),
        ("SELECT 'agg|", []),
        ("SELECT * FROM nowhere.x|", []),
        ("SELECT z.x| FROM nowhere z", []),
        (".mo|", [".mode"]),
        (".mode js|", [".mode json", ".mode jsonl"]),
        (".timer |", [".timer on", ".timer off"]),
        (".schema aggregate__c|", [".schema aggregate__count"]),
        (".database lat|", [".database latest"]),
        (".frob x|", []),
        (".xr|", [".xray"]),
        (
            ".lookup --f|",
            [".lookup --format", ".lookup --file-cache-directory", ".lookup --file-cache-bytes"],
        ),
        (".lookup key_1 --format js|", [".lookup key_1 --format json", ".lookup key_1 --format jsonl"]),
        (".check --backend r|", [".check --backend rocksdb"]),
        (".diff lat|", [".diff latest"]),
        (".xray |", []),
        (
            f".check --against {FLINK}/wordcount-rocksdb-sav|",
            [f".check --against {FLINK}/wordcount-rocksdb-savepoints"],
        ),
    ],
)
def test_what_may_stand_at_the_cursor(
    complete: Callable[[str], dict[str, str]], text: str, offered: list[str]
) -> None:
    assert list(complete(text)) == offered


def test_completion_says_what_a_name_is(complete: Callable[[str], dict[str, str]]) -> None:
    assert complete("SELECT * FROM aggregate__c|") == {"SELECT * FROM aggregate__count": "table"}
    assert complete("SELECT val| FROM aggregate__count")["SELECT value"] == "BIGINT"
    assert complete("SELECT cou|")["SELECT count("] == "function"
    assert complete("SELECT * FROM lates|") == {"SELECT * FROM latest.": "database"}


def test_every_function_that_is_offered_is_there(
    complete: Callable[[str], dict[str, str]], console: Console
) -> None:
    offered = {
        found.removeprefix("SELECT ").removesuffix("(")
        for letter in "abcdefghijklmnopqrstuvwxyz"
        for found, meaning in complete(f"SELECT {letter}|").items()
        if meaning == "function"
    }
    with duckdb.connect() as connection:
        known = {
            name for (name,) in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()
        }

    assert offered - known <= {"diff", "coalesce", "unnest"}
    assert len(offered) > 40


@given(st.text(alphabet="aeFROM selct.\"',;()-$|\n"), st.text(alphabet='aFROM ".,;'))
def test_completion_takes_any_text(
    complete: Callable[[str], dict[str, str]], before: str, after: str
) -> None:
    complete(before.replace("|", "") + "|" + after)


# ---- history ----


def test_only_the_user_reads_the_history(tmp_path: Path) -> None:
    path = tmp_path / "state" / "savepointdb" / "history"
    history = PrivateHistory(path)

    for text in ("SELECT 'secret'\nFROM t;", " SELECT 'kept nowhere';", "SELECT 2;", "SELECT 2;", "é\udcff+"):
        history.append_string(text)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(PrivateHistory(path).load_history_strings()) == [
        "é?+",
        "SELECT 2;",
        "SELECT 'secret'\nFROM t;",
    ]


def test_a_history_that_others_could_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("\n# \n+SELECT 1;\n", encoding="utf-8")
    path.chmod(0o644)

    PrivateHistory(path).append_string("SELECT 2;")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(PrivateHistory(path).load_history_strings()) == ["SELECT 2;", "SELECT 1;"]


def test_a_history_stays_small_and_any_bytes_are_one(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(
        b"\n# \n+" + b"x" * 3_000_000 + b"\n\n# \n+\xff" + b"y" * 3_000_000 + b"\n\n# \n+SELECT 2;\n"
    )

    assert next(iter(PrivateHistory(path).load_history_strings())) == "SELECT 2;"
    assert path.stat().st_size < 4 << 20


def test_where_nothing_can_be_written_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    history = PrivateHistory(tmp_path / "file" / "history")

    history.append_string("SELECT 1;")

    assert list(history.load_history_strings()) == []
    assert history.get_strings() == ["SELECT 1;"]


# ---- at a terminal ----


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Callable[..., Talk]]:
    """Opens a shell on a terminal, with a state folder of its own."""
    open_talks: list[Talk] = []

    def call(*arguments: str, columns: int = 140) -> Talk:
        command = [sys.executable, "-m", "service.cli", *(arguments or (NATIVE,))]
        talk = Talk(command, columns=columns, environment={"XDG_STATE_HOME": str(tmp_path / "state")})
        open_talks.append(talk)
        return talk

    yield call
    for one in open_talks:
        one.__exit__(None, None, None)


@pytest.mark.slow
def test_a_person_asks_over_several_lines_and_leaves(talk: Callable[..., Talk], tmp_path: Path) -> None:
    shell = talk()

    shell.see(".help lists commands, Tab completes, Ctrl-D leaves")
    shell.see("savepointdb>")
    shell.see("19 tables")
    banner = "\n".join(shell.lines)
    assert re.search(
        r"native: savepoint 2, .* ago \(.* UTC\), job wordcount-rocksdb-savepoints, 19 tables", banner
    )
    shell.see("native>")
    shell.press("SELECT key, value FROM aggregate\r")
    shell.see("...>")
    shell.press("WHERE key = 'key_662';\r")
    answer = shell.see("1 row\n")
    assert "key      value\n───────  ─────\nkey_662  11290\n" in answer
    shell.see("native>")
    shell.press("SELECT * FROM agregate;\r")
    assert "savepointdb: line 1, column 15: there is no table 'agregate'" in shell.see("did you mean")
    shell.see("native>")
    shell.press(".timer on\r")
    shell.see("native>")
    shell.press("SELECT 41 + 1 AS n;\r")
    shell.see("42\n1 row\ntime: 0.")
    shell.see("native>")
    shell.press("\x04")

    assert shell.end() == 0
    history = (tmp_path / "state" / "savepointdb" / "history").read_text(encoding="utf-8")
    assert "+SELECT key, value FROM aggregate\n+WHERE key = 'key_662';\n" in history


@pytest.mark.slow
def test_the_page_shows_what_a_person_sees(talk: Callable[..., Talk], tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "guides" / "shell.md").read_text(encoding="utf-8")
    fence = re.search(r"```text\n\$ savepointdb [^\n]*\n(.*?)```", page, re.DOTALL)
    assert fence is not None
    typed = re.findall(r"^(savepoint-42>| +\.\.\.>) (.*)$", fence[1], re.MULTILINE)
    savepoint = tmp_path / "savepoints" / "savepoint-42"
    shutil.copytree(NATIVE, savepoint)
    shell = talk(str(savepoint), columns=160)
    shell.see("19 tables")

    for prompt, line in typed:
        shell.see(prompt)
        shell.press(f"{line}\r")
    assert shell.end() == 0

    def told(text: str) -> list[list[str]]:
        cells = [line.split() for line in comparable(re.sub(r"savepointdb [\d.]+:", "", text))]
        # Deviation and quartiles of SUMMARIZE depend on how threads share the rows.
        return [[*row[:6], *row[10:]] if len(row) == 12 else row for row in cells]

    assert told("\n".join(shell.lines)) == told(fence[1])


@pytest.mark.slow
def test_tab_completes_a_name(talk: Callable[..., Talk]) -> None:
    shell = talk()
    shell.see("native>")

    shell.press("SELECT count(*) AS n FROM mod7-no-uid__s\t")
    shell.see('"mod7-no-uid__seen"')
    shell.press(";\r")
    shell.see("1 row\n")
    shell.see("native>")
    shell.press("quit\r")

    assert shell.end() == 0


@pytest.mark.slow
def test_ctrl_c_cancels_the_query_and_nothing_else(talk: Callable[..., Talk]) -> None:
    shell = talk()
    shell.see("native>")

    shell.press("SELECT half a statement")
    shell.interrupt()
    shell.see("native>")
    shell.press("SELECT count(*) FROM range(100000000000) WHERE hash(range) % 3 = 7;\r")
    shell.see("B read, ")
    shell.interrupt()
    shell.see("cancelled")
    shell.see("native>")
    shell.press("SELECT key, value FROM aggregate WHERE key = 'key_662';\r")
    shell.see("key_662  11290\n1 row\n")
    shell.see("native>")
    shell.press(".quit\r")

    assert shell.end() == 0


@pytest.mark.slow
def test_answers_of_a_terminal_are_cut_and_counted_and_go_to_files(
    talk: Callable[..., Talk], tmp_path: Path
) -> None:
    shell = talk()
    shell.see("native>")
    shell.press(".maxrows 3\r")
    shell.see("native>")
    shell.press("SELECT range AS n FROM range(2000000);\r")
    assert "\nn\n─\n0\n1\n2\n" in shell.see("2,000,000 rows (3 shown)\n")
    shell.see("native>")
    shell.press(".mode parquet\r")
    shell.see("native>")
    shell.press("SELECT 1;\r")
    shell.see("savepointdb: parquet is not for terminals: .output FILE names a file, .mode another format\n")
    shell.see("native>")
    shell.press(f".once {tmp_path}/n.parquet\r")
    shell.see("native>")
    shell.press("SELECT range AS n FROM range(2000000);\r")
    shell.see(f"2,000,000 rows written to {tmp_path}/n.parquet\n")
    shell.see("native>")
    shell.press("exit;\r")

    assert shell.end() == 0
    assert parquet.read_metadata(tmp_path / "n.parquet").num_rows == 2_000_000


@pytest.mark.slow
def test_what_is_no_savepoint_ends_the_shell_with_its_error(
    talk: Callable[..., Talk], tmp_path: Path
) -> None:
    empty = talk(str(tmp_path))
    missing = talk(f"{tmp_path}/missing")
    unknown = talk(NATIVE, "--database", "nativ")

    assert "found no _metadata in or below it" in empty.see("below it").replace("\n", "")
    missing.see("savepointdb: ")
    unknown.see("there is no database 'nativ'")
    assert (empty.end(), missing.end(), unknown.end()) == (3, 3, 1)
    assert "savepointdb>" not in "".join(missing.lines)


@pytest.mark.slow
def test_the_newest_of_several_is_chosen_and_told(talk: Callable[..., Talk], tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(JOB, folder)
    for number in (1, 2):
        os.utime(folder / f"chk-{number}" / "_metadata", (number, number))
    shell = talk(str(folder))

    shell.see("job__chk-2: checkpoint 2, ")
    shell.see("1 other database: .database NAME chooses one, .databases lists them")
    shell.see("job__chk-2>")
    shell.press(".database chk-1\r")
    shell.see("chk-1>")
    shell.press("SELECT value FROM aggregate WHERE key = 'key_662';\r")
    shell.see(" 6774\n1 row\n")
    # Before that, the terminal itself would take the key.
    shell.see("chk-1>")
    shell.press("\x04")

    assert shell.end() == 0


@pytest.mark.slow
def test_a_process_reads_statements_while_they_come() -> None:
    command = [sys.executable, "-m", "service.cli", NATIVE, "--format", "csv"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        process.stdin.write("SELECT 1 AS a;\n")
        process.stdin.flush()
        first = [process.stdout.readline(), process.stdout.readline()]
        process.stdin.write("SELECT 2 AS b;\n")
        process.stdin.close()
        rest = process.stdout.read()

    assert (first, rest, process.returncode) == (['"a"\n', "1\n"], '"b"\n2\n', 0)


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_a_pipe(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT range FROM range(1000000);\n" * 3, encoding="utf-8")
    command = f'"{sys.executable}" -m service.cli {NATIVE} --format csv < {script} | head -2; echo ${{PIPESTATUS[0]}}'

    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)

    assert (ended.stdout.split(), ended.stderr) == (['"range"', "0", "0"], "")
