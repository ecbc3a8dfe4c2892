"""`savepointdb.convert`: a savepoint for another Flink, from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import savepointdb
from tests.support.compatpairs import unpack_pairs

STATE = "value: Kryo<java.util.ArrayList> of Kryo 2 → Kryo<java.util.ArrayList> of Kryo 5"


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = "kryo-type-arraylist"
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), [name]) / name / "savepoints"


def test_a_savepoint_is_converted(savepoint: Path, tmp_path: Path) -> None:
    old, new = (savepoint / f"A-{version}-hashmap-canonical" for version in ("1.20.3", "2.3.0"))

    result = savepointdb.convert(old, tmp_path / "new", new, "2.3")

    assert (result.target, result.is_dry_run, result.left) == (str(tmp_path / "new"), False, ())
    assert [one.state.name for one in result.converted] == ["s"]
    assert repr(result).startswith(f"savepointdb: written: {tmp_path / 'new'}\n  ")
    assert f"    {STATE}\n" in repr(result)
    assert "Kryo&lt;java.util.ArrayList&gt; of Kryo 5" in result._repr_html_()
    assert json.loads(json.dumps(result.to_dict()))["converted"][0]["state_name"] == "s"
    assert savepointdb.check(old, new, values="all").exit_code in (1, 2)
    assert savepointdb.check(result, new, values="all").exit_code == 0


def test_a_dry_run_and_a_savepoint_that_needs_nothing_write_nothing(savepoint: Path, tmp_path: Path) -> None:
    with savepointdb.connect(savepoint / "A-1.20.3-hashmap-canonical") as db:
        result = db.convert(tmp_path / "new", savepoint / "A-2.3.0-hashmap-canonical", dry_run=True)
        assert result.summary is not None
    unneeded = savepointdb.convert(savepoint / "A-2.3.0-hashmap-canonical", tmp_path / "new")

    assert repr(result).startswith("savepointdb: nothing was written: a dry run\n")
    assert repr(unneeded) == "savepointdb: nothing was written\n  nothing to convert for Flink 2.3.0"
    assert (result.target, unneeded.target, unneeded.summary) == (None, None, None)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match="expected a savepoint that was written"):
        savepointdb.connect(unneeded)


def test_wrong_arguments_are_errors_of_the_package(savepoint: Path, tmp_path: Path) -> None:
    with savepointdb.connect(savepoint / "A-1.20.3-hashmap-canonical") as db:
        with pytest.raises(
            savepointdb.InvalidRequestError, match="expected DIR, the directory of the new savepoint"
        ):
            db.convert(None)
        with pytest.raises(savepointdb.InvalidRequestError, match="expected a version of Flink"):
            db.convert(tmp_path / "new", flink="two")
        with pytest.raises(savepointdb.InvalidRequestError, match="files"):
            db.convert(tmp_path / "new", files="move")
        with pytest.raises(savepointdb.SavepointError, match="a savepoint, a jar"):
            db.convert(tmp_path / "new", tmp_path / "nowhere")
        with pytest.raises(savepointdb.ConflictError, match="expected a new directory"):
            db.convert(tmp_path, savepoint / "A-2.3.0-hashmap-canonical")
