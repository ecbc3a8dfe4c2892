"""What the object code of a unit depends on, as one hash: code that does not fit is never loaded.

In it: the text of every module that has a part of the unit or gives it constants, the values of those constants, the versions of
numba, LLVM, numpy and Python, and the processor with what it can do. Environment variables of numba change what it makes, and
count, too.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite
import numpy as np
from llvmlite import binding

from readers.compiled.routines import Alternative, Intrinsic, Subroutine

_FORMAT = 1
"""Of the files, and of how kernels are called."""
_OURS = __name__.partition(".")[0]


def identity_of(kernels: Iterable[Subroutine]) -> str:
    """64 hex digits for these kernels on this machine."""
    dependencies = _Dependencies()
    for kernel in kernels:
        dependencies.follow(kernel)
    texts = {name: _source(sys.modules[name]) for name in dependencies.modules}
    texts["compiler"] = _source(sys.modules[__name__], "compiler.py")
    found = hashlib.sha256()
    for part in (*_environment(), *sorted(dependencies.constants)):
        found.update(f"{len(part)}:{part};".encode())
    for name in sorted(texts):
        found.update(f"{name}:{len(texts[name])}:".encode() + texts[name])
    return found.hexdigest()


def _source(module: ModuleType, beside: str | None = None) -> bytes:
    """The text of a module, or of another file in its folder; also out of an archive."""
    path = str(module.__file__)
    loader: Any = module.__loader__
    return bytes(loader.get_data(path if beside is None else os.path.join(os.path.dirname(path), beside)))


def _environment() -> Iterable[str]:
    """What of the machine and of what is installed matters."""
    numba = find_spec("numba")
    yield str(_FORMAT)
    yield Path(str(numba.origin)).with_name("_version.py").read_text() if numba else ""
    yield from (llvmlite.__version__, np.__version__, sys.version, sys.platform, platform.machine())
    yield binding.get_default_triple()
    yield binding.get_host_cpu_name()
    yield binding.get_host_cpu_features().flatten()
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))


class _Dependencies:
    """What parts refer to, however deep.

    Attributes:
        modules: where parts and their constants stand.
        constants: module, name and value of each.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.constants: set[str] = set()
        self._seen: set[int] = set()

    def follow(self, part: Subroutine) -> None:
        """Take what a part depends on."""
        if id(part) in self._seen:
            return
        self._seen.add(id(part))
        self.modules.add(part.unit)
        for name, value in part.references():
            self._take(f"{part.unit}.{name}", value)

    def _take(self, name: str, value: Any) -> None:
        if isinstance(value, Subroutine):
            self.follow(value)
        elif isinstance(value, Alternative):
            self._take(name, value.having)
            self._take(name, value.lacking)
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
                f"expected {name} to be a number, an array or a part of compiled code, found {type(value)}"
            )
