"""The files of object code: one a unit and identity, written whole or not at all, and never believed unchecked.

| bytes | meaning |
|---|---|
| 32 | SHA-256 of the rest |
| u4 little endian | length of the next |
| JSON | `identity`; `kernels`: name → words it takes, what it returns |
| … | the object file |

A file that is cut short, damaged, or could have been written by another user (but root) is not loaded: its unit is compiled anew
and the file replaced. Any number of processes may do so at once: each writes a file of its own and renames it. Where nothing can
be written the code serves this process only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from readers.compiled.identity import identity_of
from readers.compiled.loading import ObjectCode, Signature, loaded
from readers.compiled.routines import Subroutine
from readers.storage.cachefolder import CACHE_VARIABLE, cache_directory

_CHECKSUM_BYTES = 32
_KEPT_FILES = 8
"""Of one unit: those of other versions and machines that share the folder."""
_UNFINISHED = ".unfinished-"
_UNFINISHED_S = 3600
_ROOT = 0

logger = logging.getLogger(__name__)
"""Tells what is compiled, and why compiled code cannot be kept."""


def functions_of(unit: str, kernels: Mapping[str, Subroutine]) -> dict[str, Callable[..., Any]]:
    """The kernels of a unit as functions; compiles them if no file has them."""
    identity = identity_of(kernels.values())
    paths = [folder / f"{unit}-{identity}.bin" for folder in folders()]
    code = next(filter(None, (_read(path, identity) for path in paths)), None)
    if code is None:
        code = _compile(unit, kernels)
        any(_write(path, identity, code) for path in paths)
    return loaded(code)


def folders() -> tuple[Path, ...]:
    """Where files are looked for; they are written to the first of these where that is possible."""
    own = cache_directory()
    if os.environ.get(CACHE_VARIABLE):
        return (own / "kernels",)
    user = os.getuid() if hasattr(os, "getuid") else "cache"
    places = [own] if own.is_absolute() else []
    return tuple(
        place / "kernels" for place in (*places, Path(tempfile.gettempdir()) / f"savepointdb-{user}")
    )


def is_kept(unit: str, kernels: Mapping[str, Subroutine]) -> bool:
    """Whether a file has the kernels of a unit as they are now; compiles nothing."""
    identity = identity_of(kernels.values())
    return any(_read(folder / f"{unit}-{identity}.bin", identity) is not None for folder in folders())


def _compile(unit: str, kernels: Mapping[str, Subroutine]) -> ObjectCode:
    logger.info("compiling %s, once: some seconds", unit)
    code = import_module("readers.compiled.compiler").compiled(unit, kernels)
    assert isinstance(code, ObjectCode)
    return code


def _read(path: Path, identity: str) -> ObjectCode | None:
    """What a file holds; None if it is not there or not what was written there."""
    try:
        with path.open("rb") as file:
            if not _is_trusted(os.fstat(file.fileno())):
                return None
            content = file.read()
    except OSError:
        return None
    checksum, rest = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    if hashlib.sha256(rest).digest() != checksum:
        return None
    image = 4 + int.from_bytes(rest[:4], "little")
    header = json.loads(rest[4:image])
    if header["identity"] != identity:
        return None
    signatures = {
        name: Signature(parameters=parameters, returns=returns)
        for name, (parameters, returns) in header["kernels"].items()
    }
    return ObjectCode(signatures=signatures, image=rest[image:])


def _is_trusted(status: os.stat_result) -> bool:
    """Whether code may be run: who else could have written it could do anything as this user anyway."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid in (os.getuid(), _ROOT) and not status.st_mode & stat.S_IWOTH


def _write(path: Path, identity: str, code: ObjectCode) -> bool:
    """Keep object code, if that is possible; whether it was."""
    signatures = {name: (found.parameters, found.returns) for name, found in code.signatures.items()}
    header = json.dumps({"identity": identity, "kernels": signatures}).encode()
    rest = len(header).to_bytes(4, "little") + header + code.image
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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
    with contextlib.suppress(OSError):
        _forget_old(path)
    return True


def _forget_old(path: Path) -> None:
    """Remove the oldest files of a unit where there are many, and what a process left that was killed while it wrote."""
    unit, _, _ = path.name.partition("-")
    written = {file: file.stat().st_mtime for file in path.parent.iterdir() if file.is_file()}
    of_unit = [file for file in written if file.name.startswith(f"{unit}-")]
    of_unit.sort(key=written.__getitem__, reverse=True)
    left = [file for file in written if file.name.startswith(_UNFINISHED)]
    for file in (
        *of_unit[_KEPT_FILES:],
        *(file for file in left if written[file] < time.time() - _UNFINISHED_S),
    ):
        file.unlink(missing_ok=True)
