"""Where the files of the tests are."""

import os
from pathlib import Path

TESTS = Path(__file__).parent.parent
PROJECT = TESTS.parent
DATA = TESTS / "data"
# Hundreds of savepoints that are not part of the project; there may be none.
CORPUS = Path(os.environ.get("SAVEPOINTDB_CORPUS", PROJECT.parent / "shared" / "corpus"))
