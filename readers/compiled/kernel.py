"""`kernel`: a Python function that runs as machine code, compiled ahead of time or at its first call, and kept.

Object code is kept in files: one for each unit and identity, written whole or not at all, and checked when read.

| bytes | meaning |
|---|---|
| 32 | SHA-256 of the rest |
| u4 little endian | length of the next |
| JSON | `identity`; `kernels`: name → number of words it takes, its result |
| … | the object file |

A file that is cut short, damaged, or that another user than root could have written is not loaded: its unit is compiled
again and the file replaced. So the file and its folder belong to this user or to root, and no others may write them, not even a
group; the file is no link; and whatever is above them, links too, belongs to this user or to root. Several processes may write at
once: each writes a file of its own and renames it. If nothing can be written, the code serves this process only.

The identity of a unit is one hash of all that its object code depends on, so that stale code is never loaded. It covers the text of
each module that has a routine of the unit or is a module of constants, the values of the constants that routines use, the
versions of numba, LLVM, numpy and Python, the processor and its features, and the environment variables of numba, which change the
code it makes. A module whose constants are imported one by one counts by their values only: an edit there that changes none of
them compiles nothing again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite
import numpy as np

from readers.compiled.routines import (
    Alternative,
    Intrinsic,
    ObjectCode,
    Signature,
    Subroutine,
    load,
    logger,
    processor,
)
from readers.storage.temporary import CACHE_VARIABLE, cache_directory

_FORMAT = 3
"""Version of the files, and of the way that kernels are called."""
_OURS = __name__.partition(".")[0]
# Linux: vendor, family, model, and all features that the kernel knows. It takes no time to read, as /proc/cpuinfo may.
_MODEL = Path("/sys/devices/system/cpu/modalias")

_CHECKSUM_BYTES = 32
_KEPT_FILES = 8
"""Files of one unit: versions and machines that share the folder."""
_UNFINISHED = ".unfinished-"
_UNFINISHED_S = 3600
_ROOT = 0
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The programs of one user may share what they have compiled, and those of all users what root has.
_FOLDER_MODE = 0o755


class Kernel(Subroutine):
    """A function that Python calls with numbers and arrays, and that takes the address of each array."""

    _loading = threading.Lock()

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._call: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it, without the interpreter's lock.

        Raises:
            ValueError: an array is not in one piece.
        """
        call = self._call or self.load()
        return call(*[value if type(value) is int else _word(value) for value in arguments])

    def load(self) -> Callable[..., Any]:
        """Load it with the other kernels of its unit, compile them if need be, and return the function."""
        with Kernel._loading:
            if self._call is None:
                kernels = kernels_of(self.unit)
                functions = _functions_of(self.unit, kernels)
                for name, kernel in kernels.items():
                    kernel._call = functions[name]
            call = self._call
        assert call is not None
        return call


def kernel(function: Callable[..., Any]) -> Any:
    """Declare a function to be a kernel (decorator): it takes int64, and returns one or several int64, a bool or None."""
    assert isinstance(function, FunctionType)
    return Kernel(function)


def _word(value: Any) -> int:
    """Return the address of an array, or a number unchanged."""
    if not isinstance(value, np.ndarray):
        return int(value)
    # The kernel computes positions from the shape alone: it knows no strides.
    if not value.flags.c_contiguous:
        raise ValueError(
            f"expected an array in one piece, found one of shape {value.shape} and strides {value.strides}"
        )
    return int(value.__array_interface__["data"][0])


UNITS = (
    "readers.decode.machine.execute",
    "readers.decode.dictionaries",
    "readers.formats.full.index",
    "readers.formats.full.layout",
    "readers.formats.full.lockstep",
    "readers.formats.heap.lockstep",
    "readers.formats.changelog.log",
    "readers.formats.inflight",
    "readers.formats.rocksdb.sst.checksums",
    "readers.formats.rocksdb.sst.manifest",
    "readers.formats.rocksdb.sst.blocks",
    "readers.formats.rocksdb.sst.merge",
    "readers.differences",
    "readers.formats.rocksdb.sst.lockstep",
    "readers.surveys.keytable",
    "readers.surveys.needles",
)
"""The modules of this room that have kernels; the writers add theirs."""


def kernels_of(unit: str) -> dict[str, Kernel]:
    """Return the kernels that a module declares, by name."""
    declared = (value for value in vars(import_module(unit)).values() if isinstance(value, Kernel))
    return {kernel.function.__name__: kernel for kernel in declared if kernel.unit == unit}


def missing_units(units: Iterable[str] = UNITS) -> list[str]:
    """Return the units whose object code is not kept; compile none."""
    return [unit for unit in units if not is_kept(unit, kernels_of(unit))]


def compile_all(units: Iterable[str] = UNITS) -> None:
    """Load units, and compile those that are not kept; takes 30 seconds if none is."""
    for unit in units:
        # One kernel loads its whole unit.
        next(iter(kernels_of(unit).values())).load()


def _functions_of(unit: str, kernels: Mapping[str, Subroutine]) -> dict[str, Callable[..., Any]]:
    """Return the kernels of a unit as functions; compile them if no file has them."""
    identity = identity_of(kernels.values())
    paths = [folder / f"{unit}-{identity}.bin" for folder in folders()]
    code = next(filter(None, (_read(path, identity) for path in paths)), None)
    if code is None:
        code = _compile(unit, kernels)
        any(_write(path, identity, code) for path in paths)
    return load(code)


