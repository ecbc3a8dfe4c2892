"""The commands of the README and of the documentation do what the pages show."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.compatpairs import unpack_pairs
from tests.support.consoles import Console, Session, comparable, consoles_of, expected_code
from tests.support.paths import DATA, PROJECT

pytestmark = pytest.mark.usefixtures("compiled_decoder")

DOCS = PROJECT / "docs"
PAGES = {"README.md": (PROJECT / "README.md").read_text(encoding="utf-8")} | {
    page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))
}
FLINK = DATA / "flink"
JOB = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
# Labelled restores, under the names of the page about checks.
CHECKED = (
    ("orders/savepoint-7", "pojo-rename-field", "A-2.3.0-rocksdb-canonical"),
    ("orders/next", "pojo-rename-field", "B-2.3.0-rocksdb-canonical"),
    ("clicks/savepoint-3", "kryo-type-arraylist", "A-1.20.3-rocksdb-canonical"),
)
# What is not run stands here, so that nothing is left out in silence.
NOT_RUN = {
    "README.md": ["it installs a package", "it installs, and runs these tests"],
    "guides/agents.md": ["it installs a package"],
    "index.md": ["it installs a package"],
    "guides/operations.md": ["it needs the bucket and the certificate of the settings above"],
    "guides/spark.md": ["it needs a Spark cluster"] * 2,
    "reference/stateinfo.md": ["it needs the jar of your job", "it needs protoc and a bucket in S3"],
    "guides/storage.md": ["it needs buckets in S3"],
    "guides/live.md": ["it needs a cluster"] * 2,
    "guides/test.md": ["it needs a bucket in S3, and a server"] * 2,
    "guides/upgrade.md": ["it needs savepoints of two jobs"],
    "guides/write-http.md": ["it needs a file of keys"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folders that the pages speak of."""
    shutil.copytree(
        FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native", tmp_path / "savepoints" / "savepoint-42"
    )
    shutil.copytree(
        FLINK / "1.20.3" / "wordcount-rocksdb-savepoints" / "native", tmp_path / "archive" / "savepoint-17"
    )
    shutil.copytree(
        FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "native", tmp_path / "kinds" / "savepoint-1"
    )
    for job in ("job", "copy"):
        shutil.copytree(JOB / "chk-1", tmp_path / job / "chk-41")
        shutil.copytree(JOB / "chk-2", tmp_path / job / "chk-42")
        shutil.copytree(JOB / "shared", tmp_path / job / "shared")
    retained = tmp_path / "checkpoints" / "jobA"
    shutil.copytree(JOB / "shared", retained / "shared")
    for number in range(38, 45):
        shutil.copytree(JOB / ("chk-1" if number < 41 else "chk-2"), retained / f"chk-{number}")
        made = datetime(2026, 9, 1, 12, 0, number, tzinfo=UTC).timestamp()
        os.utime(retained / f"chk-{number}" / "_metadata", (made, made))
    pairs = unpack_pairs(tmp_path / "pairs", ["pojo-rename-field", "kryo-type-arraylist"])
    for name, pair, savepoint in CHECKED:
        shutil.copytree(pairs / pair / "savepoints" / savepoint, tmp_path / name)
    shutil.copy(pairs / "pojo-rename-field" / "jars" / "B-2.3.0.jar", tmp_path / "orders" / "next.jar")
    rules = re.search(r"```toml\n(.*?)```", PAGES["guides/test.md"], re.DOTALL)
    assert rules is not None
    (tmp_path / "rules.toml").write_text(rules[1], encoding="utf-8")
    saved = re.search(r"```toml\n# queries.toml\n(.*?)```", PAGES["guides/links.md"], re.DOTALL)
    assert saved is not None
    (tmp_path / "queries.toml").write_text(saved[1], encoding="utf-8")
    (tmp_path / "etc").mkdir()
    counts = {"word": [f"word-{number}" for number in range(1000)], "n": list(range(1000))}
    parquet.write_table(pa.table(counts), tmp_path / "counts.parquet")
    (tmp_path / "words.csv").write_text("key,n\nkey_662,7\nkey_1,8\n", encoding="utf-8")
    (tmp_path / "uids.txt").write_text("aggregate\nsource\nmod7\n", encoding="utf-8")
    nodes = [{"id": "e5a72f353fc1e6bbf3bd96a41384998c", "description": "Source: source -&gt; aggregate"}]
    (tmp_path / "plan.json").write_text(json.dumps({"plan": {"nodes": nodes}}), encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if any(each.reason is None for each in consoles_of(page))]
)
def test_the_commands_of_a_page_show_what_it_says(name: str, folder: Path) -> None:
    with ExitStack() as stack:
        session = Session(folder, stack)
        for console in consoles_of(PAGES[name]):
            if console.reason is not None:
                continue
            shown = ""
            for command in console.commands:
                code, screen = session.run(command)
                shown += screen
                assert code == expected_code(command), f"{command}\n{screen}"
            if console.output:
                assert comparable(shown) == comparable(console.output), console.commands


def test_what_is_not_run_says_why() -> None:
    found = {
        name: [each.reason for each in consoles_of(page) if each.reason is not None]
        for name, page in PAGES.items()
    }

    assert {name: reasons for name, reasons in found.items() if reasons} == NOT_RUN


def test_every_fence_of_commands_is_found() -> None:
    for name, page in PAGES.items():
        consoles = consoles_of(page)
        assert len(consoles) == page.count("```console"), name
        assert all(each.commands for each in consoles), name


def test_a_fence_has_commands_and_what_they_show() -> None:
    page = "```console\n$ a b \\\n    c   # why\n$ d\nx\n\ny\n```\n\n<!-- not run: no d -->\n```console\n$ d\n```\n"

    assert consoles_of(page) == [
        Console(("a b \\\n    c   # why", "d"), "x\n\ny", None),
        Console(("d",), "", "no d"),
    ]
