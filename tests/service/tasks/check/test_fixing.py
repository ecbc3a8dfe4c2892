"""`check --fix`: what a check finds and a write can mend becomes a script. It is written, and the check is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

import savepointdb
from doctor import Change, Mend
from doctor.rules.rule import retype
from readers import EnumSerializer
from service import cli
from tests.support.compatpairs import unpack_pairs

FLINK = "2.3.0"
SAME_TYPES = "-- assumed, because both have the same types: "
ALTER = 'ALTER TABLE "probe__s" '
# Pair → the script, the severity before, and the severity of what it writes. A risk is one of the job's code, not of the script.
SCRIPTS = {
    "pojo-class-renamed": ([ALTER + "ALTER COLUMN value TYPE 'Pojo(app.Account: id Long, name String)';"], "fails", "risk"),
    "pojo-retype-long-string": ([ALTER + 'ALTER COLUMN value."id" TYPE VARCHAR;'], "fails", "risk"),
    "pojo-remove-field": ([ALTER + 'DROP COLUMN value."age";'], "loses", "risk"),
    "pojo-rename-field": (
        [SAME_TYPES + ALTER + 'RENAME COLUMN value."name" TO "fullName";', ALTER + 'RENAME COLUMN value."name" TO "fullName";'],
        "loses",
        "risk",
    ),
    "tuple-arity-less": ([ALTER + 'DROP COLUMN value."f2";'], "fails", "fine"),
    "state-renamed": ([SAME_TYPES + ALTER + "RENAME TO 'sum';", ALTER + "RENAME TO 'sum';"], "loses", "fine"),
    "state-removed-kryo-class-gone": (['DROP TABLE "probe__p";'], "fails", "fine"),
    "uid-changed": (
        [SAME_TYPES + "ALTER TABLE \"a\" RENAME TO 'b';", "ALTER TABLE \"a\" RENAME TO 'b';"],
        "fails",
        "fine",
    ),
    "op-removed": (['DROP TABLE "probe2";'], "fails", "fine"),
    "maxpar-down": (['ALTER TABLE "probe" SET (max_parallelism = 64);'], "fails", "fine"),
}  # fmt: skip
# What no statement may mend: a state that another operator has now, a type that no snapshot can be written of, operator state.
UNMENDED = ("op-swapped-uids", "kind-value-to-list", "kryo-class-renamed", "nested-retype-broadcast-value")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), (*SCRIPTS, *UNMENDED, "ttl-off-value"))


def sides(pairs: Path, pair: str, flink: str = FLINK) -> tuple[str, str]:
    """Return the savepoints of the old and of the new job."""
    savepoints = pairs / pair / "savepoints"
    return tuple(str(savepoints / f"{side}-{flink}-hashmap-canonical") for side in "AB")  # type: ignore[return-value]


@pytest.mark.parametrize("pair", SCRIPTS)
def test_a_script_mends_what_was_found(pairs: Path, tmp_path: Path, pair: str) -> None:
    old, new = sides(pairs, pair)
    script, before, after = SCRIPTS[pair]

    found = savepointdb.check(old, against=[new], flink=FLINK).to_dict()

    assert (found["severity"], found["fix"].splitlines()) == (before, script)

    savepointdb.write(old, tmp_path / "mended", found["fix"])
    again = savepointdb.check(tmp_path / "mended", against=[new], flink=FLINK).to_dict()

    assert (again["severity"], again["fix"]) == (after, "")


def test_ttl_is_switched_for_flink_1(pairs: Path, tmp_path: Path) -> None:
    old, new = sides(pairs, "ttl-off-value", "1.20.3")

    found = savepointdb.check(old, against=[new], flink="1.20.3").to_dict()
    savepointdb.write(old, tmp_path / "mended", found["fix"])

    assert found["fix"] == 'ALTER TABLE "df88ef990f4e9663399b797eeba6fc47__s" SET (ttl = false);\n'
    assert (
        savepointdb.check(tmp_path / "mended", against=[new], flink="1.20.3").to_dict()["severity"] == "fine"
    )


@pytest.mark.parametrize("pair", UNMENDED)
def test_what_no_write_mends_has_no_script(pairs: Path, pair: str) -> None:
    old, new = sides(pairs, pair)

    found = savepointdb.check(old, against=[new], flink=FLINK).to_dict()

    assert found["severity"] in ("fails", "loses")
    assert found["fix"] == ""


def test_a_state_that_may_be_another_is_a_comment(pairs: Path, tmp_path: Path) -> None:
    """A script removes the state that nothing declares, and leaves the operator that may have another uid."""
    old, _ = sides(pairs, "uid-changed")
    savepointdb.write(old, tmp_path / "job", "ALTER TABLE a__s RENAME TO other; ALTER TABLE a RENAME TO 'b'")

    found = savepointdb.check(old, against=[str(tmp_path / "job")], flink=FLINK).to_dict()

    assert found["fix"] == ""


def test_key_groups_change_although_a_state_that_may_be_elsewhere_stays(pairs: Path, tmp_path: Path) -> None:
    old, new = sides(pairs, "op-swapped-uids")
    script = "ALTER TABLE one SET (max_parallelism = 64); ALTER TABLE two SET (max_parallelism = 64)"
    savepointdb.write(new, tmp_path / "job", script)

    found = savepointdb.check(old, against=[str(tmp_path / "job")], flink=FLINK).to_dict()

    assert sorted(found["fix"].splitlines()) == [
        '-- not written, as the job may need these rows: DROP TABLE "one__s";',
        '-- not written, as the job may need these rows: DROP TABLE "two__z";',
        'ALTER TABLE "one" SET (max_parallelism = 64);',
        'ALTER TABLE "two" SET (max_parallelism = 64);',
    ]


def test_the_command_line_writes_the_script(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = sides(pairs, "pojo-rename-field")
    script = tmp_path / "fix.sql"

    code = cli.main(["check", old, "--against", new, "--fix", str(script)])

    told = capsys.readouterr()
    assert code == 1
    assert script.read_text().splitlines() == SCRIPTS["pojo-rename-field"][0]
    assert f"{script}: 1 statement, 1 assumed: read them first; run it with savepointdb write" in told.err
    assert (
        '         ALTER TABLE "probe__s" RENAME COLUMN value."name" TO "fullName";' in told.out.splitlines()
    )
    assert cli.main(["write", old, "--to", str(tmp_path / "mended"), "--file", str(script)]) == 0


def test_without_a_mend_no_script_is_written(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = sides(pairs, "kind-value-to-list")
    script = tmp_path / "fix.sql"

    code = cli.main(["check", old, "--against", new, "--fix", str(script)])

    assert code == 2
    assert "no script was written: there is nothing that a write can mend" in capsys.readouterr().err
    assert not script.exists()
    assert cli.main(["check", old, "--fix", str(tmp_path)]) in (0, 1)


def test_a_script_that_cannot_be_written_is_an_error(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = sides(pairs, "op-removed")

    code = cli.main(["check", old, "--against", new, "--fix", str(tmp_path)])

    assert code == 4
    assert f"--fix: cannot write {tmp_path}: Is a directory" in capsys.readouterr().err


def test_a_type_too_long_to_be_read_is_no_statement() -> None:
    colours = EnumSerializer("app.Colour", ("RED", "GREEN"))
    hostile = EnumSerializer("app.Colour", tuple(f"C{number}" for number in range(1_000)))

    assert retype(("value",), colours) == Mend(
        change=Change.RETYPE, path=("value",), value="Enum(app.Colour: RED, GREEN)"
    )
    assert retype(("value",), hostile) is None
