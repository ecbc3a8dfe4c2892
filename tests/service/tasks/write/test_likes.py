"""States of types that no script can name, made `LIKE` those of another savepoint: what we read, and what real Flink found in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from readers import Savepoint, operator_id_of
from service.cli import main
from tests.support.paths import DATA
from tests.support.restoring import RECORDED, VERSIONS
from tests.support.servedflink import served_flink
from tests.support.unpacked import unpacked

_AS_THEY_ARE = ("v_kryo", "v_avro", "v_pojo", "v_rowdata", "l_kryo")
_ENCODED = ("v_avro", "v_rowdata")
# The key of a value that is encoded anew is another one.
_OTHER_KEY = "SELECT 'k' || (2 - key[2:]::INT) AS key, value FROM other.likes__{}"


@dataclass(frozen=True, slots=True)
class Likes:
    """A script that makes states of an operator like those of another savepoint, for one Flink."""

    name: str
    version: str
    backend: str
    origin: str
    states: tuple[str, ...]
    query: str

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}-{self.backend}"

    def written(self, folder: Path) -> Path:
        source = DATA / "flink" / self.version / f"wordcount-{self.backend}-savepoints" / "native"
        other = unpacked(f"{self.version}-likes-{self.origin}", folder / "other").directory
        script = "; ".join(
            f"CREATE TABLE likes__{state} (LIKE other.likes__{state}) AS {self.query.format(state)}"
            for state in self.states
        )
        target = folder / "new"
        assert main(["write", str(source), script, "--savepoint", f"other={other}", "--to", str(target)]) == 0
        return target

    @property
    def recorded(self) -> Path:
        return RECORDED / f"{self.id}.json"


LIKES = tuple(
    like
    for version, backend in product(VERSIONS, ("hashmap", "rocksdb"))
    for like in (
        Likes(
            "like-as-it-is",
            version,
            backend,
            "rocksdb-native",  # subtasks on the heap know no subclasses
            _AS_THEY_ARE,
            "SELECT * FROM other.likes__{} WHERE key <> 'k1'",
        ),
        Likes("like-encoded", version, backend, "canonical", _ENCODED, _OTHER_KEY),
        Likes("like-encoded-pojo", version, backend, "rocksdb-native", ("v_pojo",), _OTHER_KEY),
    )
)


def shown(state: str, value: Any) -> str:
    """A value as we read it, in the words of the job."""
    if state == "v_avro":
        return json.dumps(value, ensure_ascii=False)
    if state == "v_rowdata":
        return "[{}]".format(
            ", ".join("null" if one is None else str(one) for one in list(value.values())[:3])
        )
    if state == "v_pojo":
        kind = (value["__class"] or "$Animal").rpartition("$")[2]
        own = {"Animal": "", "Dog": str(value["barks"]).lower(), "Bird": str(value["span"])}[kind]
        return f"{kind}({value['name']}, {value['legs']}){own}"
    return str(value)


def texts_of_ours(path: Path, states: tuple[str, ...]) -> dict[str, str]:
    """State and key → the value, or the elements of the list."""
    operator = next(one for one in Savepoint(path).operators if one.operator_id == operator_id_of("likes"))
    found: dict[str, Any] = {}
    for state in operator.states:
        for row in (row for batch in state.read() for row in batch.to_pylist()):
            place = f"{state.name} {row['key']}"
            if state.name.startswith("l_"):
                found.setdefault(place, []).append(shown(state.name, row["value"]))
            else:
                found[place] = shown(state.name, row["value"])
    return {
        place: f"[{', '.join(value)}]" if isinstance(value, list) else value
        for place, value in sorted(found.items())
    }


def texts_of_flink(lines: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """State and key → what the job found there; nothing of keys without a value."""
    for line in lines:
        if (
            line.get("phase") == "output"
            and line.get("operator") == "likes"
            and line["was"] not in (None, "[]")
        ):
            yield f"{line['descriptor']} {line['key']}", line["was"]


@pytest.mark.parametrize("like", LIKES, ids=lambda like: like.id)
def test_we_read_what_flink_found(like: Likes, tmp_path: Path) -> None:
    found = texts_of_ours(like.written(tmp_path), like.states)

    assert found == json.loads(like.recorded.read_text())


@pytest.mark.flink
@pytest.mark.parametrize("like", LIKES, ids=lambda like: like.id)
def test_flink_finds_the_values(like: Likes, tmp_path: Path) -> None:
    path = like.written(tmp_path)

    lines = served_flink(like.version).run(
        like.backend, "likes", "--from", str(path), "--emit", "1", "--allow-non-restored"
    )

    found = dict(sorted(texts_of_flink(lines)))
    assert found == texts_of_ours(path, like.states)
    if os.environ.get("RECORD"):
        like.recorded.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
