"""The folder for the temporary files of one task of a client."""

from __future__ import annotations

from readers import TemporaryFolder
from service.base.errors import EngineUnavailableError


def task_folder(parent: str) -> TemporaryFolder:
    """Return a folder for one task of a client.

    Raises:
        EngineUnavailableError: it cannot be made.
    """
    try:
        return TemporaryFolder(parent)
    except OSError as error:
        raise EngineUnavailableError(f"expected a folder for temporary files: {error.strerror}") from error
