"""Constants in an older spelling: texts of Kryo were JSON text once, with quotation marks around them.

A column of `Table.unquoted` has no text that begins with a quotation mark, so `key = '"x"'` can only mean `key = 'x'`.
Constants that such a column is compared with lose their marks, in the tree and in the user's text.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from sqlglot import exp

from service.sql.edits import Edit
from service.sql.names import TablesBySelect
from service.sql.parser import DIALECT

_MARK = '"'


def respell(query: exp.Query, tables: TablesBySelect, text: str | None) -> Iterator[Edit]:
    """Take the quotation marks from constants of columns that have none; yield the edits of the text.

    Args:
        query: its tables have their names in the plan; changed.
        tables: the tables of the catalog, by the id of their SELECT.
        text: the text of the query; None if it has none.
    """
    if not any(reference.table.unquoted for pairs in tables.values() for _, reference in pairs):
        return
    for node in query.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In):
        operands = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
        literals = [one for one in operands if _is_marked(one, text)]
        columns = [one for one in operands if isinstance(one, exp.Column)]
        if not literals or len(columns) != 1 or not _is_unquoted(columns[0], tables):
            continue
        for literal in literals:
            literal.set("this", orjson.loads(literal.this))
            if text is not None:
                yield Edit(literal.meta["start"], literal.meta["end"] + 1, literal.sql(DIALECT))


def _is_marked(node: exp.Expr, text: str | None) -> bool:
    """Return whether a node is a constant in quotation marks, whose place in the text is known."""
    if not isinstance(node, exp.Literal) or not node.is_string or not node.this.startswith(_MARK):
        return False
    try:
        if not isinstance(orjson.loads(node.this), str):
            return False
    except orjson.JSONDecodeError:
        return False
    if text is None:
        return True
    start, end = node.meta.get("start"), node.meta.get("end")
    return start is not None and end is not None and text[start : end + 1] == f"'{node.this}'"


def _is_unquoted(column: exp.Column, tables: TablesBySelect) -> bool:
    """Return whether a column of the catalog has no text that begins with a quotation mark."""
    name, alias = column.name.casefold(), column.table.casefold()
    select = column.find_ancestor(exp.Select)
    while select is not None:
        owners = [
            reference.table
            for node, reference in tables.get(id(select), [])
            if (not alias or node.alias_or_name.casefold() == alias)
            and any(known.casefold() == name for known in reference.table.schema.names)
        ]
        if owners:
            return all(name in map(str.casefold, table.unquoted) for table in owners)
        select = select.find_ancestor(exp.Select)
    return False
