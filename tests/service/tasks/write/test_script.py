"""Scripts: what is read as which statement, and what is refused where."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from service.base.errors import ForbiddenError, LimitExceededError, Position, QuerySyntaxError
from service.tasks.write.statements.parser import Fragment, Statement
from service.tasks.write.statements.script import (
    Action,
    Assignment,
    Conflict,
    Delete,
    DropTable,
    Insert,
    Match,
    Merge,
    RenameTable,
    RewindKafka,
    Truncate,
    Update,
    statements_of,
)


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


def test_a_semicolon_in_a_quoted_argument_is_part_of_the_argument() -> None:
    script = (
        "CALL rewind_kafka('a;b', $$x;y$$, MAP {0: 5}); -- ;\nCALL rewind_kafka('o', 't''; --', MAP {1: 6})"
    )

    assert parsed(script) == (
        RewindKafka(
            table=("source_offsets",),
            arguments=Fragment("('a;b', $$x;y$$, MAP {0: 5})"),
            position=Position(1, 1),
        ),
        RewindKafka(
            table=("source_offsets",),
            arguments=Fragment("('o', 't''; --', MAP {1: 6})"),
            position=Position(2, 1),
        ),
    )


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
    ["SELECT 1", "ATTACH 'x'", "VALUES (1)", "PRAGMA x"],
)
def test_other_statements_are_refused(script: str) -> None:
    with pytest.raises(ForbiddenError, match=f"a script cannot have {script.split()[0]}") as error:
        parsed(f"DROP TABLE a;\n{script}")

    assert error.value.position == Position(2, 1)


def test_a_script_has_a_limit() -> None:
    with pytest.raises(LimitExceededError):
        statements_of("DROP TABLE a;" * 100, 1000)


def test_a_script_has_at_most_a_thousand_statements() -> None:
    statement = "UPDATE t SET value = 1;"

    assert len(statements_of(statement * 1000, 1 << 20)) == 1000
    with pytest.raises(LimitExceededError, match="at most 1,000 statements, found 1,001") as error:
        statements_of(statement * 1001, 1 << 20)
    assert "one MERGE" in str(error.value.hint)


def test_a_merge_has_at_most_64_clauses() -> None:
    merge, clause = "MERGE INTO t USING s ON t.key = s.key ", "WHEN MATCHED AND t.value = 1 THEN DELETE "

    (found,) = statements_of(merge + clause * 64, 1 << 20)
    assert isinstance(found, Merge)
    assert len(found.clauses) == 64
    with pytest.raises(LimitExceededError, match="a MERGE of at most 64 clauses, found more") as error:
        statements_of(merge + clause * 65, 1 << 20)
    assert error.value.position == Position(1, 1)


def test_rows_are_changed_by_expressions_as_they_were_written() -> None:
    update, delete = parsed(
        "UPDATE t AS a SET value.offset = a.offset + 1 /* , */, c = x IS DISTINCT FROM y FROM u, (SELECT 1 WHERE z) v "
        "WHERE a.k = u.k -- end\n; DELETE FROM t b USING u JOIN v ON u.k = v.k WHERE b.k = CASE WHEN g THEN 1 END"
    )

    assert isinstance(update, Update)
    assert update.alias == "a"
    assert [(one.path, str(one.expression)) for one in update.assignments] == [
        (("value", "offset"), "a.offset + 1"),
        (("c",), "x IS DISTINCT FROM y"),
    ]
    assert update.source == "u, (SELECT 1 WHERE z) v"
    assert update.condition == "a.k = u.k"
    assert isinstance(delete, Delete)
    assert (delete.alias, delete.source) == ("b", "u JOIN v ON u.k = v.k")
    assert delete.condition == "b.k = CASE WHEN g THEN 1 END"


def test_an_insert_has_columns_a_query_and_what_happens_to_rows_that_are_there() -> None:
    plain, query, named, upsert = parsed(
        "INSERT INTO t VALUES (1, 'on conflict'); INSERT INTO t (SELECT 1); INSERT INTO t BY NAME SELECT 1 AS a; "
        'INSERT INTO t AS x (a, "select") SELECT a, b FROM u JOIN v ON u.k = v.k ON CONFLICT (a) DO UPDATE SET b = excluded.b '
        "WHERE x.b < 5"
    )

    assert isinstance(plain, Insert)
    assert (plain.columns, plain.query, plain.conflict) == ((), "VALUES (1, 'on conflict')", None)
    assert isinstance(query, Insert)
    assert (query.columns, query.query) == ((), "(SELECT 1)")
    assert isinstance(named, Insert)
    assert named.is_by_name
    assert isinstance(upsert, Insert)
    assert (upsert.alias, upsert.columns) == ("x", ("a", "select"))
    assert upsert.query == "SELECT a, b FROM u JOIN v ON u.k = v.k"
    assert upsert.conflict == Conflict(
        columns=("a",),
        assignments=(Assignment(("b",), Fragment("excluded.b")),),
        condition=Fragment("x.b < 5"),
    )


def test_a_merge_has_clauses_in_order() -> None:
    (merge,) = parsed(
        "MERGE INTO t USING (SELECT * FROM u WHERE a ON b) s ON t.k = s.k WHEN MATCHED AND CASE WHEN s.a THEN 1 END = 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET a = 1, b = 2 WHEN NOT MATCHED BY TARGET THEN INSERT (k) VALUES (f(s.k)) "
        "WHEN NOT MATCHED BY SOURCE AND t.a THEN DO NOTHING"
    )

    assert isinstance(merge, Merge)
    assert (merge.source, merge.condition) == ("(SELECT * FROM u WHERE a ON b) s", "t.k = s.k")
    assert [(one.match, one.action, one.condition and str(one.condition)) for one in merge.clauses] == [
        (Match.MATCHED, Action.DELETE, "CASE WHEN s.a THEN 1 END = 1"),
        (Match.MATCHED, Action.UPDATE, None),
        (Match.NOT_MATCHED, Action.INSERT, None),
        (Match.NOT_MATCHED_BY_SOURCE, Action.NOTHING, "t.a"),
    ]
    assert [one.column for one in merge.clauses[1].assignments] == ["a", "b"]
    assert (merge.clauses[2].columns, merge.clauses[2].values) == (("k",), "f(s.k)")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("DELETE t", "expected FROM, found 't'"),
        ("DELETE FROM t WHERE", "expected an expression, found the end"),
        ("DELETE FROM t USING u LIMIT 1", "expected WHERE, found 'LIMIT'"),
        ("DELETE FROM t WHERE a) OR (b", "expected an expression, found ')'"),
        ("UPDATE t SET a = 1 FROM u UNION SELECT 1", "expected WHERE, found 'UNION'"),
        ("INSERT t VALUES (1)", "expected INTO, found 't'"),
        ("INSERT INTO t", "expected SELECT or VALUES, found the end"),
        ("INSERT INTO t (a VALUES (1)", "expected , or ), found 'VALUES'"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO DELETE", "expected UPDATE, found 'DELETE'"),
        ("INSERT INTO t VALUES (1) RETURNING a", "expected the end of the statement, found 'RETURNING'"),
        ("MERGE INTO t USING u ON a = b", "expected WHEN, found the end"),
        ("MERGE INTO t USING u ON a = b WHEN MATCHED THEN INSERT", "expected UPDATE, found 'INSERT'"),
        ("MERGE INTO t USING u ON a = b WHEN NOT MATCHED THEN DELETE", "expected INSERT, found 'DELETE'"),
        ("MERGE INTO t USING u ON a = b WHEN NOT MATCHED THEN INSERT (a)", "expected VALUES, found the end"),
    ],
)
def test_wrong_statements_about_rows_are_syntax_errors(script: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as error:
        parsed(script)

    assert error.value.message == message
