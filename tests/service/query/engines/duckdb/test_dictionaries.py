"""DuckDB answers the same whether texts come as dictionaries or as they are."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from readers import dictionary_schema, with_dictionaries

STATEMENTS = (
    "SELECT word, count(*), sum(number) FROM rows GROUP BY word",
    "SELECT word, number % 7, count(*) FROM rows GROUP BY ALL",
    "SELECT * FROM rows WHERE word LIKE '%1' OR word IS NULL",
    "SELECT * FROM rows WHERE word IN ('word 3_1', 'word 11_0', '')",
    "SELECT count(DISTINCT word), min(word), max(word), sum(length(word)) FROM rows",
    "SELECT word || '!' AS called, name, max(number) OVER (PARTITION BY word) FROM rows",
    "SELECT word, count(*) FROM rows JOIN range(3) AS few(number) USING (number) GROUP BY word",
    "SELECT coalesce(word, name), upper(name) FROM rows",
)
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]


def batches(seed: int) -> Iterator[pa.RecordBatch]:
    """Batches of all sizes, each with words of its own, few or many; nulls in some."""
    chance = np.random.default_rng(seed)
    for batch in range(20):
        rows, words = int(chance.integers(0, 3000)), int(chance.integers(1, 50))
        texts = [f"word {batch}_{number}" + "x" * int(chance.integers(0, 12)) for number in range(words)]
        chosen = [texts[number] for number in chance.integers(0, words, rows)]
        missing = chance.random(rows) < chance.choice([0.0, 0.2, 1.0], p=[0.5, 0.4, 0.1])
        columns = [
            pa.array(chosen, pa.string(), mask=missing),
            pa.array([f"name {batch} {number}" for number in range(rows)], pa.string()),
            pa.array(np.arange(rows)),
        ]
        yield pa.record_batch(columns, names=["word", "name", "number"])


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_those_of_plain_texts(seed: int) -> None:
    plain = list(batches(seed))
    schema = dictionary_schema(plain[0].schema)
    made = [with_dictionaries(batch, schema) for batch in plain]

    for statement in STATEMENTS:
        answers = []
        for rows in (plain, made):
            with duckdb.connect(config={"threads": 2}) as connection:
                connection.register("rows", pa.RecordBatchReader.from_batches(rows[0].schema, rows))
                answers.append(connection.sql(f"FROM ({statement}) ORDER BY ALL").to_arrow_table())

        assert answers[0].equals(answers[1]), statement
