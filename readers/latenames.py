"""Names of a face that are loaded when they are first used: to import a whole room takes as long as a short query."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?: as (\w+))?")


def late_names(face: dict[str, Any]) -> tuple[Callable[[str], Any], list[str]]:
    """Return the `__getattr__` of a face, which keeps what it has loaded, and its `__all__`.

    The names are those that the face imports `if TYPE_CHECKING`: type checkers and this function read the same lines.

    Args:
        face: the globals of its module.
    """
    # The loader reads the text, because the modules may lie in an archive: Spark ships them to its workers so.
    text: str = face["__loader__"].get_source(face["__name__"])
    places = {
        other or name: (module, name)
        for module, names, only in _IMPORT.findall(text.partition("\nif TYPE_CHECKING:\n")[2])
        for name, other in _NAME.findall(names or only)
    }

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {face['__name__']!r} has no attribute {name!r}")
        module, attribute = places[name]
        home = import_module(module)
        # A name that the module does not have is one of its modules.
        value: Any = (
            getattr(home, attribute) if hasattr(home, attribute) else import_module(f"{module}.{attribute}")
        )
        face[name] = value
        return value

    return load, sorted(places)
