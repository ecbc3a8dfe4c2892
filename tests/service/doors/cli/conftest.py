"""Commands, whose processes have nothing to compile."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def commands_find_all_compiled(compiled_decoder: None) -> None:
    """Lets no command say that it compiles."""
