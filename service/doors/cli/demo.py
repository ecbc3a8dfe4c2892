"""`savepointdb demo`: write the savepoints of two small jobs, and serve them.

`demo.tar.xz` beside this module holds what real Flink 2.3.0 wrote (`tests/flink/restore/demo.sh`):

    orders/       five checkpoints and a savepoint of a job that adds up orders by customer. A wrong order came before the third
                  checkpoint; before the fifth, the source jumped over records.
    wordcount/    a native savepoint of RocksDB
"""

from __future__ import annotations

import os
import shlex
import sys
import tarfile
import threading
import time
import urllib.request
import webbrowser
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from service.doors.cli import serve
from service.doors.cli.outcome import OK, WrongUsageError, ended

_JOBS = ("orders", "wordcount")
_WRITTEN = "written"
_START_S = 120.0


def main(options: Namespace) -> int:
    """Write the savepoints and serve them; return the exit code."""
    return ended(_demo, options)


def write_savepoints(folder: Path) -> bool:
    """Write the savepoints of the demo; return False if they are there already.

    Args:
        folder: becomes their folder; an existing one must be empty, or have them.

    Raises:
        WrongUsageError: something else is there.
    """
    if all((folder / job).is_dir() for job in _JOBS):
        return False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsageError(f"expected a new or empty folder, found something in {folder}")
    with tarfile.open(Path(__file__).with_name("demo.tar.xz")) as archive:
        for member in archive:
            path = folder / member.name
            if member.isdir():
                path.mkdir(parents=True)
                continue
            file = archive.extractfile(member)
            assert file is not None
            path.write_bytes(file.read())
            os.utime(path, (member.mtime, member.mtime))
    (folder / _WRITTEN).mkdir()
    return True


def _demo(options: Namespace) -> int:
    folder = Path(options.folder)
    verb = "wrote" if write_savepoints(folder) else "found"
    orders = shlex.quote(str(folder / "orders"))
    print(
        f"savepointdb {verb} the savepoints of two jobs in {folder}. One customer of the job orders has a wrong total:\n\n"
        f"  savepointdb lookup {orders} customer-42\n"
        f"  savepointdb history {orders} customer-42 --state account\n",
        flush=True,
    )
    if options.no_serve:
        return OK
    words = [word for job in _JOBS for word in ("--root", f"{job}={folder / job}")]
    words += ["--write-root", f"{_WRITTEN}={folder / _WRITTEN}", "--port", str(options.port)]
    if options.port and not options.no_browser and _has_screen():
        threading.Thread(target=_show, args=(f"http://127.0.0.1:{options.port}/",), daemon=True).start()
    return serve.main(options.parser_of("serve").parse_args(["serve", *words]))


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _show(address: str) -> None:
    """Open the page as soon as the service answers."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{address}healthz", timeout=5):
            webbrowser.open(address)
            return
        time.sleep(0.1)
