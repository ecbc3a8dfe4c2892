"""The progress of what takes long: one line on standard error, on a terminal only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType

_FIRST_AFTER_S = 1.0
_AGAIN_AFTER_S = 0.2
# To the first column, and clear to the end of the line.
_CLEAR = "\r\033[K"


class ProgressLine:
    """Shows how far something is. Use it in `with`, around what takes long, and hide it while rows are shown.

    Args:
        text: returns what to show.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._is_hidden = self._is_drawn = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def hide(self) -> None:
        """Clear the line; it does not come again until `show`."""
        with self._lock:
            self._is_hidden = True
            self._clear()

    def show(self) -> None:
        """Let the line come again. The cursor must be at the start of a line."""
        with self._lock:
            self._is_hidden = False

    def _run(self) -> None:
        wait_s = _FIRST_AFTER_S
        while not self._ended.wait(wait_s):
            with self._lock:
                if not self._is_hidden:
                    self._draw()
            wait_s = _AGAIN_AFTER_S
        with self._lock:
            self._clear()

    def _draw(self) -> None:
        sys.stderr.write(f"{_CLEAR}{self._text()}")
        sys.stderr.flush()
        self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._is_drawn = False

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
