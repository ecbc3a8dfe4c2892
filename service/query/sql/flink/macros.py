"""Functions and casts of Flink that DuckDB lacks, or computes otherwise, as macros of DuckDB.

Whatever Flink refuses is an error of a cast, as in the macros of Trino's dialect.

Source: Flink: StringToNumericPrimitiveCastRule, BinaryStringDataUtil, SqlFunctionUtils, AvgAggFunction.
"""

from __future__ import annotations

from service.query.sql.trino.macros import refused_if, scientific, shapes_of

PREFIX = "flink_"
_TEXT = "CAST(x AS VARCHAR)"


def _integer(kind: str, name: str) -> dict[str, str]:
    bad = f"typeof(x) = 'VARCHAR' AND NOT regexp_full_match(trim({_TEXT}), '[+-]?[0-9]+([.][0-9]*)?')"
    # The digits behind the point are cut, of texts as of numbers.
    cut = f"CAST(trunc(CAST({_TEXT} AS DOUBLE)) AS {kind})"
    of_text = f"CAST(split_part(trim({_TEXT}), '.', 1) AS {kind})"
    of_decimal = f"CAST(split_part({_TEXT}, '.', 1) AS {kind})"
    value = (
        f"CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN {cut} WHEN typeof(x) LIKE 'DECIMAL%' THEN {of_decimal} "
        f"WHEN typeof(x) = 'VARCHAR' THEN {of_text} ELSE CAST(x AS {kind}) END"
    )
    return {"x": refused_if(bad, f"'Cannot cast ''' || {_TEXT} || ''' to {name}'", value)}


def _string() -> dict[str, str]:
    is_nested = "typeof(x) LIKE '%]' OR typeof(x) LIKE 'STRUCT%' OR typeof(x) LIKE 'MAP%' OR typeof(x) LIKE '%TIME ZONE'"
    sentence = "'a value of the type ' || typeof(x) || ' as STRING is not known here: cast its parts, or use DATE_FORMAT'"
    size = f"abs(TRY_CAST({_TEXT} AS DOUBLE))"
    value = f"""CASE WHEN typeof(x) = 'BOOLEAN' THEN upper({_TEXT})
        {_timestamps()}
        WHEN typeof(x) NOT IN ('DOUBLE', 'FLOAT') THEN {_TEXT}
        WHEN {_TEXT} = 'inf' THEN 'Infinity' WHEN {_TEXT} = '-inf' THEN '-Infinity' WHEN {_TEXT} IN ('nan', '-nan') THEN 'NaN'
        WHEN {size} = 0 OR ({size} >= 1e-3 AND {size} < 1e7)
            THEN CASE WHEN contains({_TEXT}, '.') THEN {_TEXT} ELSE {_TEXT} || '.0' END
        ELSE {scientific(_TEXT)} END"""
    return {"x": refused_if(is_nested, sentence, value)}


def _timestamps() -> str:
    """Return the cases of timestamps, whose texts have all digits of their types."""
    digits = {"TIMESTAMP_MS": 3, "TIMESTAMP": 6, "TIMESTAMP_NS": 9}
    second, part = f"split_part({_TEXT}, '.', 1)", f"split_part({_TEXT}, '.', 2)"
    return " ".join(
        f"WHEN typeof(x) = '{kind}' THEN {second} || '.' || rpad({part}, {count}, '0')"
        for kind, count in digits.items()
    )


_SHAPES = {
    "array_contains": {
        "a, x": """CASE WHEN a IS NOT NULL THEN CASE WHEN x IS NULL THEN len(list_filter(a, LAMBDA e: e IS NULL)) > 0
            ELSE list_contains(a, x) END END"""
    },
    "avg": {
        **{
            f"x {kind}": f"CAST(sum(x) // count(x) AS {kind})"
            for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
        },
        "x DOUBLE": "avg(x)",
    },
    "integer_of_8": _integer("TINYINT", "TINYINT"),
    "integer_of_16": _integer("SMALLINT", "SMALLINT"),
    "integer_of_32": _integer("INTEGER", "INT"),
    "integer_of_64": _integer("BIGINT", "BIGINT"),
    "left": {"s, n": "left(s, greatest(n, 0))"},
    "moment_of_0": {"x": "make_timestamptz(CAST(x AS BIGINT) * 1000000)"},
    "moment_of_3": {"x": "make_timestamptz(CAST(x AS BIGINT) * 1000)"},
    "regexp_extract": {
        "s, p": "CASE WHEN regexp_matches(s, p) THEN regexp_extract(s, p) END",
        "s, p, g": "CASE WHEN regexp_matches(s, p) THEN regexp_extract(s, p, g) END",
    },
    # A replacement is a text: nothing in it refers to groups.
    "regexp_replace": {"s, p, r": "regexp_replace(s, p, replace(r, '\\', '\\\\'), 'g')"},
    "right": {"s, n": "right(s, greatest(n, 0))"},
    "split_index": {
        "s, d, i": "CASE WHEN i >= 0 AND i < len(string_split(s, d)) THEN string_split(s, d)[i + 1] END"
    },
    "string": _string(),
    "subscript": {
        "c, i": "CASE WHEN typeof(c) NOT LIKE '%]' OR TRY_CAST(CAST(i AS VARCHAR) AS BIGINT) > 0 THEN c[i] END"
    },
    "substr": {
        "s, f": "substring(s, CASE WHEN f = 0 THEN 1 ELSE f END)",
        "s, f, n": "CASE WHEN n >= 0 THEN substring(s, CASE WHEN f = 0 THEN 1 ELSE f END, n) END",
    },
}
MACROS = tuple(shapes_of(PREFIX + name, shapes) for name, shapes in _SHAPES.items())
