"""Functions and casts of Trino and Flink that DuckDB lacks, or knows by the same name with another meaning, as macros of DuckDB.

A macro may have several shapes: by the number of its arguments, and by their types, where the type of the result follows theirs.
Whatever Trino or Flink refuses is an error of a cast, because `error()` cannot stand within TRY;
`service.query.engines.duckdb.errors` takes the sentence out of it.

Source: Trino: StringFunctions, DateTimeFunctions, JsonFunctions, VarcharOperators, DoubleOperators, ArraySubscriptOperator.
Source: Flink: StringToNumericPrimitiveCastRule, BinaryStringDataUtil, SqlFunctionUtils, AvgAggFunction.
"""

from __future__ import annotations

import re

PREFIX = "trino_"
_FAILURE = re.compile(r"\[Trino: (.*?)\]['\"] ", re.DOTALL)
_TIMESTAMPS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP")
_ZONED = ("TIMESTAMPTZ", "TIMESTAMPTZ_NS")
_FIELDS_OF_DATES = ("day", "week", "month", "quarter", "year")
_FIELDS_OF_TIMES = ("millisecond", "second", "minute", "hour")
_STEPS = {
    "millisecond": "to_milliseconds(n)", "second": "to_seconds(n)", "minute": "to_minutes(n)",
    "hour": "to_hours(n)", "day": "to_days(CAST(n AS INTEGER))", "week": "to_weeks(CAST(n AS INTEGER))",
    "month": "to_months(CAST(n AS INTEGER))", "quarter": "to_months(CAST(3 * n AS INTEGER))",
    "year": "to_years(CAST(n AS INTEGER))",
}  # fmt: skip
# A timestamp of nanoseconds without its digits below a microsecond: DuckDB's own cast rounds them.
_BELOW = "((epoch_ns(x) % 1000 + 1000) % 1000)"
_MICROSECONDS = f"make_timestamp((epoch_ns(x) - {_BELOW}) // 1000)"


def failure(sentence: str) -> str:
    """Return the text whose cast is the error that Trino has."""
    return f"[Trino: {sentence}]"


def sentence_of(message: str) -> str | None:
    """Return the sentence in DuckDB's message about such a cast; None for other messages."""
    found = _FAILURE.search(message)
    return found[1] if found else None


def refused_if(bad: str, sentence: str, value: str) -> str:
    """Return an expression that is an error where a condition holds; the sentence is an expression, too."""
    error = f"CAST('[Trino: ' || {sentence} || ']' AS BOOLEAN)"
    return f"CASE WHEN CASE WHEN {bad} THEN {error} ELSE FALSE END THEN NULL ELSE {value} END"


def _field(fields: tuple[str, ...], kind: str, value: str) -> str:
    known = f"lower(u) IN ({', '.join(map(repr, fields))})"
    return refused_if(f"NOT {known}", f"'''' || u || ''' is not a valid {kind} field'", value)


def _step(fields: tuple[str, ...]) -> str:
    cases = " ".join(f"WHEN '{field}' THEN {_STEPS[field]}" for field in fields)
    return f"CASE lower(u) {cases} END"


def shapes_of(name: str, shapes: dict[str, str]) -> str:
    """Return the definition of a macro; each shape is its parameters and its value."""
    return f"CREATE MACRO {name}" + ", ".join(
        f"({parameters}) AS ({value})" for parameters, value in shapes.items()
    )


def _date_trunc() -> dict[str, str]:
    timestamp = (*_FIELDS_OF_TIMES, *_FIELDS_OF_DATES)
    shapes = {"u, x DATE": _field(_FIELDS_OF_DATES, "DATE", "CAST(date_trunc(u, x) AS DATE)")}
    for kind in (*_TIMESTAMPS, *_ZONED):
        shapes[f"u, x {kind}"] = _field(timestamp, "TIMESTAMP", f"CAST(date_trunc(u, x) AS {kind})")
    floor = f"CAST(date_trunc(u, {_MICROSECONDS}) AS TIMESTAMP_NS)"
    shapes["u, x TIMESTAMP_NS"] = _field(timestamp, "TIMESTAMP", floor)
    shapes["u, x TIME"] = _field(
        _FIELDS_OF_TIMES, "TIME", "CAST(date_trunc(u, DATE '1970-01-01' + x) AS TIME)"
    )
    return shapes


def _date_add() -> dict[str, str]:
    timestamp = (*_FIELDS_OF_TIMES, *_FIELDS_OF_DATES)
    step, days = _step(timestamp), _step(_FIELDS_OF_DATES)
    shapes = {"u, n, x DATE": _field(_FIELDS_OF_DATES, "DATE", f"CAST(x + {days} AS DATE)")}
    for kind in (*_TIMESTAMPS, "TIMESTAMPTZ"):
        shapes[f"u, n, x {kind}"] = _field(timestamp, "TIMESTAMP", f"CAST(x + {step} AS {kind})")
    shapes["u, n, x TIMESTAMP_NS"] = _field(timestamp, "TIMESTAMP", _nanoseconds(step))
    shapes["u, n, x TIME"] = _field(_FIELDS_OF_TIMES, "TIME", f"x + {_step(_FIELDS_OF_TIMES)}")
    return shapes


