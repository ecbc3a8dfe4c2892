"""Random expressions in two dialects at once: Trino's text, and DuckDB's text that means the same.

Each form is a pair, or one text where both dialects have the same words for the same meaning. Add forms here.
"""

from __future__ import annotations

import random
import re

_HOLE = re.compile(r"<(\w+)>")
_Form = str | tuple[str, str]
_LEAVES: dict[str, list[_Form]] = {
    "int": ["0", "1", "7", "-3", "value", "_key_group", ("CAST(NULL AS INTEGER)", "NULL::INTEGER"), "100"],
    "double": [("2.5e0", "2.5::DOUBLE"), ("1e0", "1::DOUBLE"), ("CAST(value AS DOUBLE)", "value::DOUBLE"), "-0.5e0"],
    "text": ["'a'", "''", "'key_1'", "key", "'a_b_c'", ("CAST(NULL AS VARCHAR)", "NULL::VARCHAR"), "'äöü'"],
    "bool": ["TRUE", "FALSE", "value > 5", "key = 'key_662'", ("CAST(NULL AS BOOLEAN)", "NULL::BOOLEAN")],
    "date": ["DATE '2020-01-31'", "DATE '1969-12-31'", "DATE '2024-02-29'"],
    "time": ["TIMESTAMP '2020-06-01 01:02:03.004'", "TIMESTAMP '1969-12-31 23:59:59.500'", "TIMESTAMP '2024-02-29 00:00:00'"],
}  # fmt: skip
_FORMS: dict[str, list[_Form]] = {
    "int": [
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>)", "abs(<int>)", "coalesce(<int>, <int>)", "nullif(<int>, <int>)",
        "CASE WHEN <bool> THEN <int> ELSE <int> END", ("if(<bool>, <int>, <int>)", "CASE WHEN <bool> THEN <int> ELSE <int> END"),
        ("(<int> / 4)", "trunc(<int> / 4)::BIGINT"), ("mod(<int>, 5)", "(<int> % 5)"), "length(<text>)",
        ("strpos(<text>, 'e')", "instr(<text>, 'e')"), ("position('_' IN <text>)", "instr(<text>, '_')"),
        ("CAST(<text> AS INTEGER)", "<text>::INTEGER"), ("TRY_CAST(<text> AS INTEGER)", "TRY_CAST(<text> AS INTEGER)"),
        ("greatest(<int>, 3)", "CASE WHEN (<int>) IS NULL THEN NULL ELSE greatest(<int>, 3) END"), "sign(<int>)",
        "year(<date>)", "month(<time>)", "day(<date>)", "hour(<time>)", "minute(<time>)", "second(<time>)", "quarter(<date>)",
        ("day_of_week(<date>)", "isodow(<date>)"), ("day_of_year(<date>)", "dayofyear(<date>)"), "week(<date>)",
        "date_diff('day', <date>, <date>)", "extract(year FROM <time>)", ("cardinality(ARRAY[1, <int>])", "2"),
        ("ARRAY[<int>, 2][1]", "<int>"), ("element_at(ARRAY[1, 2], 5)", "NULL::INTEGER"), ("bitwise_and(<int>, 6)", "(<int> & 6)"),
    ],
    "double": [
        "(<double> + <double>)", "(<double> * <int>)", "(<double> - <double>)", "sqrt(abs(<double>))", "floor(<double>)", "ceil(<double>)",
        ("(<double> / 4e0)", "(<double> / 4)"), ("power(<double>, 2)", "pow(<double>, 2)"), "-(<double>)", "abs(<double>)",
        ("to_unixtime(<time>)", "epoch(<time>)"), ("truncate(<double>)", "trunc(<double>)"),
    ],
    "text": [
        "upper(<text>)", "lower(<text>)", "<text> || <text>", "replace(<text>, 'e', 'x')", "reverse(<text>)", "trim(<text>)",
        ("substr(<text>, 2)", "substring(<text>, 2)"), ("substr(<text>, 2, 3)", "substring(<text>, 2, 3)"),
        ("concat(<text>, 'x')", "(<text> || 'x')"), ("CAST(<int> AS VARCHAR)", "<int>::VARCHAR"), "coalesce(<text>, 'n')",
        ("split_part(<text>, '_', 1)", "split_part(<text>, '_', 1)"), ("CAST(<date> AS VARCHAR)", "<date>::VARCHAR"),
        "CASE WHEN <bool> THEN <text> ELSE 'n' END", ("lpad(<text>, 4, '*')", "lpad(<text>, 4, '*')"), "concat_ws('-', <text>, 'b')",
        ("regexp_extract(<text>, '[0-9]+')", "nullif(regexp_extract(<text>, '[0-9]+'), '')"),
        ("date_format(<time>, '%Y-%m-%d')", "strftime(<time>, '%Y-%m-%d')"),
    ],
    "bool": [
        "<int> = <int>", "<int> < <int>", "<int> <> <int>", "<text> = <text>", "<text> < <text>", "<text> LIKE 'k%_1'", "NOT (<bool>)",
        "(<bool> AND <bool>)", "(<bool> OR <bool>)", "<int> BETWEEN 1 AND <int>", "<int> IN (1, 2, <int>)", "(<int>) IS NULL",
        "(<text>) IS NOT NULL", "<int> IS DISTINCT FROM <int>", "starts_with(<text>, 'k')", "<date> < <date>", "<time> >= <time>",
        ("regexp_like(<text>, '^k')", "regexp_matches(<text>, '^k')"), ("contains(ARRAY[1, 2], <int>)", "list_contains([1, 2], <int>)"),
        "<double> > <double>",
    ],
    "date": [
        ("date_add('day', 3, <date>)", "(<date> + 3)"), ("CAST(<time> AS DATE)", "<time>::DATE"),
        ("date_trunc('month', <date>)", "date_trunc('month', <date>)::DATE"), ("<date> + INTERVAL '2' DAY", "(<date> + 2)"),
        ("last_day_of_month(<date>)", "last_day(<date>)"), "coalesce(<date>, <date>)",
    ],
    "time": [
        "date_trunc('hour', <time>)", "<time> + INTERVAL '1' DAY", "<time> - INTERVAL '3' HOUR",
        ("date_add('minute', 5, <time>)", "<time> + INTERVAL 5 MINUTE"),
        ("CAST(<date> AS TIMESTAMP)", "<date>::TIMESTAMP"), "date_trunc('month', <time>)",
    ],
}  # fmt: skip


class Pairs:
    """Random expressions of Trino and of DuckDB with one meaning; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self, depth: int = 2) -> tuple[str, str]:
        """Return (Trino's text, DuckDB's text)."""
        return self._of(self._random.choice(tuple(_LEAVES)), self._random.randint(1, depth))

    def _of(self, kind: str, depth: int) -> tuple[str, str]:
        form = self._random.choice(_FORMS[kind] if depth > 0 else _LEAVES[kind])
        trino, duckdb = (form, form) if isinstance(form, str) else form
        # The n-th hole of a kind has the same expression in both texts.
        fillings: dict[tuple[str, int], tuple[str, str]] = {}

        def filled(text: str, side: int) -> str:
            counts: dict[str, int] = {}

            def fill(hole: re.Match[str]) -> str:
                counts[hole[1]] = count = counts.get(hole[1], 0) + 1
                # DuckDB's text may repeat the only hole of a kind.
                place = hole[1], min(count, trino.count(hole[0]) or 1)
                if place not in fillings:
                    fillings[place] = self._of(hole[1], depth - 1)
                return fillings[place][side]

            return _HOLE.sub(fill, text)

        return filled(trino, 0), filled(duckdb, 1)
