"""Tables of Markdown and HTML, read back by a parser of Markdown and one of HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from readers import sql_type
from service.query.encode import html_lines, markdown_lines, printable
from service.query.encode.formats import Column
from tests.support.examples import examples

MARKS = st.text(alphabet="_*`~[]()<>&|\\!a1 -:#$\n\"'", max_size=12)
CELLS = st.tuples(st.one_of(st.none(), st.text(max_size=12), MARKS), st.one_of(st.none(), st.integers(-9, 9)))


class Cells(HTMLParser):
    """The texts of the cells of a table, and whatever tag is none of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag not in ("table", "thead", "tbody"):
            self.others.append(tag)

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and data != "\n":
            self.rows[-1][-1] += data


def shown(value: object) -> str:
    return "NULL" if value is None else printable(str(value))


def batch_of(name: str, rows: list[tuple[str | None, int | None]]) -> pa.RecordBatch:
    texts, numbers = [row[0] for row in rows], [row[1] for row in rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(texts, pa.string()), pa.array(numbers, pa.int64())], names=[name, "n"]
    )


def columns_of(batch: pa.RecordBatch) -> list[Column]:
    return [Column(field.name, sql_type(field.type)) for field in batch.schema]


def read(text: str) -> Cells:
    found = Cells()
    found.feed(text)
    found.close()
    return found


@settings(max_examples=examples(40))
@given(MARKS, st.lists(CELLS, max_size=4))
def test_markdown_shows_each_text_as_it_is(name: str, rows: list[tuple[str | None, int | None]]) -> None:
    batch = batch_of(name, rows)
    text = "\n".join(markdown_lines(columns_of(batch), batch.schema, [batch]))

    found = read(MarkdownIt("commonmark").enable("table").enable("strikethrough").render(text))

    expected = [[printable(name), "n"], *([shown(value) for value in row] for row in rows)]
    assert [[cell.strip() for cell in row] for row in found.rows] == [
        [cell.strip() for cell in row] for row in expected
    ]
    assert found.others == []


@settings(max_examples=examples(40))
@given(MARKS, st.lists(CELLS, max_size=4))
def test_html_shows_each_text_as_it_is(name: str, rows: list[tuple[str | None, int | None]]) -> None:
    batch = batch_of(name, rows)

    found = read("\n".join(html_lines(columns_of(batch), batch.schema, [batch])))

    assert found.rows == [[printable(name), "n"], *([shown(value) for value in row] for row in rows)]
    assert found.others == []


def test_a_hostile_value_is_a_text_in_markdown() -> None:
    batch = batch_of("_key_group", [("![x](http://evil) <b>|`a`", 1), ("[1,2] of key_1", None), (None, 23)])

    assert list(markdown_lines(columns_of(batch), batch.schema, [batch])) == [
        r"| _key_group                     |    n |",
        r"| ------------------------------ | ---: |",
        r"| ![x\](http://evil) \<b>\|\`a\` |    1 |",
        r"| [1,2] of key_1                 | NULL |",
        r"| NULL                           |   23 |",
    ]
