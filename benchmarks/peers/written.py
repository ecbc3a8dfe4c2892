"""`python -m benchmarks.peers.written FOLDER`: the totals of the Parquet files that a side wrote, as JSON.

savepointdb writes a file for each state and a row for each entry; Flink's readers can only write a row for each key.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import duckdb

_OURS = {
    "count": "SELECT count(*), sum(value)::BIGINT FROM '{folder}/count.parquet'",
    "account": "SELECT count(*), sum(value.balance) FROM '{folder}/account.parquet'",
    "perDay": "SELECT count(*), sum(value)::BIGINT FROM '{folder}/perDay.parquet'",
    "events": "SELECT count(*), sum(length(value))::BIGINT FROM '{folder}/events.parquet'",
}
_PEERS = {
    "count": 'SELECT count("count"), sum("count")::BIGINT FROM read_parquet({files})',
    "account": "SELECT count(account), sum(account.balance) FROM read_parquet({files})",
    "perDay": "SELECT sum(len(map_values(perDay)))::BIGINT, sum(list_sum(map_values(perDay)))::BIGINT FROM read_parquet({files})",
    "events": (
        "SELECT sum(len(events))::BIGINT, sum(list_sum(list_transform(events, lambda text: length(text))))::BIGINT "
        "FROM read_parquet({files})"
    ),
}


def totals(folder: Path) -> dict[str, list[Any]]:
    """Return rows and sum of each state."""
    files = [str(path) for path in folder.rglob("part-*") if path.is_file()]
    statements = _PEERS if files else _OURS
    found = {}
    connection = duckdb.connect()
    for state, statement in statements.items():
        found[state] = list(connection.execute(statement.format(folder=folder, files=files)).fetchall()[0])
    return found


def main() -> int:
    """Print the totals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.written", description=__doc__)
    parser.add_argument("folder", type=Path)
    json.dump(totals(parser.parse_args().folder), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
