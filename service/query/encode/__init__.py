"""Rows → bytes: JSON, JSON lines, CSV, Arrow, Parquet, and a table for people.

Modules:

    columns.py  an Arrow column → types that every format has; → JSON text; → plain text
    formats.py  batches → a stream of bytes, a function for each format
    table.py    batches → lines for people: a table, a value a line, a plan
    markup.py   batches → lines of a table of Markdown, of HTML
    junit.py    suites of test cases → XML as JUnit writes it
    sections.py  tables as sections of a page for people; texts, wrapped
    sizes.py    sizes in bytes and numbers → text for people
"""

from service.query.encode.formats import FORMATS, SPREADSHEET_CSV, Format, json_rows, split_suffix
from service.query.encode.markup import html_lines, markdown_lines
from service.query.encode.sections import section_lines, state_sizes, wrapped_lines
from service.query.encode.sizes import age_text, counted, dated, size_text, state_size_text
from service.query.encode.table import (
    fitting_columns,
    plan_lines,
    printable,
    table_lines,
    text_rows,
    value_lines,
)

__all__ = [
    "FORMATS",
    "SPREADSHEET_CSV",
    "Format",
    "age_text",
    "counted",
    "dated",
    "fitting_columns",
    "html_lines",
    "json_rows",
    "markdown_lines",
    "plan_lines",
    "printable",
    "section_lines",
    "size_text",
    "split_suffix",
    "state_size_text",
    "state_sizes",
    "table_lines",
    "text_rows",
    "value_lines",
    "wrapped_lines",
]
