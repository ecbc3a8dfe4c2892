"""Writes all keyed state of whole folders of savepoints anew, and compares the rows: `python -m tools.rewritten DIR …`.

Each operator is written by itself, with no change: as canonical key groups, whatever its layout. A line for each operator that is refused,
with the reason, or whose rows differ. The exit code is 1 if rows differ or something fails, 2 if there was nothing to read.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from readers import Operator, ReaderError, Savepoint, is_keyed, json_text
from tools.folders import folder_parser, found_savepoints
from writers import RewriteKeyedState, SavepointWriter, WriterError

EQUAL, REFUSED, DIFFERENT, FAILED = "equal", "refused", "different", "failed"


def outcomes(savepoint: Savepoint) -> Iterator[tuple[str, str, str]]:
    """Yield the id of each operator with keyed state, one of the four words, and the reason."""
    for operator in savepoint.operators:
        if any(subtask.managed_keyed_state for subtask in operator.metadata.subtasks):
            with tempfile.TemporaryDirectory(prefix="savepointdb-") as folder:
                yield operator.operator_id, *_outcome(savepoint, operator, Path(folder) / "new")


def _outcome(savepoint: Savepoint, operator: Operator, target: Path) -> tuple[str, str]:
    try:
        edit = RewriteKeyedState(operator=operator)
        SavepointWriter(savepoint.location, [edit]).write(target)
    except (ReaderError, WriterError) as error:
        return REFUSED, " ".join(str(error).split())
    try:
        written = next(one for one in Savepoint(target).operators if one.operator_id == operator.operator_id)
        before, after = _rows(operator), _rows(written)
    except ReaderError as error:
        return FAILED, " ".join(str(error).split())
    if before == after:
        return EQUAL, ""
    lost, new = sum((before - after).values()), sum((after - before).values())
    return (
        DIFFERENT,
        f"{lost} rows are missing, {new} are new: {next(iter((before - after) + (after - before)))}",
    )


def _rows(operator: Operator) -> Counter[str]:
    """Return the rows of all keyed states as text."""
    return Counter(
        f"{state.kind.value} {state.name} {row}"
        for state in operator.states
        if is_keyed(state.kind) and state.backend
        for batch in state.read()
        for row in json_text(batch.to_struct_array()).to_pylist()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the outcomes of folders and their totals; return the exit code."""
    parser = folder_parser("rewritten", __doc__)
    options = parser.parse_args(arguments)
    catalog = found_savepoints("rewritten", options.directories)
    if catalog is None:
        return 2
    totals: Counter[str] = Counter()
    for name in catalog.databases:
        try:
            found = list(outcomes(catalog.database(name).savepoint))
        except ReaderError as error:
            found = [("", FAILED, " ".join(str(error).split()))]
        for operator, word, reason in found:
            totals[word] += 1
            if word != EQUAL:
                print(f"{word}  {name}  {operator[:8]}  {reason}", flush=True)
    words = (EQUAL, REFUSED, DIFFERENT, FAILED)
    shown = ", ".join(f"{totals[word]} {word}" for word in words)
    print(f"{len(catalog.databases)} savepoints, {totals.total()} operators: {shown}")
    return 2 if not catalog.databases else 1 if totals[DIFFERENT] or totals[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
