"""Where the files of the tests are."""

from pathlib import Path

TESTS = Path(__file__).parent.parent
PROJECT = TESTS.parent
DATA = TESTS / "data"
