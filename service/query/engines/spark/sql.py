"""The query of a `Plan`, in DuckDB's SQL → a query for Spark that means the same.

sqlglot qualifies the names. Then each query is translated from its FROM outwards, so that every expression has its type in
DuckDB. Clauses and joins that are not listed here are refused, as expressions are in `expressions/`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from readers import sql_type
from service.base.errors import InvalidQueryError, NotOnSparkError
from service.query.engines.spark.expressions import aggregates, casts, conditions, terms, texts
from service.query.engines.spark.expressions.aggregates import AVERAGE, has_aggregate, has_map, is_narrow
from service.query.engines.spark.expressions.conditions import check_order, ordered, same_order, truth
from service.query.engines.spark.expressions.terms import (
    TEXT,
    Handler,
    as_type,
    cast,
    is_whole,
    refuse_if,
    translate,
)
from service.query.engines.spark.partial import (
    MergedAvg,
    PartialQuery,
    PartialSelect,
    divided,
    merged_by_duckdb,
    partial_select,
    row_by_row,
)
from service.query.engines.spark.types import HUGEINT, Term, common_type
from service.query.sql.text import quoted

Columns = list[tuple[str, pa.DataType]]

# The clauses that are translated, by sqlglot's names; a query with another one is refused.
_SELECT = frozenset({
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit", "offset", "distinct",
    "with_", "kind",
})  # fmt: skip
_SET = frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"})
_GROUP = frozenset({"expressions", "rollup", "cube", "grouping_sets", "all"})
_SIDES = frozenset({"", "LEFT", "RIGHT", "FULL"})
_KINDS = frozenset({"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"})


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A query for Spark.

    Attributes:
        sql: its text.
        types: types of its columns in DuckDB.
        has_average: whether it calls `AVERAGE`.
        columns: for each table of the plan, by its name there, the columns to read, in order; at least one.
        partials: for each table whose rows executors aggregate, by its name, the query that they run.
        merged: the rest of the query in DuckDB's SQL, over the answers of `partials` as tables named by `partial_name`; None
            if Spark has to compute it.
        computed: the whole query in DuckDB's SQL, over the rows of its only table as `partial.ROWS`, to run in each task;
            empty if a row of the answer depends on several rows.
    """

    sql: str
    types: tuple[pa.DataType, ...]
    has_average: bool
    columns: Mapping[str, tuple[str, ...]]
    partials: Mapping[str, PartialQuery]
    merged: exp.Query | None
    computed: str


def view_name(number: int) -> str:
    """Return the name on Spark of the table of a plan with this number, from 1."""
    return f"savepoint_table_{number}"


def partial_name(table: str) -> str:
    """Return the name of the table that holds the partial aggregates of another."""
    return f"{table} in part"


