"""`savepointdb mask`, and exports with masks."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import savepointdb
from service import cli
from service.doors.cli.serve import write_savepoints

JOB = "48e8699f2db5157b8448330694723bbe"
HEAD = 'version = 1\nsecret_file = "mask.key"\n'
KEY = '[[mask]]\ncolumns = ["customers.key"]\nwith = "pseudonym"\n'
TIME = '[[mask]]\ncolumns = ["*.value.lastOrder"]\nwith = "bucket(month)"\n'
REST = '[[mask]]\ncolumns = ["*.**"]\nwith = "keep"\n'


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with keys of customers, accounts, maps, timers and positions of Kafka."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    write_savepoints(folder)
    return folder / "orders" / JOB / "chk-5"


def file(folder: Path, text: str) -> Path:
    (folder / "mask.key").write_text("0123456789abcdef\n")
    (folder / "masks.toml").write_text(text)
    return folder / "masks.toml"


def test_each_column_is_listed_with_its_rule_and_a_sample(savepoint: Path, tmp_path: Path) -> None:
    found = savepointdb.mask(savepoint, file(tmp_path, HEAD + KEY + TIME)).to_dict()

    rows = {(row["table"], row["column"]): row for row in found["columns"]}
    key = rows["customers__account", "key"]
    assert (key["rule"], key["before"][:9]) == ("pseudonym", "customer-")
    assert re.fullmatch(r"[a-z]{8}-[0-9]{3}", key["after"])
    time = rows["customers__account", "value.lastOrder"]
    assert (time["rule"], time["before"][:10], time["after"]) == (
        "bucket(month)", "2026-11-01", "2026-11-01T00:00:00.000000000",
    )  # fmt: skip
    assert rows["customers__products", "map_key"]["rule"] is None
    assert "customers__products.map_key" in found["uncovered"]
    assert {row["rule"] for row in rows.values() if row["column"] == "key"} == {"pseudonym"}


def test_columns_without_a_rule_fail_a_file_that_refuses_them(
    savepoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = HEAD + 'default = "refuse"\n' + KEY

    assert cli.main(["mask", str(savepoint), str(file(tmp_path, refusing))]) == 1
    told = capsys.readouterr().out
    assert "not covered: customers__account.value.orders" in told
    assert 'default = "refuse": add rules' in told
    assert cli.main(["mask", str(savepoint), str(file(tmp_path, refusing + REST))]) == 0


def test_a_rule_for_no_column_and_a_rule_that_cannot_be_applied_are_named(
    savepoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = KEY.replace("customers.key", "customers__account.value.emial")
    assert cli.main(["mask", str(savepoint), str(file(tmp_path, HEAD + wrong))]) != 0
    assert "customers__account.value.emial" in capsys.readouterr().err

    unfit = TIME.replace("bucket(month)", "pseudonym")
    assert cli.main(["mask", str(savepoint), str(file(tmp_path, HEAD + unfit)), "--explain"]) == 1
    assert "problem: expected values that pseudonym can mask, found TIMESTAMP_NS" in capsys.readouterr().out


def test_no_file_of_an_export_with_masks_has_a_hidden_value(savepoint: Path, tmp_path: Path) -> None:
    masks = file(tmp_path, HEAD + KEY + '[[mask]]\ncolumns = ["*.map_key"]\nwith = "hash"\n')
    for name, mask in (("plain", None), ("masked", masks)):
        savepointdb.export(savepoint, tmp_path / name, mask=mask)

    def content(name: str) -> bytes:
        return b"".join(path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file())

    hidden = re.compile(rb"customer-\d|olives|coffee|cheese")
    assert hidden.search(content("plain"))
    assert hidden.search(content("masked")) is None
    keys = [
        set(pq.read_table(tmp_path / "masked" / table)["key"].to_pylist())
        for table in ("customers__account", "timers")
    ]
    assert len(keys[0]) == 200
    assert keys[0] == keys[1]