def _date_diff() -> dict[str, str]:
    timestamp = (*_FIELDS_OF_TIMES, *_FIELDS_OF_DATES)
    difference = "date_sub(lower(u), x, y)"
    return {
        "u, x DATE, y DATE": _field(_FIELDS_OF_DATES, "DATE", difference),
        "u, x TIMESTAMP, y TIMESTAMP": _field(timestamp, "TIMESTAMP", difference),
        "u, x TIMESTAMPTZ, y TIMESTAMPTZ": _field(timestamp, "TIMESTAMP", difference),
        "u, x TIME, y TIME": _field(_FIELDS_OF_TIMES, "TIME", difference),
    }


def _plus() -> dict[str, str]:
    has_time = "x + i <> date_trunc('day', x + i)"
    sentence = "'Cannot add hour, minutes or seconds to a date'"
    shapes = {"x DATE, i": refused_if(has_time, sentence, "CAST(x + i AS DATE)")}
    for kind in (*_TIMESTAMPS, "TIMESTAMPTZ"):
        shapes[f"x {kind}, i"] = f"CAST(x + i AS {kind})"
    shapes["x TIMESTAMP_NS, i"] = _nanoseconds("i")
    shapes["x TIME, i"] = "x + i"
    shapes["x INTERVAL, i"] = "x + i"
    return shapes


def _nanoseconds(step: str) -> str:
    return f"make_timestamp_ns(epoch_ns({_MICROSECONDS} + {step}) + {_BELOW})"


def scientific(text: str) -> str:
    """Return the text of a finite double, as Java writes it with an exponent: `1.5E-5` for DuckDB's `1.5e-05` and for `0.000015`."""
    # Two parts: before and behind `e`; digits without the point; the exponent of the first digit that is not 0.
    mantissa = f"ltrim(split_part({text}, 'e', 1), '-')"
    whole, fraction = f"split_part({mantissa}, '.', 1)", f"split_part({mantissa}, '.', 2)"
    digits = f"({whole} || {fraction})"
    leading = f"(length({digits}) - length(ltrim({digits}, '0')))"
    power = f"(CAST(coalesce(nullif(split_part({text}, 'e', 2), ''), '0') AS INTEGER) + length({whole}) - 1 - {leading})"
    kept = f"rtrim(ltrim({digits}, '0'), '0')"
    sign = f"CASE WHEN starts_with({text}, '-') THEN '-' ELSE '' END"
    return f"""CASE WHEN {kept} = '' THEN {sign} || '0.0E0'
        ELSE {sign} || left({kept}, 1) || '.' || coalesce(nullif(substring({kept}, 2), ''), '0')
            || 'E' || CAST({power} AS VARCHAR) END"""


def _text(value: str) -> str:
    """Return the text of a value as Trino casts it: doubles as 1.5E10, timestamps with all digits of their type."""
    text = f"CAST({value} AS VARCHAR)"
    sign = f"CASE WHEN starts_with({text}, '-') THEN '-' ELSE '' END"
    double = f"""CASE WHEN {text} = 'nan' THEN 'NaN' WHEN ends_with({text}, 'inf') THEN {sign} || 'Infinity'
        ELSE {scientific(text)} END"""
    head, tail = f"split_part({text}, '.', 1)", f"split_part({text}, '.', 2)"

    def padded(count: int) -> str:
        return f"CASE WHEN isfinite(TRY_CAST({value} AS TIMESTAMP)) THEN {head} || '.' || rpad({tail}, {count}, '0') ELSE {text} END"

    zoned = f"split_part({text}, '+', 1)"
    zoned_text = f"split_part({zoned}, '.', 1) || '.' || rpad(split_part({zoned}, '.', 2), 6, '0') || ' UTC'"
    # DuckDB computes constants of all branches.
    valid = f"CASE WHEN json_valid({text}) THEN {text} END"
    json = f"""CASE WHEN json_type({valid}) IN ('ARRAY', 'OBJECT')
        THEN CAST('[Trino: Cannot cast JSON to varchar: it is ' || lower(json_type({valid})) || ']' AS BOOLEAN)::VARCHAR
        ELSE json_extract_string({valid}, '$') END"""
    return f"""CASE typeof({value}) WHEN 'DOUBLE' THEN {double} WHEN 'FLOAT' THEN {double}
        WHEN 'TIMESTAMP_MS' THEN {padded(3)} WHEN 'TIMESTAMP' THEN {padded(6)} WHEN 'TIMESTAMP_NS' THEN {padded(9)}
        WHEN 'TIMESTAMP WITH TIME ZONE' THEN {zoned_text} WHEN 'JSON' THEN {json}
        ELSE {text} END"""


