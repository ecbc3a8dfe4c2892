"""Keys that Kryo wrote: plain text in every table, found by their text."""

from __future__ import annotations

import catalog
from tests.support.paths import DATA

ALL_STATES = DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical"
UUID = "00000000-0000-0001-ffff-ffffffffffff"


def test_a_uuid_key_is_found_by_its_text_in_one_key_group() -> None:
    database = catalog.connect(ALL_STATES, uids=["kinds-uuid-kryo"])

    scan = database.table("kinds-uuid-kryo").scan(["state_name", "key"], key=UUID)
    rows = scan.to_arrow().to_pylist()

    assert len(rows) == 18
    assert {row["key"] for row in rows} == {UUID}
    assert len(scan.key_groups) == 1
    assert database.table("timers").scan(["key"], key=UUID).to_arrow().num_rows == 9
