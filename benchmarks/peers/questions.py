"""The questions and the right answers.

The rows are those of `tools.synthetic.savepoints`. Flink's job (`src/main/java/…/Rows.java`) writes the same rows, and adds up its
own `truth.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DAYS = 4
EVENTS = 3
KEY = "key_662"
_FIRST_DAY = 20_240_101
_LEAST_COUNT = 10_000
_COUNTS = 13
STATES = ("count", "account", "perDay", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question.

    Attributes:
        name: by which the sides know it.
        title: for people.
        sql: the statement for savepointdb; empty if the question takes more than a statement.
    """

    name: str
    title: str
    sql: str = ""


QUESTIONS = {
    question.name: question
    for question in (
        Question(
            name="count",
            title="count and sum of one state",
            sql="SELECT count(*), sum(value) FROM aggregate__count",
        ),
        Question(name="key", title="one key", sql=f"SELECT value FROM aggregate__count WHERE key = '{KEY}'"),
        Question(
            name="group",
            title="group by the value",
            sql="SELECT value, count(*) FROM aggregate__count GROUP BY value ORDER BY value",
        ),
        Question(
            name="days",
            title="sum of a map by its keys",
            sql="SELECT map_key, sum(value) FROM aggregate__perDay GROUP BY map_key ORDER BY map_key",
        ),
        Question(name="parquet", title="everything to Parquet"),
        Question(
            name="metadata",
            title="what is in it",
            sql="SELECT state_name FROM StateMeta WHERE state_kind <> 'TIMER' ORDER BY state_name",
        ),
        Question(
            name="again",
            title="the same again, and DuckDB over Parquet",
            sql="SELECT count(*), sum(value) FROM aggregate__count",
        ),
    )
}


def truth(keys: int) -> dict[str, Any]:
    """Return the totals of a savepoint of some number of keys, in the form of `truth.json`."""
    whole, rest = divmod(keys, _COUNTS)
    groups = [[_LEAST_COUNT + value, whole + (value < rest)] for value in range(_COUNTS)]
    numbers = keys * (keys - 1) // 2
    days = [[str(_FIRST_DAY + day), numbers + day * keys] for day in range(DAYS)]
    return {
        "keys": keys,
        "count": [keys, sum(value * count for value, count in groups)],
        "account": [keys, numbers / 4],
        "perDay": [DAYS * keys, sum(total for _, total in days)],
        "events": [EVENTS * keys, len("event_") * EVENTS * keys + _digits(EVENTS * keys)],
        "group": [[value, count] for value, count in groups if count],
        "days": days,
    }


def right_answer(question: str, known: dict[str, Any], *, ours: bool) -> Any:
    """Return the answer that a side must give. For metadata, number and names: of operators from Flink, of states from savepointdb."""
    if question == "metadata":
        return sorted(STATES) if ours else 2
    if question == "key":
        return _LEAST_COUNT + int(KEY.removeprefix("key_")) % _COUNTS
    if question == "parquet":
        return {state: known[state] for state in STATES}
    return known["count" if question == "again" else question]


def _digits(numbers: int) -> int:
    """Return how many digits 0, 1, … `numbers` - 1 have together."""
    total, length, first = 0, 1, 0
    while first < numbers:
        behind = 10**length
        total += length * (min(behind, numbers) - first)
        first, length = behind, length + 1
    return total
