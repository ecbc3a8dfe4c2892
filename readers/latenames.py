"""Names of a face that are loaded when they are first used: to import a whole room takes as long as a short query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(face: dict[str, Any], homes: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Return the `__getattr__` of a face, which keeps what it has loaded, and its `__all__`.

    Args:
        face: the globals of its module.
        homes: module → its names, with spaces between them; `name:other` has another name in the face. A name that the module
            does not have is one of its modules.
    """
    places = {
        word.rpartition(":")[2]: (module, word.partition(":")[0])
        for module, words in homes.items()
        for word in words.split()
    }

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {face['__name__']!r} has no attribute {name!r}")
        module, attribute = places[name]
        home = import_module(module)
        value: Any = (
            getattr(home, attribute) if hasattr(home, attribute) else import_module(f"{module}.{attribute}")
        )
        face[name] = value
        return value

    return load, sorted(places)
