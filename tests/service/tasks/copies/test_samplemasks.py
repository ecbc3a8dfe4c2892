"""`savepointdb sample --mask`: rows with masks in every kind of state, and nothing of what they hide in any byte."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import catalog
import savepointdb
from catalog.masks.masks import Masks
from readers import Operator, Savepoint, StateName
from service.cli import main
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from tests.writers.keyed.test_sampling import Rows, rows_of
from tests.writers.test_elsewhere import check
from tools.synthetic.savepoints import write_savepoint
from writers import RefusedEditError, RewriteKeyedState, SavepointWriter

EVERYTHING = DATA / "flink/2.3.0/everything-rocksdb-savepoints/canonical"
WORDS = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"
LONGEST_KEPT = 5  # characters of a text that may occur by accident


def masks(folder: Path, *rules: str, default: str = "keep") -> Path:
    """A file of masks with a secret beside it."""
    (folder / "mask.key").write_text("0123456789abcdef" * 2, encoding="utf-8")
    head = f'version = 1\nsecret_file = "mask.key"\ndefault = "{default}"\n'
    (folder / "masks.toml").write_text(
        head + "".join(f"[[mask]]\n{rule}\n" for rule in rules), encoding="utf-8"
    )
    return folder / "masks.toml"


def copy(source: Path, target: Path, mask: Path, *options: str) -> int:
    return main(["sample", str(source), "--to", str(target), "--mask", str(mask), *options])


def bytes_in(folder: Path) -> bytes:
    """The bytes of all files, and their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"\n".join(part for path in files for part in (path.name.encode(), path.read_bytes()))


def test_no_masked_text_is_in_any_byte_of_the_copy(tmp_path: Path) -> None:
    mask = masks(tmp_path, 'columns = ["aggregate.key"]\nwith = "pseudonym"')
    with savepointdb.connect(WORDS) as savepoint:
        keys = [key for (key,) in savepoint.sql("SELECT key FROM aggregate__count").fetchall()]

    assert copy(WORDS, tmp_path / "new", mask, "--fraction", "1", "--parallelism", "1") == 0

    found, before = bytes_in(tmp_path / "new"), bytes_in(WORDS)
    hidden = [key.encode() for key in keys if len(key) > LONGEST_KEPT]
    assert len(hidden) > 900
    assert [key for key in hidden if key in found] == []
    # The search finds what is there.
    assert any(key in before for key in hidden)


def test_no_masked_text_of_pojos_lists_and_maps_is_in_any_byte(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "source", 200)
    mask = masks(
        tmp_path,
        'columns = ["aggregate.key", "*__account.value.name", "*__events.value", "*__perday.map_key"]\nwith = "pseudonym"',
    )

    assert copy(tmp_path / "source", tmp_path / "new", mask, "--fraction", "1") == 0

    found, before = bytes_in(tmp_path / "new"), bytes_in(tmp_path / "source")
    hidden = [f"account holder {number}" for number in range(200)]
    hidden += [f"key_{number}" for number in range(10, 200)] + ["20240101", "20240104"]
    hidden += [f"event_{number}" for number in range(600)]
    assert [text for text in hidden if text.encode() not in before] == []
    assert [text for text in hidden if text.encode() in found] == []


def test_every_kind_of_state_has_the_masks_of_its_rows(tmp_path: Path) -> None:
    mask = masks(
        tmp_path,
        'columns = ["kinds.key", "kinds.map_key", "broadcast.map_key", "broadcast.value.f1"]\nwith = "pseudonym"\ngroup = "a"',
        'columns = ["kinds__value.value", "kinds__list.value"]\nwith = "constant(7)"',
    )

    assert copy(EVERYTHING, tmp_path / "new", mask, "--fraction", "1") == 0

    before, after = rows_of(EVERYTHING), rows_of(tmp_path / "new")
    assert counts(after) == counts(before)
    with savepointdb.connect(tmp_path / "new") as new, savepointdb.connect(EVERYTHING) as old:
        values = "SELECT DISTINCT value FROM kinds__value UNION SELECT DISTINCT value FROM kinds__list"
        assert new.sql(values).fetchall() == [(7,)]
        keys = "SELECT DISTINCT key FROM kinds__{} ORDER BY 1"
        masked = new.sql(keys.format("value")).fetchall()
        for state in ("list", "map", "reducing", "aggregating"):
            assert new.sql(keys.format(state)).fetchall() == masked
        assert masked != old.sql(keys.format("value")).fetchall()
        timers = "SELECT DISTINCT key FROM timers WHERE operator_uid = 'kinds' ORDER BY 1"
        assert set(new.sql(timers).fetchall()) <= set(masked)
        # A lookup goes to the key group of the masked key.
        [(key,), *_] = masked
        found = "SELECT count(*) FROM kinds__value WHERE key = ?"
        assert new.sql(found, parameters=[key]).fetchall() == [(1,)]


