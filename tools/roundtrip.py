"""Decodes and encodes all entries of whole folders of savepoints, and compares the bytes: `python -m tools.roundtrip DIR …`.

A line for each state: its entries, how many of them are equal byte for byte, how many are refused or lost by which reason,
and how many differ without one. The reasons are those of `writers/encode/fitting.py`. The exit code is 1 if anything
differs or fails, 2 if there was nothing to read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from readers import ReaderError, Savepoint, Selection, State, StatePart
from readers.decode.decoder import Batch, Decoder, Page
from tools.folders import folder_parser, found_savepoints
from writers import Encoded, Encoder, WriterError
from writers.encode.fitting import KEY_GROUP_BITS, equal_values_loss

BEYOND = "a value is beyond its column's range"
UNPAIRED = "text with half a surrogate pair, or bytes that are no text: the column has U+FFFD"
UNDER_NULL = "bytes behind the flag of a null map value, which the heap backend writes"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(slots=True)
class Outcome:
    """The result for one state.

    Attributes:
        database: the savepoint.
        state: operator and name.
        entries: how many there are.
        equal: those whose bytes are the same.
        refused: reason → those that cannot be encoded, or not to the same bytes.
        different: those that differ without a reason.
        sample: the bytes of the first of these, or the error that ended the scan.
    """

    database: str
    state: str
    entries: int = 0
    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: int = 0
    sample: str = ""

    def __str__(self) -> str:
        reasons = "".join(f"  {count} refused: {reason}" for reason, count in sorted(self.refused.items()))
        sample = f"  {self.sample}" if self.sample else ""
        return (
            f"{self.entries:>9}  {self.equal:>9} equal  {self.different:>6} different  "
            f"{self.database}  {self.state}{reasons}{sample}"
        )


def outcomes(savepoint: Savepoint, database: str) -> Iterator[Outcome]:
    """Yield the outcome of each state of a savepoint."""
    for operator in savepoint.operators:
        for state in operator.states:
            outcome = Outcome(database, f"{operator.operator_id[:8]} {state.name} ({state.kind.value})")
            try:
                _compare_state(state, outcome)
            except (ReaderError, WriterError) as error:
                outcome.sample = f"failed: {' '.join(str(error).split())}"
            if outcome.entries or outcome.sample:
                yield outcome


def _compare_state(state: State, outcome: Outcome) -> None:
    for part in state.parts:
        encoders: list[Encoder] = []
        for batch in part.entries(Selection()):
            if not encoders:
                segments = batch.page.starts.shape[1]
                encoders = [
                    Encoder.of_part(part, segments, reserves_nulls=reserves) for reserves in (True, False)
                ]
            _compare_batch(part, encoders, batch, outcome)


def _compare_batch(part: StatePart, encoders: Sequence[Encoder], batch: Batch, outcome: Outcome) -> None:
    outcome.entries += len(batch.page)
    # Flink writes null decimals and timestamps in two ways: an entry is equal if one of them gives its bytes.
    restored = encoders[0].restores(batch)
    if not restored.all():
        restored |= encoders[1].restores(batch)
    beyond = sorted({outlier.entry for outlier in batch.outliers})
    if beyond:
        outcome.refused[BEYOND] += len(beyond)
        restored[beyond] = True  # counted here
    outcome.equal += int(restored.sum()) - len(beyond)
    for number in np.flatnonzero(~restored).tolist():
        row = [array.slice(number, 1) for array in batch.arrays]
        _explain(part, encoders[0], row, batch.page.slice(number, number + 1), outcome)


def _explain(
    part: StatePart, encoder: Encoder, row: Sequence[pa.Array], page: Page, outcome: Outcome
) -> None:
    """Count one entry whose bytes are not restored: by its error or loss, or without a reason."""
    encoded, error = encoder.encode_arrays(row, 1, page.key_groups)
    if error is not None:
        outcome.refused[f"{error.breadcrumbs[-1] if error.breadcrumbs else ''}: {error.message}"] += 1
        return
    found = [
        page.data[start:end].tobytes()
        for start, end in zip(page.starts[0].tolist(), page.ends[0].tolist(), strict=True)
    ]
    if len(found) > 1:
        found[0] = bytes([found[0][0] & KEY_GROUP_BITS]) + found[0][1:]
    reason = loss_of(row, found, encoded.entry(0))
    if not reason and _values_of(part, encoded, page).equals(pa.table(list(row), encoder.schema.names)):
        reason = equal_values_loss(part.programs()[1][0])
    if reason:
        outcome.refused[reason] += 1
        return
    outcome.different += 1
    if not outcome.sample:
        outcome.sample = (
            f"{[part.hex() for part in found]} became {[part.hex() for part in encoded.entry(0)]}"
        )


def loss_of(row: Sequence[pa.Array], found: Sequence[bytes], encoded: Sequence[bytes]) -> str:
    """Return the reason why an entry is encoded to other bytes than were found; empty if none is known.

    Args:
        row: its columns.
        found, encoded: the bytes of its segments.
    """
    if any(_REPLACEMENT in text for array in row for text in _texts(array)):
        return UNPAIRED
    if (
        len(found) > 1
        and encoded[-1] == b"\x01"
        and list(found[:-1]) == list(encoded[:-1])
        and found[-1][:1] == b"\x01"
    ):
        return UNDER_NULL
    return ""


def _texts(array: pa.Array) -> Iterator[bytes]:
    """Yield all texts of an array, nested ones among them."""
    if pa.types.is_string(array.type):
        yield from (text.encode() for text in array.to_pylist() if text is not None)
    elif pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from _texts(array.field(index))
    elif pa.types.is_list(array.type):
        yield from _texts(array.flatten())
    elif pa.types.is_map(array.type):
        yield from _texts(array.keys)
        yield from _texts(array.items)


def _values_of(part: StatePart, encoded: Encoded, page: Page) -> pa.Table:
    """Return the columns of entries that were encoded."""
    tree, codes = part.programs()
    own = Page(
        data=encoded.data,
        starts=encoded.starts,
        ends=encoded.ends,
        key_groups=page.key_groups,
        subtask=0,
        path="",
    )
    batches = [batch.arrays for batch in Decoder(tree, codes[0], keeps_objects=True).decode(own)]
    return pa.table(
        [pa.chunked_array(column) for column in zip(*batches, strict=True)], pa.schema(list(tree.root)).names
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the outcomes of folders and their totals; return the exit code."""
    parser = folder_parser("roundtrip", __doc__)
    parser.add_argument("--brief", action="store_true", help="without the states whose entries are all equal")
    options = parser.parse_args(arguments)
    catalog = found_savepoints("roundtrip", options.directories)
    if catalog is None:
        return 2
    totals: Counter[str] = Counter()
    for name in catalog.databases:
        try:
            savepoint = catalog.database(name).savepoint
            found = outcomes(savepoint, name)
        except ReaderError as error:
            print(f"{name}: {' '.join(str(error).split())}")
            totals["failed"] += 1
            continue
        for outcome in found:
            totals["entries"] += outcome.entries
            totals["equal"] += outcome.equal
            totals["refused"] += outcome.refused.total()
            totals["different"] += outcome.different
            totals["failed"] += outcome.sample.startswith("failed")
            if not options.brief or outcome.equal < outcome.entries or outcome.sample:
                print(outcome, flush=True)
    words = ("entries", "equal", "refused", "different", "failed")
    print(f"{len(catalog.databases)} savepoints: " + ", ".join(f"{totals[word]} {word}" for word in words))
    return 2 if not catalog.databases else 1 if totals["different"] or totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
