"""Rows → bytes: JSON, JSON lines, CSV, Arrow, Parquet, and a table for people.

Modules:

    formats.py  an Arrow column → types that every format has; batches → bytes, a function for each format; texts for people
    table.py    batches → lines for people: a table, a value a line, a plan, sections of a page; sizes and numbers
    markup.py   batches → lines of a table of Markdown, of HTML; suites of test cases → XML as JUnit writes it
"""

from service.query.encode.formats import (
    FORMATS,
    SPREADSHEET_CSV,
    Format,
    counted,
    json_rows,
    printable,
    split_suffix,
)
from service.query.encode.markup import html_lines, markdown_lines
from service.query.encode.table import (
    age_text,
    dated,
    fitting_columns,
    plan_lines,
    section_lines,
    size_text,
    state_size_text,
    state_sizes,
    table_lines,
    text_rows,
    value_lines,
    wrapped_lines,
)

__all__ = [
    "FORMATS", "SPREADSHEET_CSV", "Format", "age_text", "counted", "dated", "fitting_columns", "html_lines",
    "json_rows", "markdown_lines", "plan_lines", "printable", "section_lines", "size_text", "split_suffix",
    "state_size_text", "state_sizes", "table_lines", "text_rows", "value_lines", "wrapped_lines",
]  # fmt: skip