def folders() -> tuple[Path, ...]:
    """Return the folders to look in. Files are written to the first of them that can be written."""
    own = cache_directory()
    if os.environ.get(CACHE_VARIABLE):
        return (own / "kernels",)
    user = os.getuid() if hasattr(os, "getuid") else "cache"
    temporary = Path(tempfile.gettempdir()) / f"savepointdb-{user}"
    # A cache folder below `~` of a user without a home would be relative: below wherever the process was started.
    parents = [own, temporary] if own.is_absolute() else [temporary]
    return tuple(parent / "kernels" for parent in parents)


def is_kept(unit: str, kernels: Mapping[str, Subroutine]) -> bool:
    """Return whether a file has the kernels of a unit as they are now; compile nothing."""
    identity = identity_of(kernels.values())
    return any(_read(folder / f"{unit}-{identity}.bin", identity) is not None for folder in folders())


def _compile(unit: str, kernels: Mapping[str, Subroutine]) -> ObjectCode:
    logger.info("compiling the decoder for this processor, once: seconds, or a minute on a slow machine")
    logger.debug("compiling %s", unit)
    code = import_module("readers.compiled.compiler").compile_unit(unit, kernels)
    assert isinstance(code, ObjectCode)
    return code


def _read(path: Path, identity: str) -> ObjectCode | None:
    """Return the code in a file; None if the file is missing, damaged or not to be trusted."""
    try:
        if not _is_trusted_folder(path.parent):
            return None
        # The open file is asked, not its path, which another user could replace in between.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_trusted(status):
                return None
            content = file.read()
    except OSError:
        return None
    checksum, rest = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    if hashlib.sha256(rest).digest() != checksum:
        return None
    start = 4 + int.from_bytes(rest[:4], "little")
    header = json.loads(rest[4:start])
    if header["identity"] != identity:
        return None
    signatures = {
        name: Signature(parameters=parameters, returns=returns)
        for name, (parameters, returns) in header["kernels"].items()
    }
    return ObjectCode(signatures=signatures, code=rest[start:])


def _is_trusted(status: os.stat_result) -> bool:
    """Return whether only this user, or root, can have written a file or into a folder."""
    return _is_own(status) and not status.st_mode & _BY_OTHERS


def _is_own(status: os.stat_result) -> bool:
    """Return whether something belongs to this user or to root; always true where nothing has owners."""
    return not hasattr(os, "getuid") or status.st_uid in (os.getuid(), _ROOT)


def _is_trusted_folder(folder: Path) -> bool:
    """Return whether only this user, or root, can have put into a folder what is in it.

    Raises:
        OSError: it is not there.
    """
    whole = folder.absolute()
    above = {*whole.parents, *whole.resolve().parents}
    # No links are followed: another user may have made one to a folder that belongs to this user.
    return _is_trusted(whole.lstat()) and whole.is_dir() and all(_is_own(one.lstat()) for one in above)


def _make_folder(folder: Path) -> None:
    """Make a folder that is trusted, or make it trusted if it belongs to this user.

    Raises:
        OSError: it cannot be made, or is another user's.
    """
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    status = folder.lstat()
    if stat.S_ISDIR(status.st_mode) and _is_own(status) and status.st_mode & _BY_OTHERS:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~_BY_OTHERS)
    if not _is_trusted_folder(folder):
        raise PermissionError(errno.EACCES, "another user can write there")


def _write(path: Path, identity: str, code: ObjectCode) -> bool:
    """Keep object code in a file; return whether that was possible."""
    signatures = {name: (kernel.parameters, kernel.returns) for name, kernel in code.signatures.items()}
    header = json.dumps({"identity": identity, "kernels": signatures}).encode()
    rest = len(header).to_bytes(4, "little") + header + code.code
    try:
        _make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_UNFINISHED, delete=False) as file:
            try:
                file.write(hashlib.sha256(rest).digest() + rest)
                file.close()
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        logger.info("compiled code cannot be kept in %s: %s", path.parent, error.strerror)
        return False
    # Other processes remove files, too.
    with contextlib.suppress(OSError):
        _remove_old(path)
    return True


def _remove_old(path: Path) -> None:
    """Remove the oldest files of a unit beyond `_KEPT_FILES`, and unfinished files of processes that were killed."""
    unit, _, _ = path.name.partition("-")
    written = {file: file.stat().st_mtime for file in path.parent.iterdir() if file.is_file()}
    of_unit = [file for file in written if file.name.startswith(f"{unit}-")]
    of_unit.sort(key=written.__getitem__, reverse=True)
    # A file younger than an hour may be one that another process is writing.
    oldest = time.time() - _UNFINISHED_S
    unfinished = [file for file in written if file.name.startswith(_UNFINISHED) and written[file] < oldest]
    for file in (*of_unit[_KEPT_FILES:], *unfinished):
        file.unlink(missing_ok=True)


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
    # A copy of the names: another thread may change the environment.
    names = sorted(name for name in list(os.environ) if name.startswith("NUMBA_"))
    yield from (f"{name}={os.environ.get(name)}" for name in names)


def _processor() -> tuple[str, str]:
    """Return what the code depends on of this processor; without LLVM if possible, for its import takes as long as a lookup."""
    # Numpy asks the processor itself, as LLVM does; under an emulator the kernel's list is that of another one.
    found = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", None)
    try:
        model = _MODEL.read_text(encoding="ascii")
    except (OSError, ValueError):
        model = ""
    if not found or not model:
        return processor()
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
