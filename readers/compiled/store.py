"""The files of object code: one for each unit and identity, written whole or not at all, and checked when read.

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
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from readers.compiled.identity import identity_of
from readers.compiled.loading import ObjectCode, Signature, load
from readers.compiled.routines import Subroutine, logger
from readers.storage.temporary import CACHE_VARIABLE, cache_directory

_CHECKSUM_BYTES = 32
_KEPT_FILES = 8
"""Files of one unit: versions and machines that share the folder."""
_UNFINISHED = ".unfinished-"
_UNFINISHED_S = 3600
_ROOT = 0
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The programs of one user may share what they have compiled, and those of all users what root has.
_FOLDER_MODE = 0o755


def functions_of(unit: str, kernels: Mapping[str, Subroutine]) -> dict[str, Callable[..., Any]]:
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
