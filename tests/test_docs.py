"""The documentation says what the code does, and has no dead links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.consoles import consoles_of
from tests.support.paths import PROJECT
from tools import reference

SITE = sorted((PROJECT / "docs").rglob("*.md"))
PAGES = [*SITE, PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
# Pages of `make reference`, and records of what was measured and restored.
NOT_BY_HAND = [
    *(PROJECT / "docs" / "reference" / name for name in reference.PAGES),
    *(PROJECT / "docs" / "evidence").iterdir(),
]
GENERATED = re.compile(r"^<!-- (\w+) -->$.*?^<!-- /\1 -->$", re.MULTILINE | re.DOTALL)
MOST_WORDS = 31_000
MOST_WORDS_OF_A_GUIDE = 1_200
LONGEST_CELL = 200
MOST_WORDS_OF_HELP = 16
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
    "tells of each state",
    "a database each",
    "a table each state",
    "a row an operator",
    "a cell a subtask",
    "a row a column",
    "one of them behind it",
    "of no operator's timers",
    "that can be read: A diff",
    "Whose names databases",
)
# Whose texts people read: help, errors, hints and remedies are constants in them.
CODE = sorted(
    path
    for room in ("service", "savepointdb", "doctor", "writers", "catalog")
    for path in (PROJECT / room).rglob("*.py")
)


def by_hand(page: Path) -> str:
    """The text of a page that people wrote: without what a terminal shows, which `tests/test_consoles.py` compares."""
    if page in NOT_BY_HAND:
        return ""
    text = GENERATED.sub("", page.read_text(encoding="utf-8"))
    for console in consoles_of(text):
        text = text.replace(console.output, "")
    return text


def words_of(text: str) -> int:
    """The number of words in a text: a rule of a table or a bullet is none."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings of a page, as mkdocs and GitHub make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_is_that_of_the_code(name: str) -> None:
    page = PROJECT / "docs" / "reference" / name

    assert page.read_text(encoding="utf-8") == reference.PAGES[name](), "run: make reference"


def test_a_sentence_of_a_help_text_has_few_words() -> None:
    lines = (PROJECT / "docs" / "reference" / "index.md").read_text(encoding="utf-8").splitlines()
    # The last cell of a row, or what a setting's note says.
    texts = [re.split(r"(?<!\\)\|", line)[-2] for line in lines if line.startswith("|")]
    texts += [line for line in lines if line.startswith("- `")]
    sentences = [sentence for text in texts for sentence in re.split(r"(?<=[.;:]) ", text)]

    assert [sentence for sentence in sentences if words_of(sentence) > MOST_WORDS_OF_HELP] == []


def test_people_wrote_no_more_than_a_person_reads() -> None:
    assert sum(words_of(by_hand(page)) for page in PAGES) <= MOST_WORDS


@pytest.mark.parametrize(
    "guide", sorted((PROJECT / "docs" / "guides").iterdir()), ids=lambda guide: guide.name
)
def test_a_guide_is_read_to_its_end(guide: Path) -> None:
    assert len(guide.read_text(encoding="utf-8").split()) <= MOST_WORDS_OF_A_GUIDE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_a_cell_is_a_phrase(page: Path) -> None:
    text = page.read_text(encoding="utf-8") if page.name in reference.PAGES else by_hand(page)
    rows = re.findall(r"^\|.*\|$", text, re.MULTILINE)
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]

    assert [cell for cell in cells if len(cell) > LONGEST_CELL] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_anchors_of_links_are_headings(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))

    assert [
        (at, anchor) for at, anchor in links if anchor not in anchors_of((page.parent / at) if at else page)
    ] == []


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