STATE_OF_SOURCE = 'columns = ["source.value.**"]\nwith = "pseudonym"'
POSITIONS = ("topic", "partition", "starting_offset", "stopping_offset", "details")


def positions(mask: Path) -> set[tuple[object, ...]]:
    """What `source_offsets` says of the state of a source, as an analyst sees it."""
    [database] = catalog.Catalog([catalog.Root(path=str(WORDS))]).known()
    found = database.masked(Masks.load(mask)).table("source_offsets").scan().to_arrow().to_pylist()
    assert {row["operator_uid"] for row in found} == {"source"}
    return {tuple(row[name] for name in POSITIONS) for row in found}


@pytest.mark.parametrize("default", ["keep", "refuse"])
def test_positions_of_a_source_are_hidden_with_its_state(tmp_path: Path, default: str) -> None:
    other = masks(tmp_path, 'columns = ["aggregate.key"]\nwith = "pseudonym"')
    assert {row[0] for row in positions(other)} == {"words"}

    assert positions(masks(tmp_path, STATE_OF_SOURCE, default=default)) == {(None,) * len(POSITIONS)}


def test_positions_have_the_masks_of_their_own_rules(tmp_path: Path) -> None:
    own = 'columns = ["source_offsets.topic"]\nwith = "constant(a topic)"'

    assert {row[:1] for row in positions(masks(tmp_path, own, STATE_OF_SOURCE))} == {("a topic",)}


def test_a_copy_needs_a_rule_for_the_state_behind_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = 'columns = ["source_offsets.topic"]\nwith = "null"'

    assert copy(WORDS, tmp_path / "new", masks(tmp_path, own), "--fraction", "1") == 1
    assert (
        "expected a rule for the state of the source source, found source_offsets.topic"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "new").exists()
    assert copy(WORDS, tmp_path / "new", masks(tmp_path, own, STATE_OF_SOURCE), "--fraction", "1") == 0
    assert b"words" not in bytes_in(tmp_path / "new")


def test_masks_are_the_same_under_one_secret_and_others_under_another(tmp_path: Path) -> None:
    rule = 'columns = ["aggregate.key"]\nwith = "pseudonym"'
    mask = masks(tmp_path, rule)
    for name in ("a", "b"):
        assert copy(WORDS, tmp_path / name, mask, "--fraction", "0.1") == 0
    (tmp_path / "mask.key").write_text("f" * 32, encoding="utf-8")
    assert copy(WORDS, tmp_path / "c", mask, "--fraction", "0.1") == 0

    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b") != rows_of(tmp_path / "c")


def test_rows_that_go_take_their_timers_or_elements_alone(tmp_path: Path) -> None:
    mask = masks(tmp_path, 'columns = ["kinds__list.value", "kinds__map.value"]\nwith = "drop-row"')

    assert copy(EVERYTHING, tmp_path / "new", mask, "--fraction", "1") == 0

    with savepointdb.connect(tmp_path / "new") as new, savepointdb.connect(EVERYTHING) as old:
        assert new.sql("SELECT count(*) FROM kinds__list").fetchall() == [(0,)]
        left = "SELECT count(*) FROM kinds__map WHERE value IS NULL"
        assert new.sql("SELECT count(*) FROM kinds__map").fetchall() == old.sql(left).fetchall()


