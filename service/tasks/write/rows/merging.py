"""Which clause of a MERGE each row takes.

The source, the condition of ON and those of the clauses run once each, and what they yield is kept: `random()`, `now()` or a LIMIT without
an order would yield something else for each clause, and rows would fall between the clauses.

| table | rows |
|---|---|
| `_target` | the table, numbered |
| `_source` | the source, numbered |
| `_matched` | pairs of a row of the table and one of the source, with the clause of each, or NULL |
| `_unmatched` | rows of the source without a pair, with their clauses |
| `_left` | rows of the table without a pair, with their clauses |
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from catalog import Table
from readers import ROW
from service.base.errors import InvalidQueryError
from service.query.sql.text import parsed, quoted
from service.tasks.write.changes import SOURCE, TARGET, Composition, ScriptContext, alias_of, select_places
from service.tasks.write.statements.script import Action, Match, Merge
from writers import GROUP

_MATCHED, _UNMATCHED, _LEFT = "_matched", "_unmatched", "_left"
_CLAUSE = "_clause"


class MergeChoices:
    """Which clause of a MERGE each row takes, and SELECTs of the rows of a clause.

    Args:
        context: of the script.
        statement: the MERGE.
        target: its table, numbered.

    Attributes:
        tables: those that the SELECTs read.

    Raises:
        QueryError: the source is not one table or query, or several of its rows match a row of the table.
    """

    def __init__(self, context: ScriptContext, statement: Merge, target: Table) -> None:
        self._context = context
        self._statement = statement
        self._excluded = _alias_of_source(statement)
        self._alias = alias_of(statement)
        self._places = f"{self._alias}.{GROUP}, {self._alias}.{ROW}"
        self._from_target = f" FROM {TARGET} AS {self._alias}"
        self._from_source = f" FROM {SOURCE} AS {self._excluded}"
        with context.select(Composition("SELECT * FROM ", statement.source)) as reader:
            names = reader.schema.names
            self._number = _free_name("_source_row", names)
            source = context.states.stored(reader, names, number=self._number)
        self.tables: dict[str, Table] = {TARGET: target, SOURCE: source}
        self._keep_matched()
        self._keep_unmatched()
        self._keep_left()
        self._check_matched_once()

    def changed(self, number: int, compared: Sequence[int]) -> Composition:
        """Return a SELECT of the places and new values of the rows of a clause; see `select_places`."""
        clause = self._statement.clauses[number]
        chosen = _CHOICES[clause.match]
        select = select_places(self._statement, clause.assignments, compared).add(self._from_target)
        select.add(f" JOIN {chosen} ON {self._is_same_place(chosen)}")
        if clause.match is Match.MATCHED:
            select.add(
                f" JOIN {SOURCE} AS {self._excluded} ON {self._excluded}.{self._number} = {chosen}.{self._number}"
            )
        return select.add(f" WHERE {chosen}.{_CLAUSE} = {number}")

    def added(self, number: int) -> Composition:
        """Return a SELECT of the rows that a clause adds."""
        values: str | None = self._statement.clauses[number].values
        if values is None:
            names = [name for name in self.tables[SOURCE].schema.names if name != self._number]
            values = ", ".join(f"{self._excluded}.{quoted(name)}" for name in names)
        select = Composition("SELECT ").add(values)
        select.add(
            f"{self._from_source} JOIN {_UNMATCHED} ON {_UNMATCHED}.{self._number} = {self._excluded}.{self._number}"
        )
        return select.add(f" WHERE {_UNMATCHED}.{_CLAUSE} = {number}")

    def count(self, number: int) -> int:
        """Return how many rows take a clause."""
        chosen = _CHOICES[self._statement.clauses[number].match]
        select = Composition(f"SELECT count(*) FROM {chosen} WHERE {_CLAUSE} = {number}")
        return int(self._context.read(select, self.tables).column(0)[0].as_py())

    # ---- tables ----

    def _keep_matched(self) -> None:
        columns = f"{self._places}, {self._excluded}.{self._number}"
        rows = Composition(self._from_target, f" JOIN {SOURCE} AS {self._excluded} ON ")
        self._keep(Match.MATCHED, columns, rows.expression(self._statement.condition))

    def _keep_unmatched(self) -> None:
        pair = f"SELECT 1 FROM {_MATCHED} WHERE {_MATCHED}.{self._number} = {self._excluded}.{self._number}"
        rows = Composition(self._from_source, f" WHERE NOT EXISTS ({pair})")
        self._keep(Match.NOT_MATCHED, f"{self._excluded}.{self._number}", rows)

    def _keep_left(self) -> None:
        pair = f"SELECT 1 FROM {_MATCHED} WHERE {self._is_same_place(_MATCHED)}"
        rows = Composition(self._from_target, f" WHERE NOT EXISTS ({pair})")
        self._keep(Match.NOT_MATCHED_BY_SOURCE, self._places, rows)

    def _keep(self, match: Match, columns: str, rows: Composition) -> None:
        """Keep rows with the first clause that holds for each."""
        clauses = [(number, one) for number, one in enumerate(self._statement.clauses) if one.match is match]
        # Pairs without a clause tell which rows have none.
        if not clauses and match is not Match.MATCHED:
            return
        select = Composition(f"SELECT {columns}, CASE WHEN FALSE THEN -1")
        for number, clause in clauses:
            select.add(" WHEN ").expression(clause.condition or "TRUE").add(f" THEN {number}")
        select.add(f" END AS {_CLAUSE}", *rows.pieces)
        with self._context.select(select, self.tables) as reader:
            self.tables[_CHOICES[match]] = self._context.states.stored(reader, reader.schema.names)

    def _check_matched_once(self) -> None:
        """Refuse a row that several rows of the source match, for it has no one new value.

        Raises:
            QueryError: there is such a row.
        """
        acting = [
            str(number)
            for number, one in enumerate(self._statement.clauses)
            if one.match is Match.MATCHED and one.action is not Action.NOTHING
        ]
        if not acting:
            return
        select = Composition(
            f"SELECT {GROUP}, {ROW} FROM {_MATCHED} WHERE {_CLAUSE} IN ({', '.join(acting)}) "
            "GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
        )
        if self._context.read(select, self.tables).num_rows:
            raise InvalidQueryError(
                f"expected at most one row of the source for each row of {self._statement.name}, found several",
            )

    def _is_same_place(self, table: str) -> str:
        return f"({table}.{GROUP} = {self._alias}.{GROUP} AND {table}.{ROW} = {self._alias}.{ROW})"


def _alias_of_source(statement: Merge) -> str:
    """Return the name by which the expressions of a MERGE refer to its source.

    Raises:
        InvalidQueryError: it is a join, of which each table has a name.
    """
    tree = parsed(f"SELECT * FROM {statement.source}")
    item = tree.args["from_"].this
    is_join = bool(tree.args.get("joins")) or (
        isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table) and not item.alias
    )
    if is_join:
        raise InvalidQueryError(
            "expected one table, or one query in parentheses, as the source of MERGE, found a join",
            hint="write USING (SELECT … FROM … JOIN …) AS s",
        )
    return quoted(item.alias_or_name or SOURCE)


def _free_name(name: str, taken: Sequence[str]) -> str:
    folded = {one.casefold() for one in taken}
    while name in folded:
        name += "_"
    return name


_CHOICES = {Match.MATCHED: _MATCHED, Match.NOT_MATCHED: _UNMATCHED, Match.NOT_MATCHED_BY_SOURCE: _LEFT}
