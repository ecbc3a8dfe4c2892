"""The files of `examples` over the savepoints of the demo."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import savepointdb
from service.cli import main
from tests.support.paths import PROJECT

RULES, MASKS = (PROJECT / "examples" / name for name in ("rules.toml", "masks.toml"))


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", str(folder), "--no-serve"]) == 0
    return folder / "orders"


def test_the_rules_find_the_wrong_total(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["test", str(RULES), str(orders)])

    told = capsys.readouterr().out
    assert code == 1
    assert "VIOLATED    an order costs at most 50 euros (error)" in told
    assert "            customer-42      10  100008312" in told
    assert told.endswith("1 savepoint: 1 violation, 3 passed\n")


def test_the_masks_leave_no_customer(orders: Path, tmp_path: Path) -> None:
    (source,) = orders.glob("savepoint-*")
    target = tmp_path / "copy"

    assert main(["sample", str(source), "--to", str(target), "--fraction", "0.1", "--mask", str(MASKS)]) == 0

    sql = "SELECT key, value.totalCents % 1000 AS cents, value.lastOrder::DATE AS day FROM customers__account"
    with savepointdb.connect(target) as copy, savepointdb.connect(source) as before:
        rows = copy.sql(sql).arrow().to_pylist()
        known = {row["key"] for row in before.sql(sql).arrow().to_pylist()}
        timers = copy.sql("SELECT DISTINCT timestamp::DATE AS day FROM timers WHERE key IS NOT NULL").arrow()
    assert len(rows) > 5
    assert not {row["key"] for row in rows} & known
    assert {(row["cents"], row["day"]) for row in rows} == {(0, date(2026, 11, 1))}
    assert timers.to_pylist() == [{"day": date(2026, 12, 1)}]
    assert b"customer-" not in b"".join(file.read_bytes() for file in target.iterdir())
