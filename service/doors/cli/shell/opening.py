"""The savepoints of a shell, opened by a thread while the prompt is already there.

Arrow, DuckDB and the readers take longer to load than a person takes to read the first line: this module imports none of them.
"""

from __future__ import annotations

import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.doors.cli.shell.console import Console


class Opening:
    """Opens the savepoints of a command line.

    Args:
        options: the parsed command line.
        on_ready: called by the thread once they are open, or cannot be opened.
        on_banner: called by the thread with what the shell says of them.
    """

    def __init__(
        self, options: Namespace, on_ready: Callable[[], None], on_banner: Callable[[str], None]
    ) -> None:
        self._options = options
        self._on_ready = on_ready
        self._on_banner = on_banner
        self._console: Console | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="opening", daemon=True)

    def begin(self) -> None:
        """Start the thread, once."""
        if self._thread.ident is None:
            self._thread.start()

    @property
    def database(self) -> str | None:
        """The database of tables that name none; None before the savepoints are open."""
        return None if self._console is None else self._console.view.database

    @property
    def error(self) -> BaseException | None:
        """The error that kept the savepoints from being opened; None if there is none."""
        return self._error

    def console(self) -> Console:
        """Return the console; wait until it is open.

        Raises:
            BaseException: what kept the savepoints from being opened.
        """
        self.begin()
        self._ended.wait()
        if self._console is None:
            assert self._error is not None
            raise self._error
        return self._console

    def close(self) -> None:
        """Close the engines of what is open."""
        if self._console is not None:
            self._console.close()

    def _run(self) -> None:
        try:
            if "pandas" not in sys.modules:
                arrow = import_module("service.base.process.arrow")
                arrow.load_without_pandas()
                arrow.load_parts_later()
            module = import_module("service.doors.cli.shell.console")
            self._console = module.Console(self._options, is_terminal=True)
        except BaseException as error:  # the thread that waits raises it
            self._error = error
        finally:
            self._ended.set()
            self._on_ready()
        if self._console is not None:
            self._on_banner(import_module("service.doors.cli.shell.banner").banner_of(self._console))
