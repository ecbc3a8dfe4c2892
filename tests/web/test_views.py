"""The parts of a savepoint: overview, keys, timers, offsets, x-ray."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.asking import Watch, tree_item

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
UUID = "00000000-0000-0001-ffff-ffffffffffff"
OF_UUIDS = "6bb72153642da68b6c6a1b86154be702"


def view(name: str, **values: str) -> str:
    """The fragment of a view."""
    return f"#/{name}?{urlencode(values)}"


def table(page: Page, caption: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a plain table."""
    region = page.get_by_role("region", name=caption)
    expect(region.locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    return cells(region.locator("thead tr"))[0], cells(region.locator("tbody tr"))


def cells(rows: Locator) -> list[list[str]]:
    """The texts of all cells."""
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def test_the_overview_says_what_is_in_a_savepoint(opened: Opened) -> None:
    page = opened(view("overview", db="native"))

    expect(page.locator(".cards")).to_be_visible()
    cards = {
        card.locator("dt").inner_text(): card.locator("dd").first.inner_text()
        for card in page.locator(".cards > div").all()
    }
    assert cards.pop("Written")
    assert cards == {
        "Checkpoint": "2",
        "Size": "70 kB",
        "Operators": "3",
        "States": "3",
        "Files": "22",
        "Not decoded": "0",
        "Backend": "rocksdb",
    }
    head, rows = table(page, "Operators")
    assert head == ["Operator", "uid", "States", "Parallelism", "Size", "Largest subtask"]
    assert rows == [
        ["aggregate", "aggregate", "1", "2 of 128", "41 kB", "1.01 × the mean"],
        ["mod7-no-uid", "–", "1", "2 of 128", "27 kB", "1.00 × the mean"],
        ["Source: word-source", "source", "1", "2 of 128", "1.1 kB", "1.00 × the mean"],
    ]
    steps = page.get_by_role("navigation", name="Where this is").get_by_role("listitem")
    expect(steps).to_have_text(["Jobs", "native", "native"])
    page.get_by_role("link", name="X-ray").click()
    sizes = page.get_by_role("img", name="Sizes: aggregate 41 kB")
    expect(sizes).to_be_visible()
    expect(page.get_by_role("img", name="Bytes by operator and subtask.")).to_be_visible()


def test_a_newer_savepoint_that_cannot_be_read_is_told(opened: Opened) -> None:
    page = opened(view("overview", db="latest"))
    note = page.get_by_role("note")

    expect(note).to_have_text(
        re.compile(
            r"chk-7 is newer than \w+, but cannot be read: expected a _metadata file that begins with .*"
        )
    )
    latest = note.inner_text().split()[4].rstrip(",")
    page.get_by_label("Database").select_option("words" if latest == "native" else "native")
    expect(note).to_have_count(0)
    page.get_by_role("link", name="Query", exact=True).click()
    expect(tree_item(page, "latest").locator(".warning")).to_have_text("skips 1 unreadable")


def test_inside_an_operator_skew_and_large_keys_are_seen(opened: Opened) -> None:
    page = opened("db/native#xray")

    _, states = table(page, "States of the operator")
    assert states == [
        ["count", "≈ 1,000", "≈ 16 kB", "1.02 × the mean", "2.05 × the mean", "0 %", "sst properties"]
    ]
    _, keys = table(page, "The largest keys")
    assert keys[0] == ["key_100", "count", "1", "18 B"]
    assert table(page, "Keys of the states")[1] == [["count", "1,000", "1,000", "18 B", "0 %"]]
    expect(page.get_by_role("img", name="entries by state and key group.")).to_be_visible()
    page.get_by_label("Measure").select_option("bytes")
    expect(page.get_by_role("img", name="bytes by state and subtask.")).to_be_visible()

    page.get_by_role("combobox", name="Operator").select_option(label="mod7-no-uid")
    expect(page.get_by_role("region", name="States of the operator")).to_contain_text("seen")
    _, states = table(page, "States of the operator")
    assert states[0][:2] == ["seen", "≈ 7"]
    assert "skewed" not in states[0][3]
    page.reload()
    expect(page.get_by_role("region", name="States of the operator")).to_contain_text("seen")


def test_a_large_key_leads_to_its_page(opened: Opened) -> None:
    page = opened("db/native#xray")

    page.get_by_role("region", name="The largest keys").get_by_role("link", name="key_100").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("key_100")
    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", "101"]]


def test_a_key_is_shown_checkpoint_beside_checkpoint(opened: Opened) -> None:
    names = ["chk-1", "chk-2", "native"]
    page = opened(view("keys", dbs="\n".join(names)))
    key = page.get_by_role("textbox", name="Key")
    expect(page.get_by_text("Type a key to see")).to_be_visible()

    key.fill("key_662")
    page.keyboard.press("Enter")

    head, rows = table(page, "Entries of aggregate")
    assert head == ["State", "Kind", *names]
    assert rows == [["count", "VALUE", "6774", "11290", "11290"]]
    assert "key=key_662" in page.url


def test_only_the_chosen_checkpoints_are_read(opened: Opened) -> None:
    page = opened(view("keys", key="key_662", dbs="chk-1\nchk-2\nnative"))
    expect(page.get_by_role("region", name="Entries of aggregate")).to_be_visible()

    page.get_by_text("Checkpoints and savepoints:").click()
    page.get_by_role("button", name="None").click()
    page.get_by_role("checkbox", name="chk-1").check()
    page.get_by_role("checkbox", name="chk-2").check()
    page.get_by_role("button", name="Find").click()

    expect(page.get_by_role("columnheader", name="native")).to_have_count(0)
    assert table(page, "Entries of aggregate") == (
        ["State", "Kind", "chk-1", "chk-2"],
        [["count", "VALUE", "6774", "11290"]],
    )


def test_a_number_is_a_key_of_operators_with_numbers(opened: Opened) -> None:
    page = opened(view("keys", key="5", dbs="native"))

    assert table(page, "Entries of mod7-no-uid")[1] == [["seen", "VALUE", "14425"]]
    expect(page.get_by_role("region", name="Entries of aggregate")).to_have_count(0)


def test_a_struct_has_states_lists_maps_and_timers(opened: Opened) -> None:
    page = opened(view("keys", key='{"f1": 1, "f0": "t1"}', dbs="states"))

    head, rows = table(page, "Entries of e0e1113689a400d25b7611dd94ef14a1")
    assert head == ["State", "Kind", "Map key, index or time", "states"]
    assert rows[:3] == [
        ["val", "VALUE", "", "10"],
        ["red", "REDUCING", "", "22"],
        ["agg", "AGGREGATING", "", "f0\n22\nf1\n4"],
    ]
    assert ["map", "MAP", "m10", "20"] in rows
    assert ["list", "LIST", "#3", "10"] in rows
    assert ["processing timer of user-timers", "TIMER", "2100-01-01T00:00:00.001", "registered"] in rows


def test_a_uuid_is_found_in_both_spellings_with_its_timers(opened: Opened) -> None:
    page = opened(view("keys", key=UUID, dbs="states"))

    _, rows = table(page, f"Entries of {OF_UUIDS}")
    assert len(rows) == 27
    assert sum(row[1] == "TIMER" for row in rows) == 9

    page.get_by_role("textbox", name="Key").fill(f'"{UUID}"')
    page.get_by_role("button", name="Find").click()

    expect(page).to_have_url(re.compile("key=%22"))
    assert table(page, f"Entries of {OF_UUIDS}")[1] == rows


def test_part_of_a_struct_is_told_what_is_missing_and_how_keys_look(opened: Opened) -> None:
    page = opened(view("keys", key='{"f0": "t1"}', dbs="states"))

    expect(page.get_by_text(": expected the fields f0, f1; f1 is missing.")).to_be_visible()
    page.get_by_role("button", name='{"f0":"t', exact=False).first.click()
    expect(page.get_by_role("region", name="Entries of").first).to_be_visible()


def test_a_key_in_windows_has_a_row_a_window(opened: Opened) -> None:
    page = opened(view("keys", key="w1", dbs="states"))

    expect(page.get_by_role("columnheader", name="Window").first).to_be_visible()
    windows = page.locator("td", has_text="1970-01-01T00:00:").all_inner_texts()
    assert any(" – " in text for text in windows)


def test_text_is_a_key_of_sql_operators_with_one_key_column(opened: Opened) -> None:
    page = opened(view("keys", key="k1", dbs="sql"))

    expect(page.get_by_role("region", name="Entries of").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_windows_of_sql_are_shown_as_times(opened: Opened) -> None:
    page = opened(view("keys", key="k1", dbs="sql"))

    expect(page.get_by_role("columnheader", name="Window").first).to_be_visible()
    expect(page.get_by_role("cell", name="– 2024-01-01 00:03:00", exact=True).first).to_be_visible()
    expect(page.get_by_role("cell", name="1704067380000", exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("no such key", "No operator has state for this key."),
        ("' OR 1=1 --", "No operator has state for this key."),
        ("99999999999999999999999", "No operator has state for this key."),
        ('{"f0": ', "No operator has state for this key."),
    ],
)
def test_a_key_that_nothing_has_is_told(opened: Opened, key: str, told: str) -> None:
    page = opened(view("keys", key=key, dbs="native"))

    expect(page.get_by_text(told)).to_be_visible()
    expect(page.locator(".likeness")).to_contain_text(
        re.compile(r"Keys here look like \d \(mod7-no-uid\), key_\d+ \(aggregate\)")
    )
    page.get_by_text("1 operator with keys of another type").click()
    expect(page.get_by_role("region", name="Operators with keys of another type")).to_contain_text("INTEGER")


def test_timers_are_drawn_over_time(opened: Opened) -> None:
    page = opened(view("timers", db="states"))

    head, rows = table(page, "Timers by operator and service")
    assert head == ["Operator", "Service", "Domain", "Timers", "First", "Last"]
    own = [row for row in rows if row[0].startswith("0dca6fdf")]
    assert [row[1:] for row in own] == [
        ["user-timers", "event", "13", "2001-09-09 01:46:40", "2001-09-09 01:46:40.011"],
        ["user-timers", "processing", "12", "2100-01-01 00:00:00", "2100-01-01 00:00:00.011"],
    ]
    assert sum(int(row[3]) for row in rows) == 448
    expect(page.locator("figure canvas")).to_have_count(len(rows))


def test_a_savepoint_without_timers_says_so(opened: Opened) -> None:
    page = opened(view("timers", db="native"))

    expect(page.get_by_text("No timer is registered in this savepoint.")).to_be_visible()


def test_source_offsets_stand_checkpoint_beside_checkpoint(opened: Opened) -> None:
    page = opened(view("offsets", dbs="chk-1\nchk-2"))

    head, rows = table(page, "Source offsets")
    assert head == ["Source", "Connector", "Topic or split", "Partition", "chk-1", "chk-2"]
    assert len(rows) == 4
    assert all(row[1:3] == ["kafka", "words"] for row in rows)


def test_a_view_of_a_savepoint_that_is_gone_says_so(opened: Opened, watch: Watch) -> None:
    watch.expected.add("404")
    page = opened(view("overview", db="gone"))

    expect(page.get_by_role("alert")).to_contain_text("there is no database 'gone'")
    expect(page.get_by_label("Database")).to_have_value("gone")


def test_choosing_a_database_changes_the_address(opened: Opened) -> None:
    page = opened(view("timers", db="native"))
    expect(page.get_by_text("No timer is registered")).to_be_visible()

    page.get_by_label("Database").select_option("states")

    expect(page.get_by_role("region", name="Timers by operator and service")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/db/states#timers$"))
    page.go_back()
    expect(page.get_by_text("No timer is registered")).to_be_visible()
