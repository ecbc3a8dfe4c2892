"""Groups of columns in a file of masks: their names, and the column of the key of each operator that belongs to one.

Orders have the keys (customer, day), customers the key customer: where the group `customer` has both columns, the part of the key
that is the customer says what belongs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from catalog import CatalogError, Database
from catalog.masks.columns import KEY
from catalog.masks.masks import Masks
from catalog.masks.patterns import Path
from readers import Operator
from service.base.errors import InvalidRequestError, translated
from service.tasks.copies.pruning import container_depth
from service.tasks.write.masks import check_names, named_states


def masks_with(path: str, groups: Iterable[str], database: Database) -> Masks:
    """Return what a file of masks says, which has groups and names columns of a savepoint.

    Raises:
        QueryError: the file cannot be read, is no file of masks, or names a column that does not exist.
        InvalidRequestError: it has no such group.
    """
    with translated(CatalogError):
        masks = Masks.load(path)
        check_names(masks, database)
    unknown = [name for name in groups if name not in masks.group_names]
    if unknown:
        raise InvalidRequestError(
            f"group: expected one of {', '.join(masks.group_names) or 'none'}, found {unknown[0]!r}"
        )
    return masks


def key_columns(
    masks: Masks, group: str, database: Database, operators: Sequence[Operator]
) -> dict[str, Path]:
    """Return the fields of keys that belong to a group, by the ids of their operators; operators without such a field are not there.

    Args:
        masks: has the group.
        group: its name.
        database: the source.
        operators: of the source.

    Raises:
        InvalidRequestError: no key has such a column, one has several, or it is inside of a list or map.
    """
    found: dict[str, Path] = {}
    known = named_states(database)
    for operator in operators:
        one = next((one for one in known[operator.operator_id] if KEY in one.state.schema.names), None)
        if one is None:
            continue
        name, key = database.operator_names[operator.operator_id], one.state.schema.field(KEY)
        paths = masks.group_paths(group, one.names.table, pa.schema([key]), one.names)
        if len(paths) > 1 or any(container_depth(key.type, path[1:]) is not None for path in paths):
            raise InvalidRequestError(
                f"group: expected one field of the key of {name} in {group}, outside of lists and maps, found "
                f"{', '.join('.'.join(path) for path in paths)}",
                hint=f"name one of them in the columns of [group.{group}]",
            )
        if paths:
            found[operator.operator_id] = paths[0][1:]
    if not found:
        raise InvalidRequestError(f"group: expected a key, or a field of one, in {group}, found none")
    return found
