"""Pages of memory maps that are gone, because their file became shorter while it was read.

A process that touches such a page gets SIGBUS, which ends it. That is right for workers of a service: another process tells the client.
A program that is alone asks for `survive_lost_pages`: then a handler puts zeros in the place of all pages behind the first lost one,
and remembers the file. What was read is worthless from then on, so readers ask `check_lost_pages` before rows leave them, writers before a
new savepoint is published, and the program at its end.

The handler is a function of Python that C calls in the thread that touched the page. That is allowed here, and not in most handlers:
the signal comes from a read of the map, never from the middle of the allocator, and the thread may have or take Python's lock.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import weakref
from contextlib import suppress

import numpy as np

from readers.errors import FileChangedError

# glibc and musl, on processors with 64 bits: the handler, a mask of 1,024 bits, flags, and a pointer of the library's own.
_FLAGS_AT, _ACTION_BYTES = 8 + 128, 8 + 128 + 8 + 8
_WITH_INFORMATION = 4  # SA_SIGINFO
_ADDRESS_AT = 16  # in siginfo_t
_FAILED = ctypes.c_void_p(-1).value


class _Maps:
    """The maps of files of this process, while it survives lost pages."""

    def __init__(self) -> None:
        self.lost: str | None = None
        self._known: dict[int, tuple[int, str]] = {}
        self._libc = ctypes.CDLL(None)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
        )  # fmt: skip
        self._libc.sigaction.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self._replace)
        self._before = ctypes.create_string_buffer(_ACTION_BYTES)

    def watch(self) -> None:
        """Handle SIGBUS from now on."""
        action = bytearray(_ACTION_BYTES)
        action[:8] = (ctypes.cast(self._function, ctypes.c_void_p).value or 0).to_bytes(8, sys.byteorder)
        action[_FLAGS_AT : _FLAGS_AT + 4] = _WITH_INFORMATION.to_bytes(4, sys.byteorder)
        self._libc.sigaction(signal.SIGBUS, bytes(action), self._before)

    def add(self, mapped: mmap.mmap, path: str) -> None:
        """Know a map, as long as it lives."""
        address = int(np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0])
        entry = (-(-len(mapped) // mmap.PAGESIZE) * mmap.PAGESIZE, path)
        self._known[address] = entry
        weakref.finalize(mapped, self._forget, address, entry).atexit = False

    def _forget(self, address: int, entry: tuple[int, str]) -> None:
        # Another map may be there by now.
        if self._known.get(address) is entry:
            del self._known[address]

    def _replace(self, _number: int, information: int, _context: int) -> None:
        touched = ctypes.c_size_t.from_address(information + _ADDRESS_AT).value
        page = touched // mmap.PAGESIZE * mmap.PAGESIZE
        for address, (size, path) in list(self._known.items()):
            if address <= touched < address + size:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
                made = self._libc.mmap(page, address + size - page, mmap.PROT_READ, flags, -1, 0)
                if made != _FAILED:
                    self.lost = self.lost or path
                    return
        # None of ours: the read happens again, and ends the process, or is handled by whoever was here before.
        self._libc.sigaction(signal.SIGBUS, self._before.raw, None)


_MAPS: list[_Maps] = []


def survive_lost_pages() -> None:
    """Survive the loss of pages from now on, in programs that call `check_lost_pages`.

    Nothing is done on systems other than Linux, and where the system allows no functions that are made while a program runs.
    """
    if sys.platform.startswith("linux") and sys.maxsize > 2**32 and not _MAPS:
        with suppress(OSError, MemoryError, AttributeError):
            maps = _Maps()
            maps.watch()
            _MAPS.append(maps)


def watch_map(mapped: mmap.mmap, path: str) -> None:
    """Watch the pages of a map of a file; nothing happens where nobody survives their loss."""
    for maps in _MAPS:
        maps.add(mapped, path)


def check_lost_pages() -> None:
    """Refuse all that this process has read, if pages were lost.

    Raises:
        FileChangedError: a file became shorter while it was read.
    """
    for maps in _MAPS:
        if maps.lost is not None:
            raise _error(maps.lost)


def take_lost_pages() -> FileChangedError | None:
    """Return the error of `check_lost_pages`, and forget it: it is told once, in the place of any other that it led to."""
    for maps in _MAPS:
        path, maps.lost = maps.lost, None
        if path is not None:
            return _error(path)
    return None


def _error(path: str) -> FileChangedError:
    return FileChangedError(
        "the file became shorter while it was read, and what was read of it is wrong; try again when nothing changes it",
        path=path,
    )
