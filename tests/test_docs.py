"""The documentation says what the code does, and has no dead links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PROJECT
from tools.reference import reference

SITE = sorted((PROJECT / "docs").rglob("*.md"))
PAGES = [*SITE, PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
GENERATED = re.compile(r"^<!-- rules -->$.*^<!-- /rules -->$", re.MULTILINE | re.DOTALL)
# Sentences in which readers stopped: plain ones stand in their place.
DENSE = (
    "can be told beforehand",
    "what comes then waits",
    "of the users who have most of them",
    "What was tried of these files",
    "who sees everything",
    "lets everybody who reaches it",
    "tells the new job",
    "is told apart by content",
    "tells most",
    "is a matter of a minute",
    "it cannot be told, or",
    "a row an element",
    "Whoever comes from another database",
    "nothing may be there",
    "and what of it nobody needs",
    "nothing is written before you say so twice",
    "have besides ours",
    "ask us for",
    "we asked for",
    "what we need",
    "watches a savepoint no more",
    "as far as it is known",
    "cannot be read and not be changed",
    "whose timers they are",
    "of which the others stand",
    "0 files with 0 bytes",
)
# Whose texts people read: help, errors, hints and remedies are constants in them.
CODE = sorted(
    path
    for room in ("service", "savepointdb", "doctor", "writers", "catalog")
    for path in (PROJECT / room).rglob("*.py")
)


def test_the_reference_is_that_of_the_code() -> None:
    assert (PROJECT / "docs" / "reference" / "index.md").read_text(encoding="utf-8") == reference(), (
        "run: make reference"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_what_a_page_names_in_the_project_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:docs|examples|tests|readers|catalog|service|savepointdb|tools|benchmarks)/[\w./-]+)`",
        page.read_text(),
    )

    assert [name for name in named if not (PROJECT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_a_page_has_none_of_the_dense_sentences(page: Path) -> None:
    text = " ".join(GENERATED.sub("", page.read_text()).split())

    assert [phrase for phrase in DENSE if phrase in text] == []


def test_the_texts_of_the_code_have_none_of_the_dense_sentences() -> None:
    found = [
        f"{path.relative_to(PROJECT)}: {phrase}"
        for path in CODE
        # A text of several lines is one for its readers.
        for text in [" ".join(re.sub(r'"\s+f?"', "", path.read_text(encoding="utf-8")).split())]
        for phrase in DENSE
        if phrase in text
    ]

    assert found == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(tmp_path).with_suffix(".md").as_posix() for page in tmp_path.rglob("*.html")}
    assert pages >= {page.relative_to(PROJECT / "docs").as_posix() for page in SITE}
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', page.read_text())
        assert loaded == []