def _integer(kind: str, name: str) -> dict[str, str]:
    text = "CAST(x AS VARCHAR)"
    bad = f"typeof(x) = 'VARCHAR' AND NOT regexp_full_match({text}, '[+-]?[0-9]+')"
    rounded = f"CAST(round(CAST({text} AS DOUBLE)) AS {kind})"
    value = f"CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN {rounded} ELSE CAST(x AS {kind}) END"
    return {"x": refused_if(bad, f"'Cannot cast ''' || {text} || ''' to {name}'", value)}


def _subscript() -> dict[str, str]:
    index, is_list, is_map = "CAST(i AS VARCHAR)", "typeof(c) LIKE '%]'", "typeof(c) LIKE 'MAP(%'"
    length = "json_array_length(to_json(c))"
    below = f"{is_list} AND TRY_CAST({index} AS BIGINT) < 1"
    beyond = f"{is_list} AND c[i] IS NULL AND TRY_CAST({index} AS BIGINT) > {length}"
    missing = (
        f"{is_map} AND c[i] IS NULL AND c IS NOT NULL AND NOT list_contains(json_keys(to_json(c)), {index})"
    )
    sentence = f"""CASE WHEN {index} = '0' AND {is_list} THEN 'SQL array indices start at 1'
        WHEN {below} THEN 'Array subscript is negative: ' || {index}
        WHEN {is_list} THEN 'Array subscript must be less than or equal to array length: ' || {index} || ' > ' || {length}
        ELSE 'Key not present in map: ' || {index} END"""
    return {"c, i": refused_if(f"({below}) OR ({beyond}) OR ({missing})", sentence, "c[i]")}


