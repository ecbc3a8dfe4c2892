"""`make bench-peers`: the totals, the figures, the targets, the report and the pictures; timings are none of a test's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import pytest

import catalog
from benchmarks.peers import __main__ as command
from benchmarks.peers.figures import Figure, Figures, Spread
from benchmarks.peers.flink import DataSet, Flink, FlinkNotAvailableError
from benchmarks.peers.picture import bars, growth
from benchmarks.peers.process import run_measured
from benchmarks.peers.questions import QUESTIONS, STATES, right_answer, truth
from benchmarks.peers.report import (
    BEGIN,
    END,
    SPEED_BEGIN,
    SPEED_END,
    best_peer,
    headline,
    report,
    seconds,
    summary,
    with_headline,
    with_summary,
)
from benchmarks.peers.sides import CASES, GROWTH, OURS, PROCESS, command_of
from benchmarks.peers.targets import CANONICAL, KEYS, NATIVE, verdicts
from benchmarks.peers.written import totals
from service.base.settings import Settings
from service.query.encode import FORMATS
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from tests.support.paths import PROJECT
from tools.synthetic.savepoints import write_savepoint

FEW = 1000
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    path = tmp_path_factory.mktemp("peers") / "savepoint"
    write_savepoint(path, FEW)
    settings = Settings.of(timeout_s=600.0)
    with closing(Queries(catalog.connect(path), {"duckdb": DuckDBEngine(settings)}, settings)) as known:
        yield known


def figure(question: str, kind: str, side: str, keys: int = KEYS, **measured: float) -> Figure:
    return Figure(question=question, kind=kind, keys=keys, side=side, **measured)  # type: ignore[arg-type]


@pytest.fixture
def figures() -> Figures:
    """Two rounds, as they were recorded."""
    known = Figures(machine="2 cores", bytes_of={(KEYS, CANONICAL): 650_000_000})
    for inside in (0.12, 0.10):
        known.runs += [
            figure(
                "count",
                CANONICAL,
                OURS,
                in_process_s=inside,
                first_s=0.4,
                warm_s=0.09,
                wall_s=1.5,
                peak_mib=301,
            ),
            figure("count", CANONICAL, PROCESS, wall_s=1.8, cpu_s=2.5, peak_mib=310),
            figure(
                "count", CANONICAL, "spa-buf", in_process_s=11 + inside, wall_s=14, cpu_s=20, peak_mib=3850
            ),
            figure(
                "count", CANONICAL, "sql-buf", in_process_s=10 + inside, wall_s=13, cpu_s=21, peak_mib=4378
            ),
        ]
    known.runs += [
        figure(
            "count",
            CANONICAL,
            "spa-file",
            in_process_s=73,
            wall_s=77,
            read_bytes=855_000_000,
            read_calls=140_101_546,
        ),
        Figure(
            question="count",
            kind=CANONICAL,
            keys=KEYS,
            side="sql-file",
            error="expected the answer 1, found 2",
        ),
        figure("again", CANONICAL, OURS, in_process_s=0.2, warm_s=0.15, limit_s=0.01),
        figure("count", NATIVE, OURS, in_process_s=0.1, peak_mib=390),
        figure("count", NATIVE, OURS, keys=10_000_000, in_process_s=0.6, peak_mib=429),
        figure("count", NATIVE, "spa-buf", in_process_s=10),
        figure("key", NATIVE, OURS, in_process_s=0.02, warm_s=0.006),
    ]
    return known


# --- the totals ---


@pytest.mark.parametrize("keys", [1, 13, 100, FEW, 12_345])
def test_totals_are_the_sums_over_the_rows(keys: int) -> None:
    numbers = range(keys)
    counts = [10_000 + number % 13 for number in numbers]
    events = [f"event_{3 * number + event}" for number in numbers for event in range(3)]

    assert truth(keys) == {
        "keys": keys,
        "count": [keys, sum(counts)],
        "account": [keys, sum(number / 4 for number in numbers)],
        "perDay": [4 * keys, sum(number + day for number in numbers for day in range(4))],
        "events": [3 * keys, sum(map(len, events))],
        "group": [[value, counts.count(value)] for value in sorted(set(counts))],
        "days": [[str(20_240_101 + day), sum(numbers) + day * keys] for day in range(4)],
    }


@pytest.mark.parametrize("question", ["count", "key", "group", "days", "metadata"])
def test_savepointdb_answers_what_is_right(queries: Queries, question: str) -> None:
    with queries.start(QueryRequest(sql=QUESTIONS[question].sql)) as query:
        rows = [list(row.values()) for batch in query.batches() for row in batch.to_pylist()]

    shapes = {
        "count": lambda: rows[0],
        "key": lambda: rows[0][0],
        "metadata": lambda: [row[0] for row in rows],
    }
    assert shapes.get(question, lambda: rows)() == right_answer(question, truth(FEW), ours=True)
    assert question != "key" or rows == [[10_000 + 662 % 13]]
    assert question != "days" or isinstance(rows[0][1], Decimal)


def test_written_files_hold_the_totals(queries: Queries, tmp_path: Path) -> None:
    for state in STATES:
        with queries.start(QueryRequest(sql=f"SELECT * FROM aggregate__{state}")) as query:
            chunks = FORMATS["parquet"].write(query.columns, query.schema, query.batches())
            (tmp_path / f"{state}.parquet").write_bytes(b"".join(chunks))

    assert totals(tmp_path) == right_answer("parquet", truth(FEW), ours=True)


# --- processes ---


def test_a_process_is_measured_from_outside(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(3 << 20))
    program = "import sys; x = open(sys.argv[1], 'rb').read() * 20; print(len(x)); print('late', file=sys.stderr); sys.exit(3)"

    ended = run_measured([sys.executable, "-c", program, str(file)], os.environ)

    assert (ended.code, ended.output, ended.errors) == (3, f"{60 << 20}\n", "late\n")
    assert ended.wall_s > 0
    assert ended.cpu_s > 0
    assert ended.peak_mib > 60
    if Path("/proc/self/io").exists():
        assert ended.read_bytes >= 3 << 20
        assert ended.read_calls > 0


def test_without_java_it_is_said_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FlinkNotAvailableError, match="found no java and no mvn"):
        Flink()
    assert command.main(["--data", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == "bench-peers: expected Java 17 or newer and Maven, found no java and no mvn\n"
    )


def test_ours_are_asked_without_flink(tmp_path: Path) -> None:
    data = DataSet(tmp_path, FEW)
    case = next(case for case in CASES if (case.question, case.kind) == ("key", NATIVE))

    asked = command_of(PROCESS, case, data, tmp_path / "out", None)

    savepoint = str(tmp_path.resolve() / NATIVE)
    assert asked[1:] == [
        *("-m", "service.cli", "query", QUESTIONS["key"].sql, "--format", "json", "--savepoint", savepoint)
    ]
    assert command_of(OURS, case, data, tmp_path / "out", None)[2:] == [
        *("benchmarks.peers.ours", "--question", "key", "--output", str(tmp_path / "out"), savepoint)
    ]


def test_every_case_asks_savepointdb() -> None:
    assert all(OURS in case.sides for case in (*CASES, *GROWTH))
    assert {case.question for case in CASES} == set(QUESTIONS)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "nothing on standard error"),
        ("one\n two \n", "two"),
        ("Exception: outer\n  at x\nCaused by: inner\n  at y\n", "Caused by: inner"),
    ],
)
def test_a_failure_is_told_in_a_line(text: str, line: str) -> None:
    assert command._last_line(text) == line


# --- figures ---


def test_spread_is_least_median_most() -> None:
    assert Spread.of([3.0, 1.0, 2.0, 9.0]) == Spread(1.0, 2.5, 9.0)
    assert Spread.of([]) is None


def test_figures_are_kept(figures: Figures, tmp_path: Path) -> None:
    figures.write(tmp_path / "figures.json")

    assert Figures.read(tmp_path / "figures.json") == figures


def test_wrong_answers_do_not_count(figures: Figures) -> None:
    assert figures.of("count", CANONICAL, KEYS, "sql-file") == []
    assert figures.spread("in_process_s", "count", CANONICAL, KEYS, OURS) == Spread(0.10, 0.11, 0.12)
    assert best_peer(figures, "count", CANONICAL, KEYS) == ("sql-buf", Spread(10.1, 10.11, 10.12))


# --- targets ---


def test_targets_say_met_or_by_how_much_not(figures: Figures) -> None:
    found = {(verdict.what, verdict.how): verdict.text for verdict in verdicts(figures)}

    opened, warm, whole = "in process, savepoint opened", "in process, warm", "whole process"
    again = "warm; at most DuckDB over Parquet"
    assert {key: text for key, text in found.items() if text != "not measured"} == {
        ("count and sum of one state, canonical", opened): "met",
        ("count and sum of one state, canonical", whole): "missed: 2.0 times",
        ("count and sum of one state, native", opened): "met",
        ("one key, native", opened): "met",
        ("one key, native", warm): "missed: 1.2 times",
        ("the same again, and DuckDB over Parquet, canonical", again): "missed: 15.0 times",
        ("peak memory", "the most of any run"): "met",
        ("peak memory, native, of the most keys beside 2,000,000", "ratio"): "met",
    }


# --- the report ---


def test_report_has_a_row_a_side(figures: Figures) -> None:
    lines = report(figures).splitlines()

    assert lines[0] == "2 cores"
    assert "count and sum of one state: 2,000,000 keys, hashmap-canonical, 650 MB" in lines
    assert (
        "| savepointdb, in process | 2 | 100 ms / 110 ms / 120 ms | 1.0 | 1.50 s / 1.50 s / 1.50 s | 0.00 s | 301 MiB | 0 | 0 |"
        in lines
    )
    assert "| – savepoint open | | 90.0 ms / 90.0 ms / 90.0 ms | | | | | | |" in lines
    assert (
        "| savepointdb query | 2 |  | 16.4 | 1.80 s / 1.80 s / 1.80 s | 2.50 s | 310 MiB | 0 | 0 |" in lines
    )
    assert (
        "| State Processor API, file:// | 1 | 73.0 s / 73.0 s / 73.0 s | 663.6 | 77.0 s / 77.0 s / 77.0 s | 0.00 s "
        "| 0 MiB | 855.0 MB | 140,101,546 |" in lines
    )
    assert "| SQL connector, file:// | 0 | no right answer | | | | | | |" in lines
    assert lines[-1] == "sql-file, count, hashmap-canonical, 2,000,000 keys: expected the answer 1, found 2"


def test_summary_stands_between_its_markers(figures: Figures) -> None:
    text = f"before\n{BEGIN}old\n{END}after\n"

    assert with_summary(text, figures) == f"before\n{BEGIN}{summary(figures)}{END}after\n"
    assert (
        "| count and sum of one state, canonical | 10.1 s (SQL connector, buffered) | 77.0 s | 110 ms | 1.80 s | 92 |"
        in summary(figures).splitlines()
    )
    with pytest.raises(ValueError, match="markers"):
        with_summary("no markers", figures)


def test_headline_stands_between_its_markers(figures: Figures) -> None:
    text = f"before\n{SPEED_BEGIN}old\n{SPEED_END}after\n"

    assert with_headline(text, figures) == f"before\n{SPEED_BEGIN}{headline(figures)}{SPEED_END}after\n"
    assert (
        "| count and sum of one state, canonical | 10.1 s (SQL connector, buffered) | 110 ms | 92 × |"
        in headline(figures).splitlines()
    )
    with pytest.raises(ValueError, match="markers"):
        with_headline("no markers", figures)


def test_the_pages_have_the_markers() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    benchmarks = (PROJECT / "docs" / "evidence" / "benchmarks.md").read_text(encoding="utf-8")

    assert with_headline(readme, Figures(machine="")) != readme
    assert with_summary(benchmarks, Figures(machine="")) != benchmarks


def test_tables_have_as_many_cells_in_every_row(figures: Figures) -> None:
    for table in summary(figures).split("\n\n"):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0004, "0.4 ms"), (0.0123, "12.3 ms"), (0.25, "250 ms"), (1.5, "1.50 s"), (77.0, "77.0 s")],
)
def test_times_are_short(value: float, text: str) -> None:
    assert seconds(value) == text


# --- the pictures ---


def test_bars_are_a_pair_a_question(figures: Figures) -> None:
    drawing = ElementTree.fromstring(bars(figures))

    found: list[object] = [
        (bar.get("class"), float(bar.get("width", ""))) for bar in drawing.iter(f"{SVG}rect")
    ]
    # From 1 ms to 100 s over 500 units: 100 a power of ten.
    assert found == [
        ("ours", pytest.approx(204.1, abs=0.1)),
        ("peer", pytest.approx(400.5, abs=0.1)),
        ("ours", pytest.approx(200.0, abs=0.1)),
        ("peer", pytest.approx(400.0, abs=0.1)),
        ("ours", pytest.approx(130.1, abs=0.1)),
    ]
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert [text for text in texts if text and text.startswith(("savepointdb ", "Flink "))] == [
        *("savepointdb 110 ms", "Flink 10.1 s", "savepointdb 100 ms", "Flink 10.0 s", "savepointdb 20.0 ms")
    ]


def test_lines_go_over_the_numbers_of_keys(figures: Figures) -> None:
    drawing = ElementTree.fromstring(growth(figures))

    lines = [
        (line.get("class"), len((line.get("points") or "").split()))
        for line in drawing.iter(f"{SVG}polyline")
    ]
    assert lines == [("peer line dashed", 1), ("ours line dashed", 2), ("ours line dashed", 1)]
    assert "10,000,000 keys" in [text.text for text in drawing.iter(f"{SVG}text")]


def test_pictures_of_nothing_are_pictures() -> None:
    empty = Figures(machine="")

    assert ElementTree.fromstring(bars(empty)).tag == ElementTree.fromstring(growth(empty)).tag == f"{SVG}svg"


def test_titles_are_escaped() -> None:
    known = Figures(machine="")
    known.runs.append(figure("count", NATIVE, OURS, in_process_s=1e-5))

    drawing = ElementTree.fromstring(bars(known))

    assert [bar.get("width") for bar in drawing.iter(f"{SVG}rect")] == ["2.0"]


def test_the_command_reports_what_was_kept(
    figures: Figures, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "figures.json"
    figures.write(kept)

    assert command.main(["report", "--figures", str(kept)]) == 0

    assert capsys.readouterr().out == report(figures) + "\n"
    assert (tmp_path / "figures.txt").read_text(encoding="utf-8") == report(figures)
    assert (tmp_path / "peers.svg").read_text(encoding="utf-8") == bars(figures)
    assert (tmp_path / "growth.svg").read_text(encoding="utf-8") == growth(figures)


def test_the_module_that_starts_processes_is_small() -> None:
    """Its memory counts as theirs: neither Arrow nor DuckDB may be in it."""
    program = "import sys, benchmarks.peers.__main__; print([name for name in ('pyarrow', 'duckdb', 'numpy') if name in sys.modules])"

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
