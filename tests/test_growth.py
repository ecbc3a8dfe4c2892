"""`make bench-growth`: what is measured, the tables and the figure; timings are none of a test's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import growth
from benchmarks.growth import WORKS, main, picture, report
from benchmarks.growthsources import LAYOUTS
from benchmarks.peers.figures import Figure, Figures

SVG = "{http://www.w3.org/2000/svg}"
SCAN = WORKS[0].name
FEW = 1000


def figures_of(seconds: dict[int, float]) -> Figures:
    """Two runs of a scan for each number of keys, and one from a store."""
    found = Figures(machine="2 cores")
    for keys, least in seconds.items():
        found.bytes_of[keys, "rocksdb-canonical"] = 30 * keys
        for cpu_s, peak_mib in ((least, 200.0), (least * 2, 300.0)):
            run = Figure(
                question=SCAN, kind="rocksdb-canonical", keys=keys, side="here",
                wall_s=cpu_s, cpu_s=cpu_s, peak_mib=peak_mib,
            )  # fmt: skip
            found.runs.append(run)
        found.runs.append(
            Figure(
                question=SCAN,
                kind="rocksdb-canonical",
                keys=keys,
                side="store",
                peak_mib=250.0,
                read_bytes=30 * keys,
                read_calls=keys // 100_000,
            )
        )
    return found


def test_the_table_has_what_each_million_of_keys_takes() -> None:
    text = report(figures_of({1_000_000: 0.5, 10_000_000: 0.95, 100_000_000: 5.9}))

    assert "rocksdb-canonical, keys: 1 M (30 MB) / 10 M (300 MB) / 100 M (3,000 MB)" in text
    [row] = [line for line in text.splitlines() if line.startswith(f"| {SCAN}")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == [
        "500 ms / 950 ms / 5.90 s", "500 ms / 950 ms / 5.90 s", "50.0 ms / 55.0 ms", "1.10",
        "300 / 300 / 300 MiB", "10 / 100 / 1,000", "30 / 300 / 3,000 MB", "250 / 250 / 250 MiB",
    ]  # fmt: skip


def test_what_does_not_grow_has_no_ratio() -> None:
    text = report(figures_of({1_000_000: 0.5, 10_000_000: 0.5, 100_000_000: 0.5}))

    assert "| 500 ms / 500 ms / 500 ms | – / – |  |" in text


def test_the_figure_has_a_line_a_work() -> None:
    drawing = ElementTree.fromstring(picture(figures_of({1_000_000: 0.5, 10_000_000: 0.95})))

    lines = [(line.get("points") or "").split() for line in drawing.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [2]


@pytest.mark.slow
def test_every_work_runs_and_every_layout_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(growth, "_MILLION", 1000)
    arguments = ["--directory", str(tmp_path), "--sizes", str(FEW), "--runs", "1"]
    first, *others = LAYOUTS

    assert main([*arguments, "--layouts", first]) == 0
    assert main([*arguments, "--layouts", *others, "--works", SCAN]) == 0

    known = Figures.read(tmp_path / "figures.json")
    measured = {(run.kind, run.question) for run in known.runs}
    assert measured == {(first, work.name) for work in WORKS} | {(layout, SCAN) for layout in others}
    assert all(run.read_calls > 0 for run in known.runs if run.side == "store")
    assert "keys: 1 M" in capsys.readouterr().out


def test_the_module_that_starts_processes_is_small() -> None:
    """Its memory counts as theirs: neither Arrow nor DuckDB may be in it."""
    program = "import sys, benchmarks.growth; print([name for name in ('pyarrow', 'duckdb', 'numpy') if name in sys.modules])"

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
