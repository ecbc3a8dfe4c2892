"""Short statements: columns and conditions of one table, which a scan answers without an engine.

    SELECT key, value AS v FROM "chk-41".aggregate WHERE key = 'key_662' AND value > 5 LIMIT 3

Most statements of programs are such: they look up keys. To parse, check, bind and run one in an engine takes twenty times as
long as to read the key.

The grammar has few words, which DuckDB can read in one way only:

    statement  = SELECT ("*" | item {"," item}) FROM name {"." name} [[AS] name] WHERE condition {AND condition} [LIMIT number] {";"}
    item       = column [AS name]
    condition  = column ("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") constant | column IN "(" constant {"," constant} ")"
    column     = name ["." name]
    constant   = text | whole number, either in parentheses or not

A text with anything else, such as a comment, another operator, or a name that is a word of SQL and not in quotes, is not short. So
nothing is parsed here that another parser could take for something else.

DuckDB writes a name in quotes if it is one of its words; the words are at the end of this module.

A scan answers the statement only if it does so for certain as the engine would:

| part | short if |
|---|---|
| table | it is one of a savepoint, found as any statement finds it |
| columns | written as the table has them; DuckDB returns their types unchanged |
| conditions | on texts and whole numbers: Arrow compares them as DuckDB does; a text is only equal to another or not |
| keys | one of the conditions leaves some keys |

Anything else is planned for an engine, and so is what is wrong: the engine's plan says what, and where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from catalog import Catalog, CatalogError, Database, Predicate
from readers import ReaderError
from service.base.errors import QueryError
from service.query.encode.formats import is_kept
from service.query.sql.plan import (
    MOST_KEYS,
    Comparison,
    Plan,
    ShortStatement,
    TableReference,
    UnreadStatement,
)
from service.query.sql.resolver import Resolver, SystemTables
from service.query.sql.text import value_of

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def identifier(name: str) -> str:
    """Return a name as DuckDB shows it in the name of a type."""
    is_plain = _PLAIN.fullmatch(name) is not None and name.upper() not in KEPT | OTHERS
    return name if is_plain else '"' + name.replace('"', '""') + '"'


# Words that DuckDB keeps for itself, at least in some places: no name is one of them, unless it stands in quotes.
KEPT = frozenset(
    """
    ALL ANALYSE ANALYZE AND ANTI ANY ARRAY AS ASC ASOF ASYMMETRIC AT AUTHORIZATION BETWEEN BIGINT BINARY BIT BOOLEAN
    BOTH BY CASE CAST CHAR CHARACTER CHECK COALESCE COLLATE COLLATION COLUMN COLUMNS CONCURRENTLY CONSTRAINT CREATE
    CROSS DEC DECIMAL DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT EXISTS EXTRACT FALSE FETCH FLOAT FOR
    FOREIGN FREEZE FROM FULL GENERATED GLOB GROUP GROUPING GROUPING_ID HAVING ILIKE IN INITIALLY INNER INOUT INT INTEGER
    INTERSECT INTERVAL INTO IS ISNULL JOIN LAMBDA LATERAL LEADING LEFT LIKE LIMIT MAP NATIONAL NATURAL NCHAR NONE NOT
    NOTNULL NULL NULLIF NUMERIC OFFSET ON ONLY OR ORDER OUT OUTER OVERLAPS OVERLAY PIVOT PIVOT_LONGER PIVOT_WIDER
    PLACING POSITION POSITIONAL PRECISION PRIMARY QUALIFY REAL REFERENCES RETURNING RIGHT ROW SELECT SEMI SETOF SHOW
    SIMILAR SMALLINT SOME STRUCT SUBSTRING SUMMARIZE SYMMETRIC TABLE TABLESAMPLE THEN TIME TIMESTAMP TO TRAILING TREAT
    TRIM TRUE TRY_CAST TUPLE UNION UNIQUE UNPACK UNPIVOT USING VALUES VARCHAR VARIADIC VERBOSE WHEN WHERE WINDOW WITH
    XMLATTRIBUTES XMLCONCAT XMLELEMENT XMLEXISTS XMLFOREST XMLNAMESPACES XMLPARSE XMLPI XMLROOT XMLSERIALIZE XMLTABLE
    """.split()  # noqa: SIM905 (a line a word would be four hundred lines)
)
# Words that mean something, and may be names.
OTHERS = frozenset(
    """
    ABORT ABSOLUTE ACCESS ACTION ADD ADMIN AFTER AGGREGATE ALSO ALTER ALWAYS APPROX ASSERTION ASSIGNMENT ATTACH
    ATTRIBUTE BACKWARD BEFORE BEGIN CACHE CALL CALLED CASCADE CASCADED CATALOG CENTURIES CENTURY CHAIN CHARACTERISTICS
    CHECKPOINT CLASS CLOSE CLUSTER COMMENT COMMENTS COMMIT COMMITTED COMPRESSION CONFIGURATION CONFLICT CONNECT
    CONNECTION CONSTRAINTS CONTENT CONTINUE CONVERSION COPY COST CSV CUBE CURRENT CURSOR CYCLE DATA DATABASE DAY DAYS
    DEALLOCATE DECADE DECADES DECLARE DEFAULTS DEFERRED DEFINER DELETE DELIMITER DELIMITERS DEPENDS DESTROY DETACH
    DICTIONARY DISABLE DISCARD DISCONNECT DISTANCE DOCUMENT DOMAIN DOUBLE DROP EACH ENABLE ENCODING ENCRYPTED ENUM ERROR
    ESCAPE EVENT EXACT EXCLUDE EXCLUDING EXCLUSIVE EXECUTE EXPLAIN EXPORT EXPORT_STATE EXTENSION EXTENSIONS EXTERNAL
    FAMILY FILTER FIRST FOLLOWING FORCE FORWARD FUNCTION FUNCTIONS GLOBAL GRANT GRANTED GROUPS HANDLER HEADER HOLD HOUR
    HOURS IDENTITY IF IGNORE IMMEDIATE IMMUTABLE IMPLICIT IMPORT INCLUDE INCLUDING INCREMENT INDEX INDEXES INHERIT
    INHERITS INLINE INPUT INSENSITIVE INSERT INSTALL INSTEAD INVOKER ISOLATION JSON KEY LABEL LANGUAGE LARGE LAST
    LEAKPROOF LEVEL LISTEN LOAD LOCAL LOCATION LOCK LOCKED LOGGED MACRO MAPPING MATCH MATCHED MATERIALIZED MAXVALUE
    MERGE METHOD MICROSECOND MICROSECONDS MILLENNIA MILLENNIUM MILLISECOND MILLISECONDS MINUTE MINUTES MINVALUE MODE
    MONTH MONTHS MOVE NAME NAMES NEAREST NEW NEXT NO NOTHING NOTIFY NOWAIT NULLS OBJECT OF OFF OIDS OLD OPERATOR OPTION
    OPTIONS ORDINALITY OTHERS OVER OVERRIDING OWNED OWNER PARALLEL PARSER PARTIAL PARTITION PARTITIONED PASSING PASSWORD
    PERCENT PERSISTENT PLANS POLICY PRAGMA PRECEDING PREPARE PREPARED PRESERVE PRIOR PRIVILEGES PROCEDURAL PROCEDURE
    PROGRAM PUBLICATION QUARTER QUARTERS QUOTE RANGE READ REASSIGN RECHECK RECURSIVE REF REFERENCING REFRESH REGISTER
    REINDEX RELATIVE RELEASE RENAME REPEATABLE REPLACE REPLICA RESET RESOURCE RESOURCES RESPECT RESTART RESTRICT RETURNS
    REVOKE ROLE ROLLBACK ROLLUP ROWS RULE SAMPLE SAVEPOINT SCHEMA SCHEMAS SCOPE SCROLL SEARCH SECOND SECONDS SECRET
    SECURE SECURITY SEQUENCE SEQUENCES SERIALIZABLE SERVER SESSION SET SETS SHARE SIMILARITY SIMPLE SKIP SNAPSHOT SORTED
    SOURCE SQL STABLE STANDALONE START STATEMENT STATISTICS STDIN STDOUT STORAGE STORED STRICT STRIP SUBSCRIPTION SYSID
    SYSTEM TABLES TABLESPACE TARGET TEMP TEMPLATE TEMPORARY TEXT TIES TRANSACTION TRANSFORM TRIGGER TRUNCATE TRUSTED
    TYPE TYPES UNBOUNDED UNCOMMITTED UNENCRYPTED UNKNOWN UNLISTEN UNLOGGED UNTIL UPDATE USE USER VACUUM VALID VALIDATE
    VALIDATOR VALUE VARIABLE VARYING VERSION VIEW VIEWS VIRTUAL VOLATILE WEEK WEEKS WHITESPACE WITHIN WITHOUT WORK
    WRAPPER WRITE XML YEAR YEARS YES ZONE
    """.split()  # noqa: SIM905
)


# A list of a hundred keys, and some.
_LONGEST_TEXT = 10_000
# Behind a sign of comparison, another sign would make a longer operator of both.
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<text>'(?:[^'\\\x00]|'')*')
      | (?P<quoted>"(?:[^"\x00]|"")+")
      | (?P<number>-?[0-9]{1,18}(?![\w.]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>(?:<=|>=|<>|!=|[=<>*])(?![-+*/<>=~!@\#%^&|`?:])|[(),.;])
    )""",
    re.VERBOSE | re.ASCII,
)
_BLANKS = " \t\r\n"
_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})

