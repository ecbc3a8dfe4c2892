"""States that jars describe are read, and not written."""

from __future__ import annotations

from pathlib import Path

import pytest

import savepointdb
from savepointdb import InvalidQueryError
from tests.support.paths import DATA

SAVEPOINT = DATA / "corpus/1.20.3/alltypes-hashmap/canonical"
JARS = [DATA / "classes/jobs.jar"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM types__v_kryo_generic WHERE key = 'k0'",
        "UPDATE types__v_pojo_inner SET value.extra = 7 WHERE key = 'k2'",
        "TRUNCATE types__v_kryo_generic",
        "ALTER TABLE types__v_pojo_inner RENAME COLUMN value.label TO name",
    ],
)
def test_a_state_that_jars_describe_is_not_changed(statement: str, tmp_path: Path) -> None:
    with (
        savepointdb.connect(SAVEPOINT, jars=JARS) as connection,
        pytest.raises(InvalidQueryError, match="while the classes of jars say how its values are laid out"),
    ):
        connection.write(tmp_path / "new", statement)

    assert not (tmp_path / "new").exists()


def test_the_other_states_are_changed(tmp_path: Path) -> None:
    with savepointdb.connect(SAVEPOINT, jars=JARS) as connection:
        connection.write(tmp_path / "new", "DELETE FROM types__v_long WHERE key = 'k0'")

    with savepointdb.connect(tmp_path / "new", jars=JARS) as connection:
        left = connection.sql("SELECT key FROM types__v_long ORDER BY key").fetchall()
        kept = connection.sql("SELECT count(*) FROM types__v_kryo_generic").fetchall()

    assert ("k0",) not in left
    assert kept == [(2,)]
