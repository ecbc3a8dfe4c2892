"""What an export did, as text."""

from __future__ import annotations

from collections.abc import Iterator

from service.query.encode import counted, printable, size_text
from service.tasks.export.exporting import ExportResult
from service.tasks.export.manifest import ExportedSavepoint


def lines_of(result: ExportResult) -> Iterator[str]:
    """Yield the lines for a person: a line for each savepoint."""
    for name in result.known:
        yield printable(f"{name} is there already")
    for savepoint in result.savepoints:
        yield printable(_line(savepoint))
    yield printable(f"exported: {result.destination}")


def _line(savepoint: ExportedSavepoint) -> str:
    files = [file for table in savepoint.tables for file in table.files]
    rows = sum(table.rows for table in savepoint.tables)
    size = size_text(sum(file.bytes for file in files))
    what = f"{counted(len(savepoint.tables), 'table')}, {counted(rows, 'row')}, {counted(len(files), 'file')}, {size}"
    where = f" in {savepoint.namespace}" if savepoint.namespace else ""
    return f"{savepoint.database}{where}: {what}"