_Token = tuple[str, str]
_Tokens = Sequence[_Token]


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the answer: the parts of its name, and its alias or an empty text."""

    column: tuple[str, ...]
    alias: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition.

    Attributes:
        column: the parts of its name.
        sign: of the comparison; `IN` for a list.
        constants: texts and numbers.
    """

    column: tuple[str, ...]
    sign: str
    constants: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ShortText:
    """The parts of a short statement.

    Attributes:
        items: columns of the answer; empty for all.
        table: the parts of its name.
        alias: of the table; empty for none.
        conditions: all must be true.
        limit: most rows; None for all.
        shape: the statement with `?` in place of every constant.
    """

    items: tuple[Item, ...]
    table: tuple[str, ...]
    alias: str
    conditions: tuple[Condition, ...]
    limit: int | None
    shape: str


class _NotShortError(Exception):
    """The statement is not short: an engine has to answer it, or to say what is wrong."""


def _expect(is_as_expected: object) -> None:
    if not is_as_expected:
        raise _NotShortError


def short_text(sql: str) -> ShortText | None:
    """Return the parts of a short statement; None for any other text."""
    try:
        return _short_text(sql)
    except _NotShortError:
        return None


def _short_text(sql: str) -> ShortText:
    tokens = _tokens(sql)
    clauses = _clauses(tokens)
    has_all = clauses["SELECT"] == [("sign", "*")]
    return ShortText(
        () if has_all else tuple(map(_item, _parted(clauses["SELECT"], ","))),
        *_table(clauses["FROM"]),
        tuple(map(_condition, _parted(clauses["WHERE"], "AND"))),
        _limit(clauses["LIMIT"]) if "LIMIT" in clauses else None,
        _shape(tokens),
    )