def spark_query(
    query: exp.Query,
    schemas: Mapping[str, pa.Schema],
    scanned: Collection[str] = (),
    *,
    in_part: bool = True,
) -> SparkQuery:
    """Translate a query.

    Args:
        query: the query of a plan; it is not changed.
        schemas: schemas of the plan's tables, by name, in their order.
        scanned: the tables that executors read.
        in_part: executors may aggregate rows before Spark takes them.

    Raises:
        NotOnSparkError: Spark cannot answer it as DuckDB does.
        InvalidQueryError: a name in it means nothing.
    """
    types: dict[str, object] = {
        quoted(name): {column.name: sql_type(column.type) for column in schema}
        for name, schema in schemas.items()
    }
    try:
        known = MappingSchema(types, dialect="duckdb")
        qualified = qualify(query.copy(), schema=known, dialect="duckdb")
    except SqlglotError as error:
        raise InvalidQueryError(str(error).partition("\n")[0]) from error
    translator = _Translator(
        {name.casefold(): schema for name, schema in schemas.items()},
        {name.casefold(): view_name(number) for number, name in enumerate(schemas, start=1)},
        {name.casefold() for name in scanned if in_part},
    )
    # Copied now, because `merged` below changes the query.
    computed = (
        row_by_row(qualified)
        if len(scanned) == len(schemas) == 1 and in_part and isinstance(qualified, exp.Select)
        else None
    )
    translated, columns = translator.query(qualified, _Names())
    # An expression that sqlglot cannot write for Spark is an error, and never left out.
    text = translated.sql("spark", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    found = ((name, translator.partials.get(name.casefold())) for name in schemas)
    partials = {name: partial for name, partial in found if partial is not None}
    return SparkQuery(
        sql=text,
        types=tuple(kind for _, kind in columns),
        has_average=any(call.name == AVERAGE for call in translated.find_all(exp.Anonymous)),
        columns={name: translator.used(name) for name in schemas},
        partials=partials,
        merged=translator.merged(qualified) if partials and partials.keys() >= set(scanned) else None,
        computed=computed.sql("duckdb", comments=False) if computed is not None else "",
    )


@dataclass(slots=True)
class _Names:
    """The meaning of names at one place of a query: the `Scope` of `expressions/terms.py`.

    Attributes:
        translator: the translation of the statement.
        tables: alias → column → (name, type); aliases and columns are casefolded.
        origins: alias → name of the table in the plan.
        common: the columns of the queries in WITH, by name.
        aliases: types of the columns of the answer by name, for ORDER BY.
        kinds: types of the columns of the answer by position.
        outer: the names around a subquery.
        divided: the values whose average is sum / count in this SELECT.
        is_correlated: whether a name was found around the subquery.
    """

    translator: _Translator | None = None
    tables: dict[str, dict[str, tuple[str, pa.DataType]]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    common: dict[str, Columns] = field(default_factory=dict)
    aliases: dict[str, pa.DataType] = field(default_factory=dict)
    kinds: list[pa.DataType] = field(default_factory=list)
    outer: _Names | None = None
    divided: Collection[exp.Expr] = ()
    is_correlated: bool = False

    def column(self, node: exp.Column) -> Term:
        """Return the column that a name means.

        Raises:
            NotOnSparkError: no column, or several, have the name.
        """
        alias, name = node.table.casefold(), node.name.casefold()
        if not alias and name in self.aliases:
            return Term(exp.column(node.name, quoted=True), self.aliases[name])
        scope: _Names | None = self
        while scope is not None:
            if name in scope.tables.get(alias, {}):
                written, kind = scope.tables[alias][name]
                self.is_correlated = self.is_correlated or scope is not self
                if scope.translator is not None and alias in scope.origins:
                    scope.translator.use(scope.origins[alias], written)
                return Term(exp.column(written, node.table, quoted=True), kind)
            scope = scope.outer
        raise NotOnSparkError(f"the name {node.name!r}")

    def subquery(self, query: exp.Query) -> tuple[exp.Query, Columns]:
        """Translate a query inside an expression; return it and its columns."""
        assert self.translator is not None
        return self.translator.query(query, self)

    def handler(self, kind: type[exp.Expr]) -> Handler | None:
        """Return the handler of expressions of this kind."""
        return _HANDLERS.get(kind)


class _Translator:
    """The translation of one statement.

    Attributes:
        partials: for each table whose rows executors aggregate, the query that they run.
    """

    def __init__(
        self, schemas: Mapping[str, pa.Schema], views: Mapping[str, str], scanned: Collection[str]
    ) -> None:
        self.partials: dict[str, PartialQuery] = {}
        self._merges: list[tuple[exp.Select, exp.Select | None]] = []
        self._schemas = dict(schemas)
        self._views = dict(views)
        self._scanned = scanned
        self._used: dict[str, set[str]] = {name: set() for name in schemas}

    def use(self, table: str, column: str) -> None:
        """Note that a column of a table is to be read."""
        self._used[table].add(column)

    def used(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table to read, in its order; the last one, which is cheap, if the query needs none."""
        schema, used = self._schemas[table.casefold()], self._used[table.casefold()]
        return tuple(name for name in schema.names if name in used) or (schema.names[-1],)

    def query(self, query: exp.Expr, outer: _Names) -> tuple[exp.Query, Columns]:
        """Translate a query of any kind; return it and its columns."""
        if isinstance(query, exp.Subquery):
            _knows(query, frozenset({"this", "alias"}))
            return self.query(query.this, outer)
        # A copy: queries of WITH are known in this query and below only.
        common = dict(outer.common)
        with_ = self._with(query, outer, common)
        scope = _Names(translator=self, common=common, outer=outer if outer.tables or outer.outer else None)
        if isinstance(query, exp.Select):
            made, columns = self._select(query, scope)
        elif isinstance(query, exp.SetOperation):
            made, columns = self._set_operation(query, scope)
        else:
            raise NotOnSparkError(query.key.upper())
        if with_ is not None:
            made.set("with_", with_)
        return made, columns

    def _with(self, query: exp.Expr, outer: _Names, common: dict[str, Columns]) -> exp.With | None:
        with_ = query.args.get("with_")
        if with_ is None:
            return None
        refuse_if(with_.args.get("recursive"), "WITH RECURSIVE")
        made = []
        for item in with_.expressions:
            alias = item.args["alias"]
            inner, columns = self.query(item.this, _Names(translator=self, common=dict(common)))
            names = [name.name for name in alias.args.get("columns") or ()]
            columns = _renamed(columns, names)
            common[alias.name.casefold()] = columns
            table = exp.TableAlias(
                this=exp.to_identifier(alias.name, quoted=True),
                columns=[exp.to_identifier(name, quoted=True) for name, _ in columns],
            )
            made.append(exp.CTE(this=inner, alias=table))
        return exp.With(expressions=made)

    def _select(self, query: exp.Select, scope: _Names) -> tuple[exp.Query, Columns]:
        _check_having(query)
        # The SELECT is translated twice if it is split: first as a whole, which gives types and refuses what Spark cannot do.
        own = _Names(translator=self, common=scope.common, outer=scope.outer)
        whole = self._whole_select(query, own)
        if own.is_correlated and next(query.find_all(exp.Avg), None) is not None:
            raise NotOnSparkError("an average in a correlated subquery")
        merged = self._merged_select(query, own)
        return whole if merged is None else self._whole_select(merged, scope)

    def _merged_select(self, query: exp.Select, scope: _Names) -> exp.Select | None:
        """Return a SELECT over partial aggregates of its only table; None if it is not split.

        Args:
            query: the SELECT, which could be translated as a whole.
            scope: the names in its clauses.
        """
        names = [scope.origins[alias] for alias in scope.tables if alias in scope.origins]
        if len(scope.tables) != 1 or not names or names[0] not in self._scanned:
            return None
        items = [item for _, item in map(_projected, query.expressions)]
        group = query.args.get("group")
        split = partial_select(query, _group_nodes(group, items) if group is not None else ())
        if split is None:
            return None
        schema = pa.schema([(name, translate(node, scope).type) for name, node in split.columns])
        _note_narrow(split, scope)
        self.partials[names[0]] = PartialQuery(split.partial.sql("duckdb", comments=False), schema)
        merged = partial_name(names[0])
        self._schemas[merged], self._views[merged], self._used[merged] = schema, self._views[names[0]], set()
        split.merged.args["from_"].this.set("this", exp.to_identifier(merged, quoted=True))
        # DuckDB merges few rows itself, if it gets back the types that its aggregates had.
        hugeints = _hugeints(split.columns, scope)
        is_small = split.is_small and hugeints is not None
        self._merges.append((query, merged_by_duckdb(split.merged, hugeints or ()) if is_small else None))
        return split.merged

    def merged(self, query: exp.Query) -> exp.Query | None:
        """Return a translated query with each split SELECT over its partial aggregates; None if these may be many rows.

        Args:
            query: the query; it is changed.
        """
        if any(merged is None for _, merged in self._merges):
            return None
        for select, merged in self._merges:
            assert merged is not None
            if select is query:
                return merged
            select.replace(merged)
        return query

    def _whole_select(self, query: exp.Select, scope: _Names) -> tuple[exp.Query, Columns]:
        _knows(query, _SELECT)
        made = exp.Select()
        if query.args.get("from_") is not None:
            made.set("from_", exp.From(this=self._source(query.args["from_"].this, scope)))
            made.set("joins", [self._join(join, scope) for join in query.args.get("joins") or ()])
        if query.args.get("where") is not None:
            made.set("where", exp.Where(this=truth(query.args["where"].this, scope)))
        items = [_projected(item) for item in query.expressions]
        made.set("group", self._group(query, [item for _, item in items], scope))
        _check_constant_groups(query, [item for _, item in items])
        # Known before the items are translated: it decides how their averages are.
        scope.divided = divided(query, has_groups=made.args.get("group") is not None)
        typed = [(name, translate(item, scope)) for name, item in items]
        made.set("expressions", [_named(cast_literal(value), name) for name, value in typed])
        for clause in ("having", "qualify"):
            if query.args.get(clause) is not None:
                made.set(clause, type(query.args[clause])(this=truth(query.args[clause].this, scope)))
        columns = [(name, value.type) for name, value in typed]
        if query.args.get("distinct") is not None:
            _knows(query.args["distinct"], frozenset())
            _check_groups(columns)
            made.set("distinct", exp.Distinct())
        # Set last, because only ORDER BY may name columns of the answer.
        scope.aliases = {name.casefold(): kind for name, kind in columns}
        scope.kinds = [kind for _, kind in columns]
        self._modifiers(query, made, scope)
        return made, columns

    def _modifiers(self, query: exp.Expr, made: exp.Expr, scope: _Names) -> None:
        """Translate ORDER BY, LIMIT and OFFSET."""
        order = query.args.get("order")
        if order is not None:
            made.set("order", exp.Order(expressions=list(_order(order, scope))))
        for clause in ("limit", "offset"):
            limit = query.args.get(clause)
            if limit is not None:
                _knows(limit, frozenset({"expression"}))
                number = limit.expression
                refuse_if(not is_whole(number), f"{clause.upper()} of anything but a number")
                made.set(clause, type(limit)(expression=number.copy()))

    def _group(self, query: exp.Select, items: Sequence[exp.Expr], scope: _Names) -> exp.Group | None:
        group = query.args.get("group")
        if group is None:
            return None
        _knows(group, _GROUP)
        nodes = _group_nodes(group, items)
        refuse_if(
            any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets")), "GROUP BY … WITH"
        )
        return exp.Group(expressions=self._group_items(nodes, scope)) if nodes else None

    def _group_items(self, nodes: Sequence[exp.Expr], scope: _Names) -> list[exp.Expr]:
        made: list[exp.Expr] = []
        for node in nodes:
            if isinstance(node, exp.Rollup | exp.Cube):
                _knows(node, frozenset({"expressions"}))
                made.append(type(node)(expressions=self._group_items(node.expressions, scope)))
                continue
            value = translate(node, scope)
            _check_groups([("", value.type)])
            made.append(value.node)
        return made

    def _source(self, node: exp.Expr, scope: _Names) -> exp.Expr:
        """Translate a table or subquery of FROM or JOIN; its columns become names of the scope."""
        if isinstance(node, exp.Table):
            return self._table(node, scope)
        if isinstance(node, exp.Subquery):
            _knows(node, frozenset({"this", "alias"}))
            inner, columns = self.query(node.this, _Names(translator=self, common=scope.common))
            alias = node.args.get("alias")
            if alias is None:
                raise NotOnSparkError("a query without a name in FROM")
            columns = _renamed(columns, [name.name for name in alias.args.get("columns") or ()])
            scope.tables[alias.name.casefold()] = _by_name(columns)
            return exp.Subquery(this=inner, alias=_alias(alias.name, columns))
        raise NotOnSparkError(f"FROM {node.key.upper()}")

    def _table(self, node: exp.Table, scope: _Names) -> exp.Expr:
        _knows(node, frozenset({"this", "alias"}))
        if not isinstance(node.this, exp.Identifier):
            raise NotOnSparkError(f"FROM {node.this.sql_name().lower()}()")
        name, alias = node.name.casefold(), node.alias_or_name
        named = node.args.get("alias")
        renamed = [column.name for column in named.args.get("columns") or ()] if named else []
        if name in scope.common:
            columns = _renamed(scope.common[name], renamed)
            scope.tables[alias.casefold()] = _by_name(columns)
            return exp.Table(this=exp.to_identifier(node.name, quoted=True), alias=_alias(alias, columns))
        refuse_if(name not in self._schemas, f"the table {node.name!r}")
        refuse_if(renamed, "other names for the columns of a table")
        columns = [(column.name, column.type) for column in self._schemas[name]]
        scope.tables[alias.casefold()] = _by_name(columns)
        scope.origins[alias.casefold()] = name
        return exp.Table(this=exp.to_identifier(self._views[name], quoted=True), alias=_alias(alias))

    def _join(self, join: exp.Join, scope: _Names) -> exp.Join:
        _knows(join, frozenset({"this", "side", "kind", "on"}))
        side, kind = join.side.upper(), join.kind.upper()
        refuse_if(side not in _SIDES or kind not in _KINDS, f"{side} {kind} JOIN".strip())
        source = self._source(join.this, scope)
        condition = join.args.get("on")
        made = exp.Join(this=source, side=join.side or None, kind=join.kind or None)
        if condition is not None:
            made.set("on", truth(condition, scope))
        elif kind != "CROSS":  # `FROM a, b` is a join without a kind
            made.set("kind", "CROSS")
            refuse_if(side or kind in ("SEMI", "ANTI"), f"{side} {kind} JOIN without ON".strip())
        return made

    def _set_operation(self, query: exp.SetOperation, scope: _Names) -> tuple[exp.Query, Columns]:
        _knows(query, _SET)
        inner = _Names(translator=self, common=scope.common, outer=scope.outer)
        left, first = self.query(query.this, inner)
        right, second = self.query(query.expression, inner)
        if len(first) != len(second):
            raise InvalidQueryError(
                f"expected as many columns on both sides, found {len(first)} and {len(second)}"
            )
        # Not the values but the columns have types here: a literal of one side does not take the type of the other.
        columns = [
            (name, common_type(Term(exp.Null(), kind), Term(exp.Null(), other)))
            for (name, kind), (_, other) in zip(first, second, strict=True)
        ]
        if query.args.get("distinct"):
            _check_groups(columns)
        made = type(query)(
            this=_conformed(left, first, columns),
            expression=_conformed(right, second, columns),
            distinct=query.args.get("distinct"),
        )
        ordered_by = _Names(
            translator=self,
            aliases={name.casefold(): kind for name, kind in columns},
            kinds=[kind for _, kind in columns],
        )
        self._modifiers(query, made, ordered_by)
        return made, columns


def _hugeints(columns: Iterable[tuple[str, exp.Expr]], scope: _Names) -> set[str] | None:
    """Return the columns of a partial query that are HUGEINT in DuckDB; None if that is not sure of one.

    In Arrow a HUGEINT is a DECIMAL(38, 0), which DuckDB divides and multiplies differently.
    """
    found = set()
    for name, node in columns:
        if translate(node, scope).type != HUGEINT:
            continue
        aggregate = node.this if isinstance(node, exp.Filter) else node
        is_sum = isinstance(aggregate, exp.Sum) and pa.types.is_integer(translate(aggregate.this, scope).type)
        if not (is_sum or isinstance(aggregate, exp.CountIf)):
            return None
        found.add(name)
    return found


def _note_narrow(split: PartialSelect, scope: _Names) -> None:
    """Note at each average whether its values have 16 bits: the type of their sum does not show it."""
    columns = dict(split.columns)
    for average in split.merged.find_all(MergedAvg):
        total = columns[average.this.name]
        values = (total.this if isinstance(total, exp.Filter) else total).this
        average.set("is_narrow", is_narrow(translate(values, scope).type))


def cast_literal(value: Term) -> exp.Expr:
    """Return a value of the answer; an untyped NULL becomes a STRING, for Spark returns no column without a type."""
    return as_type(value.node, TEXT) if value.type == pa.null() else value.node


def _order(order: exp.Order, scope: _Names) -> Iterator[exp.Ordered]:
    for item in order.expressions:
        if isinstance(item.this, exp.Var) and item.this.name.upper() == "ALL":
            for place, kind in enumerate(scope.kinds, start=1):
                check_order(kind)
                yield same_order(exp.Literal.number(place), item)
        elif isinstance(item.this, exp.Literal):
            _knows(item, frozenset({"this", "desc", "nulls_first"}))
            is_known = item.this.is_int and 1 <= int(item.this.name) <= len(scope.kinds)
            refuse_if(not is_known, "ORDER BY a literal")
            check_order(scope.kinds[int(item.this.name) - 1])
            yield same_order(item.this.copy(), item)
        else:
            yield ordered(item, scope)


def _group_nodes(group: exp.Group, items: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return what a SELECT of these items groups by."""
    if group.args.get("all"):
        return [item for item in items if not has_aggregate(item) and not isinstance(item, exp.Literal)]
    return list(group.expressions)


def _projected(item: exp.Expr) -> tuple[str, exp.Expr]:
    """Return (name, expression) of an item of SELECT."""
    if isinstance(item, exp.Alias):
        return item.alias, item.this
    refuse_if(isinstance(item, exp.Star) or item.is_star, "this kind of *")
    return item.alias_or_name, item


def _named(node: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _alias(name: str, columns: Columns | None = None) -> exp.TableAlias:
    return exp.TableAlias(
        this=exp.to_identifier(name, quoted=True),
        columns=[exp.to_identifier(column, quoted=True) for column, _ in columns or ()] or None,
    )


def _by_name(columns: Columns) -> dict[str, tuple[str, pa.DataType]]:
    # A name that several columns have means none of them.
    names = [name.casefold() for name, _ in columns]
    return {folded: column for folded, column in zip(names, columns, strict=True) if names.count(folded) == 1}


def _renamed(columns: Columns, names: Sequence[str]) -> Columns:
    kinds = [kind for _, kind in columns]
    own = [name for name, _ in columns]
    return list(zip([*names, *own[len(names) :]], kinds, strict=True))


def _conformed(query: exp.Query, have: Columns, want: Columns) -> exp.Query:
    """Return one side of a set operation, cast to the types of the whole."""
    # In parentheses, or ORDER BY and LIMIT of one side would be those of the whole.
    if [kind for _, kind in have] == [kind for _, kind in want]:
        is_modified = any(query.args.get(name) for name in ("order", "limit", "offset", "with_"))
        return exp.Subquery(this=query) if is_modified else query
    numbered = [(f"c{place}", kind) for place, (_, kind) in enumerate(have)]
    items = [
        _named(cast(Term(exp.column(name, quoted=True), kind), target), column)
        for (name, kind), (column, target) in zip(numbered, want, strict=True)
    ]
    return exp.select(*items).from_(exp.Subquery(this=query, alias=_alias("side", numbered)))


def _check_having(query: exp.Select) -> None:
    """Check the aggregates of HAVING: Spark cannot sort by an aggregate if HAVING has one that is not selected.

    Raises:
        NotOnSparkError: HAVING has one.
    """
    having, order = query.args.get("having"), query.args.get("order")
    if having is None or order is None or order.find(exp.AggFunc) is None:
        return
    selected = [found for item in query.expressions for found in item.find_all(exp.AggFunc)]
    if any(found not in selected for found in having.find_all(exp.AggFunc)):
        raise NotOnSparkError("ORDER BY of an aggregate beside HAVING of one that is not selected")


def _check_constant_groups(query: exp.Select, items: Sequence[exp.Expr]) -> None:
    """Check the groups of averages: DuckDB leaves out a group that it finds to be constant, and divides otherwise then.

    Raises:
        NotOnSparkError: all groups of a SELECT with an average are constant expressions.
    """
    group = query.args.get("group")
    nodes = _group_nodes(group, items) if group is not None else []
    has_column = any(next(node.find_all(exp.Column), None) is not None for node in nodes)
    computed = [node for node in nodes if not isinstance(node, exp.Literal)]
    if computed and not has_column and query.find(exp.Avg) is not None:
        raise NotOnSparkError("an average in groups of a constant")


def _check_groups(columns: Columns) -> None:
    for _, kind in columns:
        refuse_if(has_map(kind), f"a group of {kind}")


def _knows(node: exp.Expr, arguments: frozenset[str]) -> None:
    """Check that a clause has no arguments but these: another one would be lost."""
    for name, value in node.args.items():
        if name not in arguments and value not in (None, False, []):
            raise NotOnSparkError(f"{node.key.upper()} with {name.strip('_').replace('_', ' ').upper()}")


# All expressions that are translated: any other is refused.
_HANDLERS: Mapping[type[exp.Expr], Handler] = ChainMap(
    aggregates.HANDLERS, casts.HANDLERS, conditions.HANDLERS, terms.HANDLERS, texts.HANDLERS
)
