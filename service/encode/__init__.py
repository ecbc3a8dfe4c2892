"""Rows → bytes: JSON, JSON lines, CSV, Arrow, Parquet, and a table for people.

Modules:

    columns.py  an Arrow column → types that every format has; → JSON text; → plain text
    formats.py  batches → a stream of bytes, a function for each format
    table.py    batches → lines for people
    sizes.py    sizes in bytes → text for people
"""

from service.encode.formats import FORMATS, SPREADSHEET_CSV, Format, json_rows
from service.encode.sizes import size_text
from service.encode.table import table_lines

__all__ = ["FORMATS", "SPREADSHEET_CSV", "Format", "json_rows", "size_text", "table_lines"]
