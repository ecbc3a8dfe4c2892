"""Writes the commit into what is built: a wheel or an sdist knows no repository any more."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Adds `service/COMMIT` to wheels and sdists; an sdist that becomes a wheel brings its own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, unless the installation is editable: there Git itself is asked."""
        source = runpy.run_path(str(Path(self.root) / "service" / "base" / "version.py"))
        commit = source["checkout_commit"](Path(self.root))
        if version == "editable" or commit is None:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="savepointdb-build-")
        written = Path(self._folder.name) / "COMMIT"
        written.write_text(f"{commit}\n", encoding="ascii")
        build_data["force_include"][str(written)] = source["COMMIT_FILE"]
