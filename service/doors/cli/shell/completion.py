"""What may stand at the cursor: commands and their values, keywords, databases, tables, columns of the tables in the statement.

| before the cursor | completes |
|---|---|
| `.mo`, `.mode c`, `.check --b` | commands, what their argument may be, options; files |
| `FROM agg`, `DESCRIBE agg`, `JOIN "win-` | tables and databases |
| `"chk-42".agg` | tables of that database |
| `a.va`, `aggregate.va` | columns of that table |
| `value.f`, `a.value.f` | fields of that struct |
| `SELECT va` … `FROM aggregate` | columns of the tables of the statement, keywords, functions |

Names come from the catalog; what cannot be read has none. They stand in quotation marks where they need them. Keywords follow the case in
which the user began them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from catalog import Catalog, CatalogError
from catalog.table import Table
from readers import ReaderError, sql_type
from service.doors.cli.parser import takes_path
from service.doors.cli.shell.console import Console
from service.doors.cli.shell.dotcommands import COMMANDS
from service.doors.cli.shell.statements import command_of, statements_of
from service.doors.cli.shell.taskcommands import parser_of
from service.query.encode import printable
from service.query.sql.schemas import (
    INFORMATION_SCHEMA,
    as_identifier,
    information_schema_table,
    listed_names,
    schema_called,
)

_LISTINGS = ("columns", "schemata", "tables")
_MOST_TABLES_REMEMBERED = 1000
_NO_COLUMNS = pa.schema([])
_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>'(?:[^']|'')*(?:'|\Z))|(?P<quoted>"(?:[^"]|"")*(?:"|\Z))"""
    r"""|(?P<word>[^\W\d][\w$]*)|(?P<other>\d[\w.]*|.)""",
    re.DOTALL,
)
# As far as a name goes that needs quotation marks and has none yet: win-session-list, chk-42.
_BARE = re.compile(r"[\w$@+-]+\Z")
_PATHS = frozenset({".read", ".output", ".once"})


class Names:
    """The names of a console.

    Args:
        console: has the catalog, and the database of tables that name none.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._schemas: dict[tuple[str, str], pa.Schema] = {}

    @property
    def databases(self) -> Sequence[str]:
        """All databases, aliases, histories, and the schemas that list them."""
        try:
            return [*listed_names(self._catalog), INFORMATION_SCHEMA]
        except (CatalogError, ReaderError):
            return []

    def tables(self, database: str | None = None) -> Sequence[str]:
        """Return the tables of a database; of that of the console for None."""
        name = self._console.view.database if database is None else database
        if name is None:
            return []
        if name.casefold() == INFORMATION_SCHEMA:
            return _LISTINGS
        try:
            return schema_called(self._catalog, name).database.tables
        except (CatalogError, ReaderError):
            return []

    def fields(self, database: str | None, table: str, path: Sequence[str] = ()) -> Sequence[tuple[str, str]]:
        """Return the columns of a table, or the fields of the struct that a path leads to, with their types; none if there are none.

        Args:
            database, table: the table.
            path: a column, and fields in fields, in any case.
        """
        inside: Iterable[pa.Field] = self._schema(database, table)
        for name in path:
            found = next((field for field in inside if field.name.casefold() == name.casefold()), None)
            if found is None or not pa.types.is_struct(found.type):
                return []
            inside = found.type
        return [(field.name, sql_type(field.type)) for field in inside]

    def _schema(self, database: str | None, table: str) -> pa.Schema:
        """Return the columns of a table; none if there is no such table."""
        name = self._console.view.database if database is None else database
        if name is None:
            return _NO_COLUMNS
        known = name.casefold(), table.casefold()
        if known not in self._schemas:
            if len(self._schemas) >= _MOST_TABLES_REMEMBERED:
                self._schemas.clear()
            try:
                self._schemas[known] = self._table(name, table).schema
            except (CatalogError, ReaderError):
                return _NO_COLUMNS
        return self._schemas[known]

    @property
    def _catalog(self) -> Catalog:
        return self._console.catalog

    def _table(self, database: str, table: str) -> Table:
        if database.casefold() == INFORMATION_SCHEMA:
            return information_schema_table(self._catalog, table)
        return schema_called(self._catalog, database).database.table(table)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def name(self) -> str:
        """The name that it stands for."""
        if self.kind != "quoted":
            return self.text
        inner = self.text[1:-1] if len(self.text) > 1 and self.text.endswith('"') else self.text[1:]
        return inner.replace('""', '"')

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        return self.kind == "quoted" or (self.kind == "word" and self.text.upper() not in _NO_NAMES)


@dataclass(frozen=True, slots=True)
class _Source:
    """A table that a statement reads."""

    database: str | None
    table: str
    alias: str

    def inside(self, path: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield the paths from this table that a name with dots may mean: with the table in front, or without."""
        yield path
        first, *rest = map(str.casefold, path)
        if rest and first in (self.alias.casefold(), self.table.casefold()):
            yield path[1:]
        is_whole = rest[:1] == [self.table.casefold()] and first == (self.database or "").casefold()
        if is_whole and len(rest) > 1:
            yield path[2:]


