"""Our code for executors: what `service.spark` and `service.tasks.copies.export.files` import of ours, as a zip.

Their dependencies (numpy, numba, pyarrow, …) must be installed on the workers, or sent as `spark.archives` with the setting
`spark_options`. `unpack.py` describes the layout of the zip.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import catalog
import doctor
import readers
import service
import writers
from service.query.engines.spark import unpack

_PACKAGES = (service, doctor, catalog, writers, readers)


def write_packages(path: Path) -> Path:
    """Write the zip and return `path`."""
    modules = sorted(
        {
            *_modules(service, "__init__.py"),
            *_modules(service, "spark/**/*.py"),
            *_modules(service, "base/__init__.py"),
            *_modules(service, "base/catalogtables.py"),
            *_modules(service, "base/restorecheck.py"),
            *_modules(service, "base/rowgroups.py"),
            *_modules(service, "tasks/__init__.py"),
            *_modules(service, "tasks/copies/__init__.py"),
            *_modules(service, "tasks/copies/export/__init__.py"),
            *_modules(service, "tasks/copies/export/files/*.py"),
            *_modules(doctor, "**/*.py"),
            *_modules(catalog, "**/*.py"),
            *_modules(writers, "**/*.py"),
            *_modules(readers, "**/*.py"),
        }
    )
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in modules:
            # The digest is the name of the folder on executors: the same code is unpacked and compiled once a machine.
            content = file.read_bytes()
            digest.update(f"{name} {len(content)} ".encode() + content)
            archive.writestr(f"{unpack.PACKAGES}/{name}", content)
        for package in _PACKAGES:
            archive.write(unpack.__file__, f"{package.__name__}/__init__.py")
        archive.comment = digest.hexdigest()[:32].encode()
    return path


def package_folders() -> list[Path]:
    """Return the folders in which this process found our packages."""
    return list(dict.fromkeys(_folder(package) for package in _PACKAGES))


def _modules(package: Any, pattern: str) -> Iterator[tuple[str, Path]]:
    folder = _folder(package)
    for file in (folder / package.__name__).glob(pattern):
        yield str(file.relative_to(folder)), file


def _folder(package: Any) -> Path:
    return Path(package.__file__).parent.parent
