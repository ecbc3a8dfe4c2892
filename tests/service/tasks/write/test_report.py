"""The report of a write: small, whatever the savepoint holds."""

from __future__ import annotations

import json

from service.tasks.write.changes import Effect, Sample
from service.tasks.write.writing import Written
from writers import Summary


def written(*effects: Effect) -> Written:
    summary = Summary(operators=1, files=1, file_bytes=1, metadata_bytes=1, warnings=("look",))
    return Written(effects=effects, offsets=(), summary=summary)


def test_long_values_and_many_samples_are_cut() -> None:
    long = Sample(place={"key": "a"}, before={"value": "x" * 10**6}, after=None)
    effects = [Effect(table="t", removed=2, samples=(long, long), text="gone")] * 5000

    report = written(*effects).report()

    assert len(json.dumps(report)) < 3_000_000
    assert sum(len(one["samples"]) for one in report["statements"]) == 1000
    assert report["statements"][0]["samples"][0] == {
        "place": {"key": "a"},
        "before": {"value": "x" * 1000 + "…"},
        "after": None,
    }
    assert report["rows"] == 10_000
    assert max(map(len, written(*effects[:1]).lines())) < 1100


def test_lines_say_one_and_many_and_what_is_left_out() -> None:
    samples = tuple(
        Sample(place={"key": str(key)}, before={"value": "1"}, after={"value": "2"}) for key in range(30)
    )

    lines = list(written(Effect(table="t", changed=1234, samples=samples, text="changed")).lines())

    assert lines[0] == "changed"
    assert lines[1] == "  key 0: value 1 → 2"
    assert lines[-4:] == [
        "  … and 1,214 more",
        "1 operator, 1 file with 1 byte",
        "warning: look",
        "nothing was written: a dry run",
    ]
