"""New savepoints in Azure Blob Storage and Google Cloud Storage, each in a server of its own: see `tests.catalog.test_stores`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from readers.storage.location import SavepointLocation
from tests.catalog.test_objectstore import outline
from tests.catalog.test_stores import AZURITE_KEY, Store, azurite, gcs
from tests.support.paths import DATA
from tests.writers.test_savepoint import AGGREGATE, contents, rows
from tests.writers.test_stores import write_interrupted
from writers import DropOperator, SavepointWriter, TargetExistsError

pytestmark = pytest.mark.slow

CANONICAL = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"


@pytest.fixture(scope="module", params=[azurite, gcs], ids=["abfs", "gs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_STORAGE_KEY", AZURITE_KEY)
        with request.param(tmp_path_factory.mktemp("store")) as found:
            yield found


@pytest.fixture
def outlined(tmp_path: Path) -> Path:
    """A savepoint whose state is in files."""
    shutil.copytree(CANONICAL, tmp_path / "outlined")
    outline(tmp_path / "outlined" / "_metadata")
    return tmp_path / "outlined"


def names(store: Store, folder: str) -> set[str]:
    selector = fs.FileSelector(store.path(folder), recursive=True, allow_not_found=True)
    return {info.base_name for info in store.files.get_file_info(selector) if info.is_file}


def test_a_savepoint_goes_there_is_changed_there_and_comes_back(
    store: Store, outlined: Path, tmp_path: Path
) -> None:
    SavepointWriter(SavepointLocation(outlined), []).write(store.url("first"))
    assert names(store, "first") == {path.name for path in outlined.iterdir()}

    SavepointWriter(SavepointLocation(store.url("first")), [DropOperator(AGGREGATE)]).write(
        store.url("second")
    )
    SavepointWriter(SavepointLocation(store.url("second")), []).write(tmp_path / "back")

    expected = {name: lines for name, lines in rows(outlined).items() if not name.startswith(AGGREGATE)}
    assert rows(tmp_path / "back") == expected
    assert names(store, "first") == contents(outlined).keys()


def test_what_is_there_is_refused_and_stays(store: Store, outlined: Path) -> None:
    store.put("taken/file", b"mine")

    with pytest.raises(TargetExistsError, match="expected a new folder, found"):
        SavepointWriter(SavepointLocation(outlined), []).write(store.url("taken"))

    assert names(store, "taken") == {"file"}


def test_a_file_that_is_not_written_to_its_end_leaves_nothing(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_interrupted(store.url("cancelled"))

    assert names(store, "cancelled") == set()
