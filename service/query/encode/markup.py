"""Rows as a table of Markdown (GitHub's) and of HTML: for issues, chats and reports.

Values of a state are text that somebody else wrote: none is an image, a tag, emphasis or a link with another text where the table is
shown. NULL is `NULL`, and control characters are shown by their codes, as in a table for the terminal. Rows stream; no cell is cut.

Suites of test cases → XML as JUnit writes it, which CI systems show as tests.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from xml.etree import ElementTree

import pyarrow as pa

from service.query.encode.formats import Column, is_number, printable
from service.query.encode.table import padded, text_rows, text_width

# An underscore or a bracket is a mark only where it closes something: key_group and [1, 2] stay as they are.
_MARKS = re.compile(r"([\\`*~|<&$]|_(?![A-Za-z0-9])|\](?=[(\[]))")
_ROWS_FOR_WIDTHS = 1000
_WIDEST = 60
_NARROWEST = 3


def markdown_lines(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[str]:
    """Yield the lines of a table of Markdown: names, a rule with a colon where numbers stand to the right, the rows.

    Args:
        columns: names and SQL types.
        schema: schema of the batches.
        batches: the rows; the first ones say how wide the columns are, and a wider cell is whole, too.
    """
    names = [_without_marks(printable(column.name)) for column in columns]
    rows = ([_without_marks(cell) for cell in row] for batch in batches for row in text_rows(columns, batch))
    first = list(islice(rows, _ROWS_FOR_WIDTHS))
    widths = [
        max(_NARROWEST, *(min(text_width(cell), _WIDEST) for cell in cells))
        for cells in zip(names, *first, strict=True)
    ]
    right = [is_number(field.type) for field in schema]
    rule = [
        "-" * (width - 1) + (":" if to_right else "-") for width, to_right in zip(widths, right, strict=True)
    ]
    for row in chain((names, rule), first, rows):
        yield f"| {' | '.join(map(padded, row, widths, right))} |"


def html_lines(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[str]:
    """Yield the lines of a table of HTML, numbers to the right.

    Args:
        columns: names and SQL types.
        schema: schema of the batches.
        batches: the rows.
    """
    ends = [' align="right">' if is_number(field.type) else ">" for field in schema]
    names = [printable(column.name) for column in columns]
    yield "<table>"
    yield f"<thead>{_html_row('th', names, ends)}</thead>"
    yield "<tbody>"
    for batch in batches:
        for row in text_rows(columns, batch):
            yield _html_row("td", row, ends)
    yield "</tbody>"
    yield "</table>"


def _html_row(tag: str, cells: Iterable[str], ends: Sequence[str]) -> str:
    shown = (f"<{tag}{end}{html.escape(cell)}</{tag}>" for cell, end in zip(cells, ends, strict=True))
    return f"<tr>{''.join(shown)}</tr>"


def _without_marks(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _MARKS.sub(r"\\\1", text)


# XML 1.0 has no way to write these, and names of states may have them.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test case.

    Attributes:
        group, name: its names: CI systems show them beside each other.
        outcome: `failure`, `error` or `skipped`; empty if it passed.
        message: why, in a line.
        kind: the kind of the failure or error.
        text: the whole reason.
        output: what else it says.
        elapsed_s: seconds that it took.
    """

    group: str
    name: str
    outcome: str = ""
    message: str = ""
    kind: str = ""
    text: str = ""
    output: str = ""
    elapsed_s: float = 0.0

    def element(self) -> ElementTree.Element:
        """Return it as XML."""
        made = ElementTree.Element(
            "testcase", classname=_clean(self.group), name=_clean(self.name), time=_seconds(self.elapsed_s)
        )
        if self.outcome:
            problem = ElementTree.SubElement(made, self.outcome, message=_clean(self.message))
            if self.kind:
                problem.set("type", _clean(self.kind))
            problem.text = _clean(self.text) or None
        if self.output:
            ElementTree.SubElement(made, "system-out").text = _clean(self.output)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Test cases of one thing.

    Attributes:
        name: the thing.
        cases: its test cases.
        output: what is said of all of them.
    """

    name: str
    cases: Sequence[Case]
    output: str = ""

    def element(self) -> ElementTree.Element:
        """Return it as XML."""
        counts = {
            title: str(sum(case.outcome == outcome for case in self.cases))
            for title, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
        }
        facts = {"name": _clean(self.name), "tests": str(len(self.cases)), **counts}
        facts["time"] = _seconds(sum(case.elapsed_s for case in self.cases))
        made = ElementTree.Element("testsuite", facts)
        made.extend(case.element() for case in self.cases)
        if self.output:
            ElementTree.SubElement(made, "system-out").text = _clean(self.output)
        return made


def junit_document(name: str, suites: Sequence[Suite]) -> str:
    """Return the document of some suites."""
    root = ElementTree.Element("testsuites", name=name)
    root.extend(suite.element() for suite in suites)
    for title in ("tests", "failures", "errors"):
        root.set(title, str(sum(int(suite.get(title, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _seconds(elapsed_s: float) -> str:
    return f"{elapsed_s:.3f}" if elapsed_s else "0"


def _clean(text: str) -> str:
    return _NO_XML.sub("�", text)
