"""The figures as text: all of them in docs/evidence/benchmarks.md, the ratios in the README, each between its markers."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers.figures import Figures, Spread
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.sides import OURS, PROCESS, TITLES
from benchmarks.peers.targets import CANONICAL, KEYS, NATIVE, verdicts

BEGIN, END = "<!-- bench-peers -->\n", "<!-- /bench-peers -->"
SPEED_BEGIN, SPEED_END = "<!-- speed -->\n", "<!-- /speed -->"
_PEERS = ("spa-buf", "sql-buf", "spa-file", "sql-file")
_KINDS = (CANONICAL, NATIVE)
_SUMMARIZED = ("count", "key", "group", "days", "parquet", "metadata")


def report(figures: Figures, keys: int = KEYS) -> str:
    """Return every side of every case, the targets, and the failures."""
    parts = [f"{figures.machine}\n"]
    for size, kind, question in figures.cases():
        bytes_of = figures.bytes_of.get((size, kind), 0)
        parts.append(f"{QUESTIONS[question].title}: {size:,} keys, {kind}, {bytes_of / 1e6:,.0f} MB\n")
        parts.append("\n".join(_case(figures, question, kind, size)) + "\n")
    parts.append("targets\n\n" + "\n".join(_targets(figures, keys)) + "\n")
    failures = [run for run in figures.runs if run.error]
    if failures:
        lines = [
            f"{run.side}, {run.question}, {run.kind}, {run.keys:,} keys: {run.error}" for run in failures
        ]
        parts.append("without a right answer\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def summary(figures: Figures, keys: int = KEYS) -> str:
    """Return the tables of docs/evidence/benchmarks.md: the best peer beside savepointdb, and the targets."""
    lines = [
        f"{figures.machine}. {keys:,} keys, four states; median of all runs of a side, the sides in turn; every answer checked.",
        "",
        "| work | Flink's readers, with the cluster up | over `file://`, all of it "
        "| savepointdb, in process | `savepointdb query`, all of it | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for question in _SUMMARIZED:
        lines += [_summary_row(figures, question, kind, keys) for kind in _KINDS]
    lines += ["", "| target | how | at most | reached | |", "|---|---|---|---|---|"]
    lines += [
        f"| {verdict.what} | {verdict.how} | {_amount(verdict.most, verdict.unit)} "
        f"| {_amount(verdict.found, verdict.unit)} | {verdict.text} |"
        for verdict in verdicts(figures, keys)
    ]
    return "\n".join(lines) + "\n"


def headline(figures: Figures, keys: int = KEYS) -> str:
    """Return the table of the README: the questions that both answered, and how many times as fast savepointdb is."""
    lines = ["| work | Flink's best reader | savepointdb | |", "|---|---|---|---|"]
    for question in _SUMMARIZED:
        for kind in _KINDS:
            best = best_peer(figures, question, kind, keys)
            ours = figures.spread("in_process_s", question, kind, keys, OURS)
            if best and ours:
                side, spread = best
                lines.append(
                    f"| {_title(question, kind)} | {seconds(spread.median)} ({TITLES[side]}) "
                    f"| {seconds(ours.median)} | {spread.median / ours.median:,.0f} × |"
                )
    return "\n".join(lines) + "\n"


def with_summary(text: str, figures: Figures, keys: int = KEYS) -> str:
    """Return docs/evidence/benchmarks.md with the summary between its markers.

    Raises:
        ValueError: the text has no markers.
    """
    return between(text, BEGIN, summary(figures, keys), END)


def with_headline(text: str, figures: Figures, keys: int = KEYS) -> str:
    """Return the README with the headline between its markers.

    Raises:
        ValueError: the text has no markers.
    """
    return between(text, SPEED_BEGIN, headline(figures, keys), SPEED_END)


def between(text: str, begin: str, content: str, end: str) -> str:
    """Return a page with content between its markers.

    Raises:
        ValueError: the text has no markers.
    """
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"expected the markers {begin.strip()} and {end}")
    return f"{before}{begin}{content}{end}{after}"


def best_peer(figures: Figures, question: str, kind: str, keys: int) -> tuple[str, Spread] | None:
    """Return the peer with the least median in process, and its times; None if there is none."""
    known = [(side, figures.spread("in_process_s", question, kind, keys, side)) for side in _PEERS]
    measured = [(side, spread) for side, spread in known if spread is not None]
    return min(measured, key=lambda one: one[1].median) if measured else None


def seconds(value: float) -> str:
    """Return a time as text for people."""
    if value < 0.1:
        return f"{value * 1000:,.1f} ms"
    return f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.2f} s" if value < 10 else f"{value:,.1f} s"


def _case(figures: Figures, question: str, kind: str, keys: int) -> Iterator[str]:
    ours = figures.spread("in_process_s", question, kind, keys, OURS)
    yield (
        "| side | runs | in process, least / median / most | ratio | whole process | CPU | peak memory | bytes read | read calls |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for side in figures.sides(question, kind, keys):
        runs = figures.of(question, kind, keys, side)
        if not runs:
            yield f"| {TITLES[side]} | 0 | no right answer | | | | | | |"
            continue
        inside = figures.spread("in_process_s", question, kind, keys, side)
        compared = inside if side != PROCESS else figures.spread("wall_s", question, kind, keys, side)
        ratio = f"{compared.median / ours.median:,.1f}" if compared and ours else ""
        cells = [
            _spread(inside),
            ratio,
            _spread(figures.spread("wall_s", question, kind, keys, side)),
            _median(figures, "cpu_s", question, kind, keys, side, "{:,.2f} s"),
            f"{max(run.peak_mib for run in runs):,.0f} MiB",
            _bytes(max(run.read_bytes for run in runs)),
            f"{max(run.read_calls for run in runs):,}",
        ]
        yield f"| {TITLES[side]} | {len(runs)} | {' | '.join(cells)} |"
        for measure, title in (("first_s", "the first of its process"), ("warm_s", "savepoint open")):
            spread = figures.spread(measure, question, kind, keys, side)
            if spread is not None:
                yield f"| – {title} | | {_spread(spread)} | | | | | | |"


def _targets(figures: Figures, keys: int) -> Iterator[str]:
    for verdict in verdicts(figures, keys):
        reached, most = _amount(verdict.found, verdict.unit), _amount(verdict.most, verdict.unit)
        yield f"{verdict.text:24} {reached:>10} of {most:>10}  {verdict.what}, {verdict.how}"


def _summary_row(figures: Figures, question: str, kind: str, keys: int) -> str:
    best = best_peer(figures, question, kind, keys)
    ours = figures.spread("in_process_s", question, kind, keys, OURS)
    whole = figures.spread("wall_s", question, kind, keys, PROCESS)
    unbuffered = [figures.spread("wall_s", question, kind, keys, side) for side in ("spa-file", "sql-file")]
    waits = [spread.median for spread in unbuffered if spread is not None]
    cells = [
        _title(question, kind),
        f"{seconds(best[1].median)} ({TITLES[best[0]]})" if best else "not measured",
        seconds(min(waits)) if waits else "",
        seconds(ours.median) if ours else "not measured",
        seconds(whole.median) if whole else "",
        f"{best[1].median / ours.median:,.0f}" if best and ours else "",
    ]
    return f"| {' | '.join(cells)} |"


def _title(question: str, kind: str) -> str:
    return f"{QUESTIONS[question].title}, {kind.partition('-')[2]}"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{seconds(spread.least)} / {seconds(spread.median)} / {seconds(spread.most)}"


def _median(
    figures: Figures, measure: str, question: str, kind: str, keys: int, side: str, shape: str
) -> str:
    spread = figures.spread(measure, question, kind, keys, side)
    return "" if spread is None else shape.format(spread.median)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return (
        seconds(value) if unit == "s" else f"{value:,.0f} {unit}" if value >= 10 else f"{value:,.2f} {unit}"
    )


def _bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count:,}"