def _tokens(sql: str) -> list[_Token]:
    """Return the tokens of a text, without semicolons at its end."""
    _expect(len(sql) <= _LONGEST_TEXT)
    found: list[_Token] = []
    at = 0
    while (match := _TOKEN.match(sql, at)) is not None:
        kind = str(match.lastgroup)
        found.append((kind, match[kind]))
        at = match.end()
    _expect(not sql[at:].strip(_BLANKS))
    while found and found[-1] == ("sign", ";"):
        found.pop()
    return found


def _clauses(tokens: _Tokens) -> dict[str, list[_Token]]:
    """Return the tokens behind SELECT, FROM, WHERE and perhaps LIMIT, which stand in this order, once each."""
    found: dict[str, list[_Token]] = {}
    last = ""
    for token in tokens:
        word = _word(token)
        if word in _CLAUSES:
            _expect(last == _CLAUSES[word])
            last = word
            found[last] = []
        else:
            _expect(last)
            found[last].append(token)
    _expect("WHERE" in found)
    return found


def _item(tokens: _Tokens) -> Item:
    if len(tokens) > 2 and _word(tokens[-2]) == "AS":
        return Item(_path(tokens[:-2], 2), _name(tokens[-1]))
    return Item(_path(tokens, 2), "")


def _table(tokens: _Tokens) -> tuple[tuple[str, ...], str]:
    """Return the parts of the name of a table, and its alias."""
    # A name has parts and dots in turn; an alias stands behind a part.
    if len(tokens) < 2 or tokens[-2] == ("sign", "."):
        return _path(tokens, 3), ""
    before = tokens[:-2] if len(tokens) > 2 and _word(tokens[-2]) == "AS" else tokens[:-1]
    return _path(before, 3), _name(tokens[-1])


