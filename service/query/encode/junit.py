"""Suites of test cases → XML as JUnit writes it, which CI systems show as tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

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