@pytest.mark.parametrize(
    ("rules", "default", "expected"),
    [
        (('columns = ["aggregate__count.nothing"]\nwith = "null"',), "keep", "expected a column"),
        (('columns = ["nothing.key"]\nwith = "null"',), "keep", "found none called nothing.key"),
        (('columns = ["aggregate.key"]\nwith = "constant(x)"',), "keep", "two keys could become one"),
        (
            ('columns = ["aggregate__count.value"]\nwith = "shuffle"',),
            "keep",
            "found shuffle for aggregate__count",
        ),
        (('columns = ["aggregate.key"]\nwith = "pseudonym"',), "refuse", "value"),
        (('columns = ["aggregate__count.value"]\nwith = "null"',), "keep", "expected a value, found NULL"),
    ],
)
def test_masks_that_cannot_be_written_are_refused(
    rules: tuple[str, ...], default: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = masks(tmp_path, *rules, default=default)

    assert copy(WORDS, tmp_path / "new", mask, "--fraction", "0.5") != 0

    assert expected in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_timers_in_raw_keyed_state_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = unpacked("1.20.3-heaptimers-chk-2", tmp_path / "source").directory
    mask = masks(tmp_path, 'columns = ["*.key"]\nwith = "pseudonym"')

    assert copy(source, tmp_path / "new", mask, "--fraction", "0.5") != 0
    assert "has timers in raw keyed state, whose keys cannot be masked" in capsys.readouterr().err


def test_a_write_masks_all_that_its_script_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = masks(tmp_path, 'columns = ["aggregate.key"]\nwith = "pseudonym"')
    written, sampled = tmp_path / "written", tmp_path / "sampled"

    script = "ALTER TABLE aggregate RENAME TO 'counts'; UPDATE source_offsets SET starting_offset = 7"
    assert main(["write", str(WORDS), script, "--to", str(written), "--mask", str(mask)]) == 0
    assert copy(WORDS, sampled, mask, "--fraction", "1") == 0
    with savepointdb.connect(written) as one, savepointdb.connect(sampled) as other:
        sql = "SELECT key, value FROM {} ORDER BY key"
        assert (
            one.sql(sql.format("counts__count")).fetchall()
            == other.sql(sql.format("aggregate__count")).fetchall()
        )
        assert one.sql("SELECT DISTINCT starting_offset FROM source_offsets").fetchall() == [(7,)]

    change = "UPDATE aggregate__count SET value = 0"
    assert main(["write", str(WORDS), change, "--to", str(tmp_path / "no"), "--mask", str(mask)]) != 0
    assert "expected a script that changes no rows" in capsys.readouterr().err


class Same:
    """A mask that makes one key of all."""

    masks_key, is_whole = True, False

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        index = batch.schema.get_field_index("key")
        return batch.set_column(index, batch.schema.field(index), pa.array(["x"] * len(batch)))


class Louder:
    """A mask of keys."""

    masks_key, is_whole = True, False

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        index = batch.schema.get_field_index("key")
        keys = [f"{key}!" for key in batch.column(index).to_pylist()]
        return batch.set_column(index, batch.schema.field(index), pa.array(keys))


def aggregate(source: Path) -> Operator:
    [operator] = [one for one in Savepoint(source).operators if one.metadata.uid == "aggregate"]
    return operator


def test_two_keys_that_would_become_one_are_an_error(tmp_path: Path) -> None:
    operator = aggregate(WORDS)
    edit = RewriteKeyedState(operator=operator, masks={StateName(name="count"): Same()})

    with pytest.raises(RefusedEditError, match="expected masks that keep keys apart"):
        SavepointWriter(Savepoint(WORDS).location, [edit]).write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_other_processes_mask_the_same(tmp_path: Path) -> None:
    def edits() -> list[RewriteKeyedState]:
        return [RewriteKeyedState(operator=aggregate(WORDS), masks={StateName(name="count"): Louder()})]

    check(WORDS, edits, tmp_path)


def counts(rows: Rows) -> dict[tuple[str, str], int]:
    return {name: sum(found.values()) for name, found in rows.items()}