class ConsoleCompleter(Completer):
    """Completes statements and commands over the savepoints of a console.

    Args:
        console: the console.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._names = Names(console)
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return what may stand at the cursor; see prompt_toolkit."""
        before = document.text_before_cursor
        if command_of(before) is not None:
            return self._of_command(before, complete_event)
        rest = statements_of(before).rest
        after = statements_of(document.text_after_cursor)
        behind = after.ended[0].text if after.ended else after.rest.text
        return self._of_statement(rest.text, behind)

    def _of_command(self, before: str, event: CompleteEvent) -> Iterator[Completion]:
        line = before.lstrip()
        name, blank, typed = line.partition(" ")
        if not blank:
            for known, one in COMMANDS.items():
                if known.startswith(line.casefold()):
                    yield Completion(known, -len(line), display_meta=one.meaning)
            return
        typed = typed.lstrip()
        command = COMMANDS.get(name.casefold())
        if command is None:
            return
        if command.name in _PATHS:
            yield from self._paths.get_completions(Document(typed), event)
            return
        if command.is_task:
            yield from self._of_task(command.name[1:], typed, event)
            return
        values: Sequence[str] = command.values
        if command.name == ".database":
            values = self._names.databases
        elif command.name in (".schema", ".tables"):
            values = self._names.tables()
        elif command.name == ".help":
            values = list(COMMANDS)
        yield from _values(values, typed)

    def _of_task(self, name: str, typed: str, event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the last of the arguments of a use case may be."""
        *before, last = re.split(r"\s+", typed)
        options = {
            flag: one for one in parser_of(self._console, name)._actions for flag in one.option_strings
        }
        previous = options.get(before[-1]) if before else None
        if previous is not None and previous.nargs != 0:
            if previous.choices is not None:
                yield from _values([str(one) for one in previous.choices], last)
            elif takes_path(previous):
                yield from self._paths.get_completions(Document(last), event)
        elif last.startswith("-"):
            yield from _values([flag for flag in options if flag.startswith("--")], last)
        elif name == "diff":
            yield from _values(self._names.databases, last)

    def _of_statement(self, before: str, behind: str) -> Iterator[Completion]:
        tokens = _tokens(before)
        last = tokens[-1] if tokens else None
        if last is not None and last.kind == "text" and not (len(last.text) > 1 and last.text.endswith("'")):
            return
        typed = ""
        is_closed = (
            last is not None and last.kind == "quoted" and len(last.text) > 1 and last.text.endswith('"')
        )
        if (
            last is not None
            and last.kind in ("word", "quoted")
            and not is_closed
            and not before[-1:].isspace()
        ):
            typed = last.text
            tokens = tokens[:-1]
        path: list[str] = []
        while len(tokens) >= 2 and tokens[-1].text == "." and tokens[-2].kind in ("word", "quoted"):
            path.insert(0, tokens[-2].name)
            tokens = tokens[:-2]
        # In what has no quotation mark yet, a hyphen may be part of the name.
        bare = _BARE.search(before)
        wide = bare[0] if bare and not typed.startswith('"') else typed
        sources = list(_sources([*_tokens(before), *_tokens(behind)]))
        if path:
            yield from self._qualified(path, typed, sources)
            return
        outer = [token for token in tokens if token.start < len(before) - len(wide)]
        if _wants_table(outer):
            yield from _matching(self._names.tables(), typed, wide, "table")
            yield from _matching(self._names.databases, typed, wide, "database", ".")
            return
        if outer and outer[-1].is_word("USE"):
            yield from _matching(self._names.databases, typed, wide, "database")
            return
        for source in sources:
            for column, kind in self._names.fields(source.database, source.table):
                yield from _matching([column], typed, wide, kind)
        for source in sources:
            if source.alias:
                yield from _matching([source.alias], typed, typed, "alias", ".")
        if not typed.startswith('"'):
            yield from _words(typed, tokens)

    def _qualified(self, path: Sequence[str], typed: str, sources: Sequence[_Source]) -> Iterator[Completion]:
        """Yield what may follow a name and a dot: columns of a table, fields of a struct, tables of a database."""
        *outer, last = path
        for source in sources:
            names = (source.alias, source.table) if not outer else (source.table,)
            if last.casefold() in map(str.casefold, names):
                for column, kind in self._names.fields(source.database, source.table):
                    yield from _matching([column], typed, typed, kind)
                return
        for source in sources:
            for rest in source.inside(path):
                for field, kind in self._names.fields(source.database, source.table, rest):
                    yield from _matching([field], typed, typed, kind)
        yield from _matching(self._names.tables(last), typed, typed, "table")


def _values(values: Iterable[str], typed: str) -> Iterator[Completion]:
    """Yield the values that begin as what is typed, in quotation marks where they need them."""
    bare = typed.lstrip('"')
    for value in values:
        if value.casefold().startswith(bare.casefold()):
            shown = f'"{value}"' if re.search(r"[\s'\"\\]", value) else value
            yield Completion(shown, -len(typed), display=printable(value))


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(str(found.lastgroup), found[0], found.start())
        for found in _TOKEN.finditer(text)
        if found.lastgroup != "blank"
    ]


def _wants_table(tokens: Sequence[_Token]) -> bool:
    """Return whether a table stands behind these tokens."""
    if not tokens:
        return False
    if tokens[-1].is_word(*_BEFORE_TABLES):
        return True
    if tokens[-1].text != ",":
        return False
    # A comma behind FROM: no other clause has begun since.
    clauses = [token.text.upper() for token in tokens if token.is_word(*_CLAUSES)]
    return clauses[-1:] == ["FROM"]


def _sources(tokens: Sequence[_Token]) -> Iterator[_Source]:
    """Yield the tables that a statement names behind FROM, JOIN and the like."""
    at = 0
    while at < len(tokens):
        is_before = tokens[at].is_word(*_BEFORE_TABLES)
        at += 1
        while is_before and at < len(tokens) and tokens[at].is_name:
            path = [tokens[at].name]
            at += 1
            while (
                at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].kind in ("word", "quoted")
            ):
                path.append(tokens[at + 1].name)
                at += 2
            if at < len(tokens) and tokens[at].is_word("AS"):
                at += 1
            alias = ""
            if at < len(tokens) and tokens[at].is_name:
                alias = tokens[at].name
                at += 1
            yield _Source(path[-2] if len(path) > 1 else None, path[-1], alias)
            is_before = at < len(tokens) and tokens[at].text == ","
            at += is_before


def _matching(
    names: Iterable[str], typed: str, wide: str, meaning: str, suffix: str = ""
) -> Iterator[Completion]:
    """Yield the names that begin as what is typed, in quotation marks where they need them.

    Args:
        names: the names.
        typed: the word before the cursor, with its quotation mark.
        wide: the same, with what may belong to a name that needs quotation marks.
        meaning: what they are.
        suffix: what follows them.
    """
    is_open = typed.startswith('"')
    begun = typed[1:].replace('""', '"') if is_open else typed
    for name in names:
        folded = name.casefold()
        length = len(typed) if folded.startswith(begun.casefold()) else None
        if wide and not is_open and folded.startswith(wide.casefold()):
            length = len(wide)
        if length is None:
            continue
        text = as_identifier(name)
        if is_open and not text.startswith('"'):
            text = f'"{text}"'
        yield Completion(text + suffix, -length, display=printable(name), display_meta=meaning)


def _words(typed: str, tokens: Sequence[_Token]) -> Iterator[Completion]:
    """Yield the keywords and functions that begin as what is typed."""
    folded = typed.upper()
    is_low = typed.islower()
    if tokens and tokens[-1].is_word("SHOW"):
        words: Sequence[str] = _SHOWN
    else:
        words = _FIRST if not tokens else _KEYWORDS
    for word in words:
        if word.startswith(folded):
            yield Completion(word.lower() if is_low else word, -len(typed), display_meta="keyword")
    if tokens and typed and not tokens[-1].is_word("SHOW"):
        for name in _FUNCTIONS:
            if name.startswith(typed.lower()):
                yield Completion(f"{name}(", -len(typed), display_meta="function")


_BEFORE_TABLES = ("FROM", "JOIN", "DESCRIBE", "DESC", "SUMMARIZE", "TABLE")
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "USING", "QUALIFY", "WITH")
_FIRST = (
    *("DESCRIBE", "EXPLAIN", "EXPLAIN ANALYZE", "FROM", "SELECT", "SHOW", "SUMMARIZE", "USE", "VALUES"),
    "WITH",
)
_SHOWN = (
    *("ALL TABLES", "COLUMNS FROM", "CREATE TABLE", "DATABASES", "SCHEMAS", "TABLES", "TABLES FROM"),
    "TABLES LIKE",
)
_KEYWORDS = (
    *("ALL", "AND", "ANTI JOIN", "ANY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CROSS JOIN", "DESC"),
    *("DISTINCT", "ELSE", "END", "EXCEPT", "EXCLUDE", "EXISTS", "FALSE", "FILTER", "FIRST", "FROM"),
    *("FULL JOIN", "GROUP BY", "HAVING", "ILIKE", "IN", "INNER JOIN", "INTERSECT", "INTERVAL", "IS", "JOIN"),
    *("LAST", "LATERAL", "LEFT JOIN", "LIKE", "LIMIT", "NOT", "NULL", "NULLS", "OFFSET", "ON", "OR"),
    *("ORDER BY", "OVER", "PARTITION BY", "QUALIFY", "RECURSIVE", "REPLACE", "RIGHT JOIN", "ROWS", "SELECT"),
    *("SEMI JOIN", "TABLE", "THEN", "TRUE", "TRY_CAST", "UNION", "UNION ALL", "UNNEST", "USING", "VALUES"),
    *("WHEN", "WHERE", "WINDOW", "WITH"),
)
_FUNCTIONS = (
    *("abs", "any_value", "approx_count_distinct", "arg_max", "arg_min", "avg", "cardinality", "coalesce"),
    *("concat", "count", "count_if", "date_diff", "date_trunc", "diff", "element_at", "epoch_ms", "first"),
    *("greatest", "hash", "histogram", "json_extract", "json_extract_string", "last", "least", "len"),
    *("length", "list", "list_contains", "lower", "map_entries", "map_keys", "map_values", "max", "median"),
    *("min", "mode", "quantile_cont", "regexp_extract", "regexp_matches", "replace", "round", "row_number"),
    *("split_part", "starts_with", "stddev", "string_agg", "strlen", "substring", "sum", "to_timestamp"),
    *("trim", "typeof", "unnest", "upper", "variance"),
)
# Words that are no names, where a table or an alias may stand.
_NO_NAMES = frozenset(
    word
    for words in (
        *_KEYWORDS,
        *_FIRST,
        *_CLAUSES,
        *("LEFT", "RIGHT", "FULL", "NATURAL", "ASOF", "SET", "CREATE", "SHOW", "LIKE"),
    )
    for word in words.split()
)