def _condition(tokens: _Tokens) -> Condition:
    for at, token in enumerate(tokens):
        sign = "IN" if _word(token) == "IN" else token[1] if token[0] == "sign" else ""
        if sign == "IN" or sign in _COMPARISONS:
            constants = _constants(tokens[at + 1 :], is_list=sign == "IN")
            return Condition(_path(tokens[:at], 2), sign, constants)
    raise _NotShortError


def _constants(tokens: _Tokens, *, is_list: bool) -> tuple[str | int, ...]:
    is_in_parentheses = len(tokens) > 2 and (tokens[0], tokens[-1]) == _PARENTHESES
    found = tuple(map(_constant, _parted(tokens[1:-1] if is_in_parentheses else tokens, ",")))
    _expect(is_in_parentheses if is_list else len(found) == 1)
    return found


def _constant(tokens: _Tokens) -> str | int:
    while len(tokens) == 3 and (tokens[0], tokens[-1]) == _PARENTHESES:
        tokens = tokens[1:-1]
    _expect(len(tokens) == 1 and tokens[0][0] in ("text", "number"))
    kind, text = tokens[0]
    return text[1:-1].replace("''", "'") if kind == "text" else int(text)


def _limit(tokens: _Tokens) -> int:
    """Return the number behind LIMIT."""
    number = _constant(tokens)
    if not isinstance(number, int) or number < 0:
        raise _NotShortError
    return number


def _path(tokens: _Tokens, longest: int) -> tuple[str, ...]:
    """Return the parts of a name with dots between them."""
    _expect(len(tokens) % 2 == 1 and all(token == ("sign", ".") for token in tokens[1::2]))
    _expect(len(tokens) < 2 * longest)
    return tuple(map(_name, tokens[::2]))


def _name(token: _Token) -> str:
    kind, text = token
    if kind == "quoted":
        return text[1:-1].replace('""', '"')
    _expect(kind == "word" and text.upper() not in KEPT)
    return text


def _word(token: _Token) -> str:
    """Return a word in capitals; empty for anything else."""
    return token[1].upper() if token[0] == "word" else ""


def _parted(tokens: _Tokens, between: str) -> Iterator[list[_Token]]:
    """Yield the tokens between words or signs."""
    part: list[_Token] = []
    for token in tokens:
        if token[0] in ("word", "sign") and token[1].upper() == between:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _shape(tokens: _Tokens) -> str:
    shown = " ".join("?" if kind in ("text", "number") else text for kind, text in tokens)
    return shown.replace(" . ", ".").replace(" ,", ",").replace("( ", "(").replace(" )", ")")


_PARENTHESES = ("sign", "("), ("sign", ")")
# A clause → the clause that stands before it.
_CLAUSES = {"SELECT": "", "FROM": "SELECT", "WHERE": "FROM", "LIMIT": "WHERE"}


