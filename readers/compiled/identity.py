"""The identity of a unit: one hash of all that its object code depends on, so that stale code is never loaded.

It covers the text of each module that has a routine of the unit or is a module of constants, the values of the constants
that routines use, the versions of numba, LLVM, numpy and Python, the processor and its features, and the environment
variables of numba, which change the code it makes. A module whose constants are imported one by one counts by their
values only: an edit there that changes none of them compiles nothing again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite
import numpy as np

from readers.compiled.routines import Alternative, Intrinsic, Subroutine

_FORMAT = 3
"""Version of the files, and of the way that kernels are called."""
_OURS = __name__.partition(".")[0]
# Linux: vendor, family, model, and all features that the kernel knows. It takes no time to read, as /proc/cpuinfo may.
_MODEL = Path("/sys/devices/system/cpu/modalias")


def identity_of(kernels: Iterable[Subroutine]) -> str:
    """Return the identity of these kernels on this machine, 64 hex digits."""
    dependencies = _Dependencies()
    for kernel in kernels:
        dependencies.follow(kernel)
    texts = {name: _source(sys.modules[name]) for name in dependencies.modules}
    # Not imported, which would import numba: the compiler only counts by its text.
    texts["compiler"] = _source(sys.modules[__name__], "compiler.py")
    digest = hashlib.sha256()
    for text in (*_environment(), *sorted(dependencies.constants)):
        digest.update(f"{len(text)}:{text};".encode())
    for name in sorted(texts):
        digest.update(f"{name}:{len(texts[name])}:".encode() + texts[name])
    return digest.hexdigest()


def _source(module: ModuleType, beside: str | None = None) -> bytes:
    """Return the text of a module, or of another file in its folder."""
    # The loader reads it, because the modules may lie in an archive: Spark ships them to its workers so.
    path = str(module.__file__)
    loader: Any = module.__loader__
    return bytes(loader.get_data(path if beside is None else os.path.join(os.path.dirname(path), beside)))


def _environment() -> Iterable[str]:
    """Yield what the code depends on of this machine and its installed packages."""
    # The version without an import of numba.
    numba = find_spec("numba")
    yield str(_FORMAT)
    yield Path(str(numba.origin)).with_name("_version.py").read_text() if numba else ""
    yield from (llvmlite.__version__, np.__version__, sys.version, sys.platform, platform.machine())
    yield from _processor()
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))


def _processor() -> tuple[str, str]:
    """Return what the code depends on of this processor; without LLVM if possible, for its import takes as long as a lookup."""
    # Numpy asks the processor itself, as LLVM does; under an emulator the kernel's list is that of another one.
    found = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", None)
    try:
        model = _MODEL.read_text(encoding="ascii")
    except (OSError, ValueError):
        model = ""
    if not found or not model:
        described: tuple[str, str] = import_module("readers.compiled.loading").processor()
        return described
    return model, ",".join(sorted(name for name, is_there in found.items() if is_there))


class _Dependencies:
    """The modules and constants that routines refer to, however deep.

    Attributes:
        modules: the names of the modules of routines, and of the modules that they take constants from by attribute.
        constants: a text of module, name and value of each constant that is a name of a routine's module.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.constants: set[str] = set()
        self._seen: set[int] = set()

    def follow(self, routine: Subroutine) -> None:
        """Add the dependencies of a routine."""
        if id(routine) in self._seen:
            return
        self._seen.add(id(routine))
        self.modules.add(routine.unit)
        for name, value in routine.references():
            self._add(f"{routine.unit}.{name}", value)

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, Subroutine):
            self.follow(value)
        elif isinstance(value, Alternative):
            self._add(name, value.having)
            self._add(name, value.lacking)
        elif isinstance(value, Intrinsic):
            assert isinstance(value.build, FunctionType)
            self.modules.add(value.build.__module__)
        elif isinstance(value, ModuleType):
            if value.__name__.partition(".")[0] == _OURS:
                self.modules.add(value.__name__)
        elif isinstance(value, np.ndarray):
            digest = hashlib.sha256(value.tobytes()).hexdigest()
            self.constants.add(f"{name}={value.dtype}{value.shape}{digest}")
        elif isinstance(value, int | float | np.generic | tuple):
            self.constants.add(f"{name}={value!r}")
        else:
            raise TypeError(
                f"expected {name} to be a number, an array or a routine of compiled code, found {type(value)}"
            )
