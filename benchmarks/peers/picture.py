"""The figures as SVG, drawn by hand: bars on a logarithmic scale, and lines over the number of keys.

The colours follow the preference of the page's reader for light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.peers.figures import Figures
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.report import best_peer, seconds
from benchmarks.peers.sides import OURS
from benchmarks.peers.targets import CANONICAL, KEYS, NATIVE

_WIDTH = 860
_LABELS = 270
_RIGHT = 90
_ROW = 46
_TOP = 64
_LEAST_S, _MOST_S = 1e-3, 1e2
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.ours { fill: #0a7d53; stroke: #0a7d53 }
.peer { fill: #b35900; stroke: #b35900 }
.line { fill: none; stroke-width: 2.5 }
.dashed { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #3d444d }
  .ours { fill: #3fb983; stroke: #3fb983 } .peer { fill: #e3934a; stroke: #e3934a }
}
"""


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds over the number of keys; `is_dashed` distinguishes two lines of one colour."""

    title: str
    style: str
    points: tuple[tuple[int, float], ...]
    is_dashed: bool = False


def bars(figures: Figures, keys: int = KEYS) -> str:
    """Return a chart of savepointdb beside the best of Flink's readers, a pair of bars for each question."""
    rows = [
        (question, kind)
        for question in ("count", "key", "group", "days", "parquet", "metadata")
        for kind in (CANONICAL, NATIVE)
        if figures.of(question, kind, keys, OURS)
    ]
    height = _TOP + _ROW * len(rows) + 40
    body = [*_grid(_TOP - 6, _TOP + _ROW * len(rows))]
    for number, (question, kind) in enumerate(rows):
        body += _pair(figures, question, kind, keys, _TOP + _ROW * number)
    title = f"{keys:,} keys, four states: savepointdb beside the best of Flink's readers"
    note = "seconds in process, on a logarithmic scale; shorter is better"
    return _drawing(height, title, note, body)


def growth(figures: Figures) -> str:
    """Return a chart of a scan and of a lookup over the number of keys."""
    return over_keys(
        list(_lines(figures)),
        "A scan and a lookup, over the number of keys",
        "seconds in process; both scales are logarithmic",
    )


def over_keys(lines: Sequence[Line], title: str, note: str) -> str:
    """Return a chart of lines over the number of keys; those without points are left out."""
    lines = [line for line in lines if line.points]
    height, top, bottom = 420, 76, 360
    known = [keys for line in lines for keys, _ in line.points] or [1, 10]
    taken = [value for line in lines for _, value in line.points] or [_LEAST_S, _MOST_S]
    least, most = math.log10(min(known)), math.log10(max(known))
    decades = _decades(min(taken), max(taken))
    wide = (most - least) or 1.0

    def across(keys: int) -> float:
        return 80 + (math.log10(keys) - least) / wide * (_WIDTH - 80 - 240)

    def down(value: float) -> float:
        return bottom - math.log10(value / decades[0]) / math.log10(decades[-1] / decades[0]) * (bottom - top)

    body = []
    for value in decades:
        y = down(value)
        body.append(f'<line class="grid" x1="80" y1="{y:.1f}" x2="{_WIDTH - 240}" y2="{y:.1f}"/>')
        body.append(f'<text class="small" x="72" y="{y + 4:.1f}" text-anchor="end">{_tick(value)}</text>')
    for keys in sorted(set(known)):
        x = across(keys)
        body.append(
            f'<text class="small" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{keys:,} keys</text>'
        )
    lowest = math.inf
    for line in sorted(lines, key=lambda line: -line.points[-1][1]):
        points = [(across(keys), down(value)) for keys, value in line.points]
        style = f"{line.style} line{' dashed' if line.is_dashed else ''}"
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        body.append(f'<polyline class="{style}" points="{path}"/>')
        body += [f'<circle class="{line.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
        # Lines may end at the same point: then their labels stand below each other.
        y = points[-1][1] if lowest == math.inf else max(points[-1][1], lowest + 16)
        lowest = y
        body.append(f'<text class="small" x="{_WIDTH - 230}" y="{y + 4:.1f}">{escape(line.title)}</text>')
    return _drawing(height, title, note, body)


def _lines(figures: Figures) -> Iterator[Line]:
    for kind in ("rocksdb-canonical", NATIVE):
        is_native = kind == NATIVE
        short = kind.partition("-")[2]
        yield _line(
            figures, f"State Processor API, scan, {short}", "peer", "count", kind, "spa-buf", is_native
        )
        yield _line(figures, f"savepointdb, scan, {short}", "ours", "count", kind, OURS, is_native)
        yield _line(figures, f"savepointdb, one key, {short}", "ours", "key", kind, OURS, is_native)


def _line(
    figures: Figures, title: str, style: str, question: str, kind: str, side: str, is_dashed: bool
) -> Line:
    points = []
    for keys in sorted({run.keys for run in figures.runs}):
        spread = figures.spread("in_process_s", question, kind, keys, side)
        if spread is not None:
            points.append((keys, spread.median))
    return Line(title, style, tuple(points), is_dashed)


def _pair(figures: Figures, question: str, kind: str, keys: int, top: int) -> Iterator[str]:
    title = f"{QUESTIONS[question].title}, {kind.partition('-')[2]}"
    yield f'<text x="{_LABELS - 12}" y="{top + 22}" text-anchor="end">{escape(title)}</text>'
    ours = figures.spread("in_process_s", question, kind, keys, OURS)
    best = best_peer(figures, question, kind, keys)
    if ours is not None:
        yield from _bar("ours", top, ours.median, f"savepointdb {seconds(ours.median)}")
    if best is not None:
        yield from _bar("peer", top + 18, best[1].median, f"Flink {seconds(best[1].median)}")


def _bar(style: str, top: int, value: float, label: str) -> Iterator[str]:
    end = max(_place(value), _LABELS + 2.0)
    yield f'<rect class="{style}" x="{_LABELS}" y="{top}" width="{end - _LABELS:.1f}" height="15" rx="2"/>'
    yield f'<text class="small" x="{end + 6:.1f}" y="{top + 12}">{escape(label)}</text>'


def _grid(top: int, bottom: int) -> Iterator[str]:
    for value in _decades(_LEAST_S, _MOST_S):
        x = _place(value)
        yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text class="small" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_tick(value)}</text>'


def _decades(least: float, most: float) -> Sequence[float]:
    """Return the powers of ten around two values."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _place(value: float) -> float:
    share = math.log10(max(value, _LEAST_S) / _LEAST_S) / math.log10(_MOST_S / _LEAST_S)
    return _LABELS + min(share, 1.0) * (_WIDTH - _LABELS - _RIGHT)


def _tick(value: float) -> str:
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"


def _drawing(height: int, title: str, note: str, body: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<text class="title" x="16" y="26">{escape(title)}</text>',
            f'<text class="small" x="16" y="45">{escape(note)}</text>',
            *body,
            "</svg>\n",
        ]
    )