# Bits → DuckDB's name of the type, and the name in errors.
_INTEGERS = {
    8: ("TINYINT", "TINYINT"), 16: ("SMALLINT", "SMALLINT"), 32: ("INTEGER", "INT"), 64: ("BIGINT", "BIGINT"),
}  # fmt: skip
_JSON = "CASE WHEN json_valid(j) THEN j END"
_SHAPES: dict[str, dict[str, str]] = {
    "array_contains": {
        "a, x": "CASE WHEN list_contains(a, x) THEN TRUE WHEN len(a) > list_count(a) THEN NULL"
        " WHEN a IS NOT NULL AND x IS NOT NULL THEN FALSE END"
    },
    "array_max": {"a": "CASE WHEN len(a) = list_count(a) THEN list_max(a) END"},
    "array_min": {"a": "CASE WHEN len(a) = list_count(a) THEN list_min(a) END"},
    "array_position": {
        "a, x": "CASE WHEN a IS NOT NULL AND x IS NOT NULL THEN CAST(coalesce(list_position(a, x), 0) AS BIGINT) END"
    },
    "cardinality": {
        "a": """CASE json_type(to_json(a))
            WHEN 'ARRAY' THEN json_array_length(to_json(a)) ELSE len(json_keys(to_json(a))) END::BIGINT"""
    },
    "date_add": _date_add(),
    "element_at": {
        "c, i": refused_if(
            "typeof(c) LIKE '%]' AND CAST(i AS VARCHAR) = '0'", "'SQL array indices start at 1'", "c[i]"
        )
    },
    "repeat": {"x, n": "list_transform(generate_series(1, n), LAMBDA i: x)"},
    "date_diff": _date_diff(),
    "date_trunc": _date_trunc(),
    "from_unixtime": {"x": "to_timestamp(round(CAST(x AS DOUBLE), 3))"},
    "instant": {
        **{f"x {kind}": "CAST(x AS TIMESTAMPTZ)" for kind in (*_TIMESTAMPS, "TIMESTAMPTZ")},
        "x TIMESTAMP_NS": "timezone('UTC', x)",
        "x TIMESTAMPTZ_NS": "x",
    },
    **{f"integer_of_{bits}": _integer(*names) for bits, names in _INTEGERS.items()},
    "boolean": {
        "x": refused_if(
            "typeof(x) = 'VARCHAR' AND lower(CAST(x AS VARCHAR)) NOT IN ('t', 'true', '1', 'f', 'false', '0')",
            "'Cannot cast ''' || CAST(x AS VARCHAR) || ''' to BOOLEAN'",
            "CAST(x AS BOOLEAN)",
        )
    },
    "json_array_length": {
        "j": f"CASE WHEN json_type({_JSON}) = 'ARRAY' THEN CAST(json_array_length({_JSON}) AS BIGINT) END"
    },
    "json_extract": {"j, p": f"json_extract({_JSON}, p)"},
    "json_extract_scalar": {
        "j, p": f"CASE WHEN json_type({_JSON}, p) NOT IN ('ARRAY', 'OBJECT') THEN json_extract_string({_JSON}, p) END"
    },
    "json_size": {
        "j, p": f"""CASE json_type({_JSON}, p) WHEN 'ARRAY' THEN CAST(json_array_length({_JSON}, p) AS BIGINT)
            WHEN 'OBJECT' THEN len(json_keys({_JSON}, p)) ELSE CASE WHEN json_type({_JSON}, p) IS NOT NULL THEN 0 END END"""
    },
    "millisecond": {"x": "millisecond(x) % 1000"},
    "plus": _plus(),
    "regexp_extract": {
        "s, p": "CASE WHEN regexp_matches(s, p) THEN regexp_extract(s, p) END",
        "s, p, g": "CASE WHEN regexp_matches(s, p) THEN regexp_extract(s, p, g) END",
    },
    "sequence": {
        "a BIGINT, b BIGINT": "generate_series(a, b, CASE WHEN a > b THEN -1 ELSE 1 END)",
        "a DATE, b DATE": "CAST(generate_series(a, b, CASE WHEN a > b THEN -INTERVAL 1 DAY ELSE INTERVAL 1 DAY END) AS DATE[])",
        "a BIGINT, b BIGINT, s BIGINT": "generate_series(a, b, s)",
        "a DATE, b DATE, s INTERVAL": "CAST(generate_series(a, b, s) AS DATE[])",
        "a TIMESTAMP, b TIMESTAMP, s INTERVAL": "generate_series(a, b, s)",
    },
    "slice": {
        "a, f, n": refused_if(
            "f = 0",
            "'SQL array indices start at 1'",
            refused_if(
                "n < 0",
                "'length must be greater than or equal to 0'",
                """CASE WHEN a IS NULL OR f IS NULL OR n IS NULL THEN NULL WHEN n = 0 OR f > len(a) OR -f > len(a) THEN a[1:0]
                WHEN f > 0 THEN a[f:f + n - 1] ELSE a[len(a) + f + 1:len(a) + f + n] END""",
            ),
        )
    },
    "split_part": {
        "s, d, i": refused_if(
            "i <= 0",
            "'Index must be greater than zero'",
            """CASE WHEN d = '' THEN nullif(substring(s, CAST(i AS BIGINT), 1), '')
            WHEN i <= len(string_split(s, d)) THEN split_part(s, d, i) END""",
        )
    },
    "subscript": _subscript(),
    "substr": {
        "s, f": "CASE WHEN f = 0 OR -f > length(s) THEN left(s, 0) ELSE substring(s, f) END",
        "s, f, n": """CASE WHEN s IS NULL OR f IS NULL OR n IS NULL THEN NULL
            WHEN f = 0 OR n <= 0 OR -f > length(s) THEN left(s, 0) ELSE substring(s, f, n) END""",
    },
    "to_base": {"x, r": "lower(to_base(x, r))"},
    "varchar": {
        "x": _text("x"),
        "x, n": refused_if(
            f"typeof(x) <> 'VARCHAR' AND length({_text('x')}) > n",
            f"'Value ' || {_text('x')} || ' cannot be represented as varchar(' || n || ')'",
            f"left({_text('x')}, n)",
        ),
    },
}
MACROS = tuple(shapes_of(PREFIX + name, shapes) for name, shapes in _SHAPES.items())


FLINK_PREFIX = "flink_"
_TEXT = "CAST(x AS VARCHAR)"


def _flink_integer(kind: str, name: str) -> dict[str, str]:
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


_FLINK_SHAPES = {
    "array_contains": {
        "a, x": """CASE WHEN a IS NOT NULL THEN CASE WHEN x IS NULL THEN len(list_filter(a, LAMBDA e: e IS NULL)) > 0
            ELSE list_contains(a, x) END END"""
    },
    "avg": {
        **{f"x {kind}": f"CAST(sum(x) // count(x) AS {kind})" for kind, _ in _INTEGERS.values()},
        "x DOUBLE": "avg(x)",
    },
    **{f"integer_of_{bits}": _flink_integer(*names) for bits, names in _INTEGERS.items()},
    "left": {"s, n": "left(s, greatest(n, 0))"},
    "moment_of_0": {"x": "make_timestamptz(CAST(x AS BIGINT) * 1000000)"},
    "moment_of_3": {"x": "make_timestamptz(CAST(x AS BIGINT) * 1000)"},
    "regexp_extract": _SHAPES["regexp_extract"],
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
FLINK_MACROS = tuple(shapes_of(FLINK_PREFIX + name, shapes) for name, shapes in _FLINK_SHAPES.items())