_KEY = "key"
_MARK = '"'
_EQUAL = frozenset({"=", "IN"})
_OF_TEXTS = frozenset({"=", "IN", "<>"})


def short_plan(
    sql: str,
    catalog: Catalog,
    schema: str | None,
    system_tables: SystemTables | None,
    in_full: Callable[[], Plan],
) -> Plan | None:
    """Return the plan of a short statement; None if an engine must answer it, or say what is wrong.

    Args:
        sql: a statement in DuckDB's dialect.
        catalog: its databases.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        in_full: plans the statement for an engine.
    """
    try:
        text = _short_text(sql)
        resolver = Resolver(sql, catalog, schema, system_tables)
        reference = resolver.table(text.table)
        _expect(isinstance(reference.database, Database))
        statement = _Columns(text, reference).statement()
        reference = _narrowed(reference, statement)
        keys = reference.predicate.of(_KEY)
        _expect(keys is not None and len(keys) <= MOST_KEYS)
    except (_NotShortError, QueryError, CatalogError, ReaderError):
        return None
    return Plan(
        sql=sql,
        reading=UnreadStatement(in_full),
        tables=(reference,),
        assumed=resolver.assumed,
        skipped=resolver.skipped,
        short=statement,
    )


class _Columns:
    """The columns of the table of a short statement."""

    def __init__(self, text: ShortText, reference: TableReference) -> None:
        self._text = text
        self._unquoted = reference.table.unquoted
        self._schema: pa.Schema = reference.table.schema
        # A table may be called as one of its columns: `value.f0` is a field then.
        names = {name.casefold() for name in self._schema.names}
        alias = (text.alias or text.table[-1]).casefold()
        self._aliases = {alias} - names
        self._is_clear = len(names) == len(self._schema.names)

    def statement(self) -> ShortStatement:
        """Return the statement over the columns of the table."""
        _expect(self._is_clear)
        items = self._text.items or [Item((name,), "") for name in self._schema.names]
        columns = tuple(self._column(item.column) for item in items)
        _expect(all(is_kept(self._schema.field(column).type) for column in columns))
        return ShortStatement(
            columns=columns,
            names=tuple(item.alias or column for item, column in zip(items, columns, strict=True)),
            conditions=tuple(map(self._comparison, self._text.conditions)),
            limit=self._text.limit,
            shape=self._text.shape,
        )

    def _column(self, path: tuple[str, ...]) -> str:
        *alias, name = path
        is_own = not alias or alias[0].casefold() in self._aliases
        _expect(is_own and name in self._schema.names)
        return name

    def _comparison(self, condition: Condition) -> Comparison:
        name = self._column(condition.column)
        column: pa.DataType = self._schema.field(name).type
        sign = "<>" if condition.sign == "!=" else condition.sign
        is_text = pa.types.is_string(column) and sign in _OF_TEXTS
        _expect(is_text or pa.types.is_signed_integer(column))
        # An older spelling of texts, which the planner for engines knows.
        has_marks = any(str(constant).startswith(_MARK) for constant in condition.constants)
        _expect(not (name in self._unquoted and has_marks))
        values = tuple(value_of(_node(constant), column) for constant in condition.constants)
        _expect(None not in values)
        return Comparison(name, sign, values)


def _narrowed(reference: TableReference, statement: ShortStatement) -> TableReference:
    """Return the table with the columns that are read and the predicate of the conditions."""
    predicate = Predicate()
    for condition in statement.conditions:
        if condition.sign in _EQUAL:
            predicate = predicate.and_(condition.column, condition.values)
    return TableReference(
        name=reference.name,
        database=reference.database,
        table=reference.table,
        columns=tuple(
            dict.fromkeys((*statement.columns, *(condition.column for condition in statement.conditions)))
        ),
        predicate=predicate,
    )


def _node(constant: str | int) -> exp.Expr:
    if isinstance(constant, str):
        return exp.Literal.string(constant)
    number = exp.Literal.number(abs(constant))
    return exp.Neg(this=number) if constant < 0 else number
