"""Arrow without pandas, for the command line and for workers; without what a command does not use, for the command line.

When pyarrow makes its first scalar, it imports pandas if pandas is installed (Spark needs it). The import takes a third of
a second, as long as the rest of a short query. Our code never converts Arrow to pandas. Functions of Spark do, and still
can: pyarrow looks for pandas again when it converts a table or a series.

`pyarrow.compute`, `dataset` and `parquet` make some hundred functions and their documentation, in as much time as a short query
takes. In a process that may not need them, they are loaded when something of them is first used.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LATER = ("compute", "dataset", "parquet")
_DOCUMENTATION = "pyarrow.vendored.docscrape"


def load_without_pandas() -> None:
    """Load pyarrow while the import of pandas fails."""
    hidden = _PandasHider()
    sys.meta_path.insert(0, hidden)
    try:
        import_module("pyarrow").scalar(None)
    finally:
        sys.meta_path.remove(hidden)


def load_parts_later() -> None:
    """Load the heavy modules of pyarrow when something of them is first used."""
    arrow = import_module("pyarrow")
    for part in _LATER:
        name = f"pyarrow.{part}"
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            sys.modules[name] = module = _LaterModule(spec)
            setattr(arrow, part, module)


class _LaterModule(ModuleType):
    """A module that is loaded when a name of it is first looked up; any thread may be the first.

    The one of `importlib.util` is not for threads: another thread sees a module that is half loaded.
    """

    # The module's own code may look up its names; another thread waits until all of them are there.
    _loading = threading.RLock()

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__package__ = spec.parent
        self.__file__ = spec.origin
        if spec.submodule_search_locations is not None:
            # A package: without its path none of its modules is found.
            self.__path__ = spec.submodule_search_locations

    def __getattr__(self, name: str) -> Any:
        """Load the module if it is not loaded, and return a name of it."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _LaterModule._loading:
            state = vars(self)
            if "_is_begun" not in state:
                state["_is_begun"] = True
                _execute(self)
                self.__class__ = ModuleType  # type: ignore[assignment]  # the layout is the same
        try:
            return state[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def _execute(module: ModuleType) -> None:
    """Run the code of a module, without the parser of pyarrow's documentation: it takes half the time of `pyarrow.compute`."""
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert loader is not None
    if _DOCUMENTATION in sys.modules:
        loader.exec_module(module)
        return
    unread = ModuleType(_DOCUMENTATION)
    vars(unread)["NumpyDocString"] = lambda _text: {"Parameters": ()}
    vendored = import_module(_DOCUMENTATION.rpartition(".")[0])
    before = dict(vars(module))
    sys.modules[_DOCUMENTATION] = unread
    vars(vendored)["docscrape"] = unread
    is_loaded = False
    try:
        with contextlib.suppress(AttributeError):
            loader.exec_module(module)
            is_loaded = True
    finally:
        del sys.modules[_DOCUMENTATION], vars(vendored)["docscrape"]
    if not is_loaded:
        # Another pyarrow asks the parser for more.
        vars(module).clear()
        vars(module).update(before)
        loader.exec_module(module)


class _PandasHider:
    """An import hook that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        """Fail for pandas, and leave all other modules to the next hook; see `importlib.abc.MetaPathFinder`."""
        # This error, and not a missing module spec, stops the search in the hooks behind this one.
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
