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


def short_text(sql: str) -> ShortText | None:
    """Return the parts of a short statement; None for any other text."""
    tokens = _tokens(sql) if len(sql) <= _LONGEST_TEXT else None
    if not tokens or _word(tokens[0]) != "SELECT":
        return None
    clauses = _clauses(tokens[1:])
    if clauses is None:
        return None
    items = () if clauses["SELECT"] == [("sign", "*")] else _items(clauses["SELECT"])
    table = _table(clauses["FROM"])
    conditions = [_condition(part) for part in _parted(clauses["WHERE"], "AND")]
    known = [condition for condition in conditions if condition is not None]
    limit = _limit(clauses.get("LIMIT"))
    if items is None or table is None or len(known) < len(conditions) or limit == _NO_LIMIT:
        return None
    return ShortText(items, *table, tuple(known), limit, _shape(tokens))


def _tokens(sql: str) -> list[_Token] | None:
    """Return the tokens of a text, without semicolons at its end; None if it has others than those of the grammar."""
    found: list[_Token] = []
    at = 0
    while (match := _TOKEN.match(sql, at)) is not None:
        kind = str(match.lastgroup)
        found.append((kind, match[kind]))
        at = match.end()
    if sql[at:].strip(_BLANKS):
        return None
    while found and found[-1] == ("sign", ";"):
        found.pop()
    return found


def _clauses(tokens: _Tokens) -> dict[str, list[_Token]] | None:
    """Return the tokens behind SELECT, FROM, WHERE and LIMIT; None if they do not stand in this order, once each."""
    found: dict[str, list[_Token]] = {"SELECT": []}
    last = "SELECT"
    for token in tokens:
        word = _word(token)
        if word in _CLAUSES:
            if last != _CLAUSES[word]:
                return None
            last = word
            found[last] = []
        else:
            found[last].append(token)
    return found if "WHERE" in found else None


def _items(tokens: _Tokens) -> tuple[Item, ...] | None:
    items = []
    for part in _parted(tokens, ","):
        alias = ""
        if len(part) > 2 and _word(part[-2]) == "AS":
            alias = _name(part[-1]) or ""
            if not alias:
                return None
            part = part[:-2]
        column = _path(part, 2)
        if column is None:
            return None
        items.append(Item(column, alias))
    return tuple(items)


def _table(tokens: _Tokens) -> tuple[tuple[str, ...], str] | None:
    """Return the parts of the name of a table, and its alias."""
    path = _path(tokens, 3)
    if path is not None:
        return path, ""
    alias = _name(tokens[-1]) if len(tokens) > 1 else None
    before = tokens[:-2] if len(tokens) > 2 and _word(tokens[-2]) == "AS" else tokens[:-1]
    path = _path(before, 3)
    return None if path is None or not alias else (path, alias)


def _condition(tokens: _Tokens) -> Condition | None:
    for at, token in enumerate(tokens):
        sign = "IN" if _word(token) == "IN" else token[1] if token[0] == "sign" else ""
        if sign == "IN" or sign in _COMPARISONS:
            column = _path(tokens[:at], 2)
            constants = _constants(tokens[at + 1 :], is_list=sign == "IN")
            return None if column is None or constants is None else Condition(column, sign, constants)
    return None


def _constants(tokens: _Tokens, *, is_list: bool) -> tuple[str | int, ...] | None:
    is_in_parentheses = len(tokens) > 2 and (tokens[0], tokens[-1]) == (("sign", "("), ("sign", ")"))
    if is_list and not is_in_parentheses:
        return None
    inside = tokens[1:-1] if is_in_parentheses else tokens
    found = [_constant(part) for part in _parted(inside, ",")]
    known = tuple(constant for constant in found if constant is not None)
    return known if len(known) == len(found) and (is_list or len(found) == 1) else None


def _constant(tokens: _Tokens) -> str | int | None:
    while len(tokens) == 3 and (tokens[0], tokens[-1]) == (("sign", "("), ("sign", ")")):
        tokens = tokens[1:-1]
    if len(tokens) != 1:
        return None
    kind, text = tokens[0]
    if kind == "text":
        return text[1:-1].replace("''", "'")
    return int(text) if kind == "number" else None


def _limit(tokens: _Tokens | None) -> int | None:
    """Return the number behind LIMIT; None if there is no LIMIT, and -1 if something else stands there."""
    if tokens is None:
        return None
    number = _constant(tokens)
    return number if isinstance(number, int) and number >= 0 else _NO_LIMIT


def _path(tokens: _Tokens, longest: int) -> tuple[str, ...] | None:
    """Return the parts of a name with dots between them; None if the tokens are no such name."""
    names = [_name(token) for token in tokens[::2]]
    known = tuple(name for name in names if name)
    is_path = len(tokens) % 2 == 1 and all(token == ("sign", ".") for token in tokens[1::2])
    return known if is_path and len(known) == len(names) <= longest else None


def _name(token: _Token) -> str | None:
    kind, text = token
    if kind == "quoted":
        return text[1:-1].replace('""', '"')
    return text if kind == "word" and text.upper() not in KEPT else None


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


_NO_LIMIT = -1
# A clause → the clause that stands before it.
_CLAUSES = {"FROM": "SELECT", "WHERE": "FROM", "LIMIT": "WHERE"}


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
    text = short_text(sql)
    if text is None:
        return None
    resolver = Resolver(sql, catalog, schema, system_tables)
    try:
        reference = resolver.table(text.table)
        if not isinstance(reference.database, Database):
            return None
        statement = _Columns(text, reference).statement()
        if statement is None:
            return None
        reference = _narrowed(reference, statement)
        keys = reference.predicate.of(_KEY)
        if keys is None or len(keys) > MOST_KEYS:
            return None
    except (QueryError, CatalogError, ReaderError):
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

    def statement(self) -> ShortStatement | None:
        """Return the statement over the columns of the table; None if it is not short for certain."""
        items = self._text.items or [Item((name,), "") for name in self._schema.names]
        columns = [self._column(item.column) for item in items]
        known = tuple(column for column in columns if column is not None)
        found = [self._comparison(condition) for condition in self._text.conditions]
        conditions = tuple(condition for condition in found if condition is not None)
        if not self._is_clear or len(known) < len(columns) or len(conditions) < len(found):
            return None
        if not all(is_kept(self._schema.field(column).type) for column in known):
            return None
        names = tuple(item.alias or column for item, column in zip(items, known, strict=True))
        return ShortStatement(
            columns=known, names=names, conditions=conditions, limit=self._text.limit, shape=self._text.shape
        )

    def _column(self, path: tuple[str, ...]) -> str | None:
        *alias, name = path
        is_own = not alias or alias[0].casefold() in self._aliases
        return name if is_own and name in self._schema.names else None

    def _comparison(self, condition: Condition) -> Comparison | None:
        name = self._column(condition.column)
        if name is None:
            return None
        column: pa.DataType = self._schema.field(name).type
        sign = "<>" if condition.sign == "!=" else condition.sign
        is_text = pa.types.is_string(column)
        if not (is_text and sign in _OF_TEXTS) and not pa.types.is_signed_integer(column):
            return None
        # An older spelling of texts, which the planner for engines knows.
        if name in self._unquoted and any(
            str(constant).startswith(_MARK) for constant in condition.constants
        ):
            return None
        values = [value_of(node, column) for node in map(_node, condition.constants)]
        known = tuple(value for value in values if value is not None)
        return Comparison(name, sign, known) if len(known) == len(values) else None


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
