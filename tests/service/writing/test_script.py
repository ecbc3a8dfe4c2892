"""Scripts: what is read as which statement, and what is refused where."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from service.errors import ForbiddenError, LimitExceededError, Position, QuerySyntaxError
from service.writing.statements.alter import Truncate
from service.writing.statements.parser import Fragment
from service.writing.statements.rows import Assignment, Update
from service.writing.statements.script import statements_of
from service.writing.statements.statement import Statement
from service.writing.statements.tables import DropTable, RenameTable


def parsed(script: str) -> tuple[Statement, ...]:
    return statements_of(script, 1000)


def test_statements_have_their_tables_and_positions() -> None:
    script = """DROP TABLE aggregate; -- gone
      alter table "my db".`source` rename to 'new uid';;
      UPDATE source_offsets SET starting_offset = 5;"""

    assert parsed(script) == (
        DropTable(table=("aggregate",), position=Position(1, 1)),
        RenameTable(table=("my db", "source"), new_name="new uid", position=Position(2, 7)),
        Update(
            table=("source_offsets",),
            assignments=(Assignment(("starting_offset",), Fragment("5")),),
            condition=None,
            position=Position(3, 7),
        ),
    )


@pytest.mark.parametrize("name", ["'a;b'", '"a;b"'])
def test_a_uid_is_a_text_or_a_name(name: str) -> None:
    (statement,) = parsed(f"ALTER TABLE t RENAME TO {name}")

    assert isinstance(statement, RenameTable)
    assert statement.new_name == "a;b"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("RENAME COLUMN value.a.b TO c", {"path": ("value", "a", "b"), "new_name": "c"}),
        ("ADD COLUMN value.x BIGINT", {"path": ("value", "x"), "type": "BIGINT", "default": None}),
        (
            "ADD COLUMN value.x DECIMAL(10, 2) DEFAULT greatest(1, 2)",
            {"path": ("value", "x"), "type": "DECIMAL(10, 2)", "default": "greatest(1, 2)"},
        ),
        ("DROP COLUMN value.x", {"path": ("value", "x")}),
        ("ALTER COLUMN value SET DATA TYPE 'Long'", {"path": ("value",), "type": "Long"}),
        ("ALTER COLUMN value TYPE BIGINT[]", {"path": ("value",), "type": "BIGINT[]"}),
        ("SET (ttl = true)", {"options": (("ttl", "true"),)}),
        (
            "SET (Max_Parallelism = 500 * 2, parallelism = 3)",
            {"options": (("max_parallelism", "500 * 2"), ("parallelism", "3"))},
        ),
    ],
)
def test_a_state_is_altered_in_many_ways(rest: str, expected: dict[str, Any]) -> None:
    (statement,) = parsed(f"ALTER TABLE a__b {rest}")

    found = {field.name: getattr(statement, field.name) for field in fields(statement)}
    assert found == {"table": ("a__b",), "position": Position(1, 1), **expected}


@pytest.mark.parametrize("script", ["TRUNCATE a__b", "truncate table a__b"])
def test_truncate_needs_no_table(script: str) -> None:
    assert parsed(script) == (Truncate(table=("a__b",), position=Position(1, 1)),)


def test_expressions_stay_as_they_were_written() -> None:
    (statement,) = parsed(
        "UPDATE t SET a.b = greatest(x, y) /* , */ - [1, 2][1],\n c = 'WHERE' WHERE d IN (SELECT e FROM f WHERE g) OR h"
    )

    assert isinstance(statement, Update)
    assert statement.assignments == (
        Assignment(("a", "b"), Fragment("greatest(x, y) /* , */ - [1, 2][1]")),
        Assignment(("c",), Fragment("'WHERE'")),
    )
    assert statement.condition == "d IN (SELECT e FROM f WHERE g) OR h"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "expected a statement, found none"),
        (" ; -- nothing", "expected a statement, found none"),
        ("DROP aggregate", "expected TABLE, found 'aggregate'"),
        ("DROP", "expected TABLE, found the end"),
        ("DROP TABLE", "expected a table, found the end"),
        ("DROP TABLE 'aggregate'", "expected a table, found 'aggregate'"),
        ("DROP TABLE a, b", "expected the end of the statement, found ','"),
        ("DROP TABLE a.", "expected a table, found the end"),
        ("ALTER TABLE a MOVE TO b", "expected RENAME, ADD, DROP, ALTER or SET, found 'MOVE'"),
        ("ALTER TABLE a ADD b INT", "expected RENAME, ADD, DROP, ALTER or SET, found 'ADD'"),
        ("ALTER TABLE a RENAME TO 5", "expected a uid, or the name of a state, found '5'"),
        ("ALTER TABLE a ADD COLUMN b", "expected a type, found the end"),
        ("ALTER TABLE a ADD COLUMN b INT DEFAULT", "expected an expression, found the end"),
        ("ALTER TABLE a RENAME COLUMN b c", "expected TO, found 'c'"),
        ("ALTER TABLE a ALTER COLUMN b INT", "expected TYPE, found 'INT'"),
        ("ALTER TABLE a SET ttl = true", "expected ( before the options, found 'ttl'"),
        ("ALTER TABLE a SET (ttl)", "expected = behind the option, found ')'"),
        ("ALTER TABLE a SET (ttl = true", "expected , or ) behind an option, found the end"),
        ("TRUNCATE", "expected a table, found the end"),
        ("UPDATE t SET", "expected a column, found the end"),
        ("UPDATE t SET a", "expected = behind the column, found the end"),
        ("UPDATE t SET a =", "expected an expression, found the end"),
        ("UPDATE t SET a = , b = 1", "expected an expression, found ','"),
        ("UPDATE t SET a = (1", "expected an expression, found the end"),
        ("UPDATE t SET a = 1)", "expected an expression, found ')'"),
        ("UPDATE t SET a = 1 WHERE", "expected an expression, found the end"),
        ("UPDATE t SET a = 1 FROM u GROUP BY v", "expected WHERE, found 'GROUP BY'"),
        ("UPDATE t SET a = 1 WHERE b) OR (c", "expected an expression, found ')'"),
        ("UPDATE t SET a = 'x", "a string, a quoted name or a comment has no end"),
    ],
)
def test_what_is_no_script_is_a_syntax_error(script: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as error:
        parsed(script)

    assert error.value.message == message


@pytest.mark.parametrize(
    "script",
    ["SELECT 1", "COPY t TO 'x'", "ATTACH 'x'", "VALUES (1)", "PRAGMA x"],
)
def test_other_statements_are_refused(script: str) -> None:
    with pytest.raises(ForbiddenError, match=f"a script cannot have {script.split()[0]}") as error:
        parsed(f"DROP TABLE a;\n{script}")

    assert error.value.position == Position(2, 1)


def test_a_script_has_a_limit() -> None:
    with pytest.raises(LimitExceededError):
        statements_of("DROP TABLE a;" * 100, 1000)
