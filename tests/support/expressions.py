"""Random expressions of DuckDB's SQL, with few parentheses, so that every mix of operators occurs."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

_HOLE = re.compile(r"<(\w+)>")
# Each kind of value: texts with holes. A text may have another type than its kind: then DuckDB refuses the expression.
_LEAVES = {
    "int": [
        "0", "1", "2", "7", "- 3", "1_000", "0x1F", "INTEGER '5'", "'12'::INT", "BIGINT '9'", "TINYINT '3'::VARCHAR::INT",
        "DECIMAL '1.25'::INT", "UBIGINT '4'", "NULL", "NULL::INT", "HUGEINT '170'", "TRUE::INT", "_key_group", "_subtask",
    ],
    "double": [
        "0.5", "1e3", ".25", "2.", "DOUBLE '1.5'", "FLOAT '0.1'", "DECIMAL(5, 2) '3.14159'::DOUBLE", "1.5::DECIMAL(4, 1)",
        "'nan'::DOUBLE", "DOUBLE '-Infinity'", "DECIMAL(4, 1) '1.25'",
    ],
    "text": [
        "''", "'a'", "'key_1'", "'it''s'", "$$b$$", "$x$c''d$x$", "E'\\t'", "'%y_1'", "'[a-k]+'", "VARCHAR 'z'", "key", "namespace",
        "DATE '2020-6-1'::VARCHAR", "INTEGER '007'::VARCHAR", "'𝄞'", "'a--b'", "'/*'", "NULL::VARCHAR", "BLOB 'ab'::VARCHAR",
        "TIMESTAMPTZ '2020-06-01 01:00:00+02'::VARCHAR", "TIME '01:02:03.5'::VARCHAR", "INTERVAL '1 day'::VARCHAR",
        "UUID '00000000-0000-0000-0000-00000000000a'::VARCHAR", "'a'\n'b'",
    ],
    "bool": ["TRUE", "false", "NULL::BOOL", "BOOLEAN 't'", "'yes'::BOOL", "key = 'key_662'", "key IN ('key_1', 'key_662')"],
    "date": [
        "DATE '2020-01-31'", "'2020-02-29'::DATE", "TIMESTAMP '2020-06-01 23:30:00'::DATE",
        "TIMESTAMPTZ '2020-06-01 01:00:00+02'::DATE", "DATE '1969-12-31'", "DATE 'infinity'", "NULL::DATE",
    ],
    "time": [
        "TIMESTAMP '2020-06-01 01:02:03.004'", "TIMESTAMPTZ '2020-06-01 01:00:00+02'::TIMESTAMP",
        "TIMESTAMPTZ '2020-06-01 01:00:00+02'", "TIMESTAMP_S '2020-01-01 00:00:01'", "TIMESTAMP_MS '2020-01-01 00:00:00.123456'",
        "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'", "DATE '2020-01-01'::TIMESTAMP", "'2020-01-01 10:00'::TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE '2020-01-01 00:00:00Z'::TIMESTAMP", "TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC'",
    ],
    "interval": [
        "INTERVAL 1 DAY", "INTERVAL '1' MONTH", "INTERVAL '2 hours 3 minutes'", "INTERVAL (1 + 1) YEAR", "'3 days'::INTERVAL",
        "to_hours(5)", "INTERVAL '1 day' * 2",
    ],
    "list": ["[1, 2, 3]", "[]::INT[]", "range(4)", "[NULL, 1]", "INTEGER[] '[4, 5]'", "list_value(3, 1, 2)", "array[7, 8]"],
    "struct": ["{'a': 1, 'b': 'x'}", "struct_pack(a := 2, b := 'y')", "row(1, 'x')", "{'a': DATE '2020-1-1'::VARCHAR, 'b': 1}"],
    "map": ["MAP {'a': 1, 'b': 2}", "map(['x'], [1])", "MAP {}"],
}  # fmt: skip
_FORMS = {
    "int": [
        *(f"<int> {sign} <int>" for sign in ("+", "-", "*", "//", "%", "&", "|", "<<", ">>")),
        "- <int>", "~<int>", "@<int>", "(<int>)", "(<int>)::BIGINT", "<int>::VARCHAR::INT", "abs(<int>)", "xor(<int>, <int>)",
        "length(<text>)", "strpos(<text>, <text>)", "ascii(<text>)", "len(<list>)", "<list>[1]", "<list>[-1]", "list_sum(<list>)",
        "<struct>.a", "(<struct>)['a']", "cardinality(<map>)", "<map>['a']", "CASE WHEN <bool> THEN <int> ELSE <int> END",
        "CASE <int> WHEN <int> THEN <int> WHEN 1 THEN 2 END", "coalesce(<int>, <int>)", "nullif(<int>, <int>)", "ifnull(<int>, 0)",
        "greatest(<int>, <int>)", "least(<int>, 1)", "TRY_CAST(<text> AS INT)", "CAST(<double> AS BIGINT)", "sign(<int>)",
        "<date> - <date>", "extract(year FROM <date>)", "date_part('dow', <date>)", "year(<time>)", "datediff('day', <date>, <date>)",
        "date_diff('month', <date>, <date>)", "date_sub('hour', <time>, <time>)", "epoch_ms(<time>)", "bit_count(<int>)",
        "(SELECT max(x) FROM range(<int>) r(x))", "if(<bool>, <int>, <int>)", "iif(<bool>, 1, 2)", "list_position(<list>, <int>)",
        "hash(<int>)", "factorial(3)", "regexp_matches(<text>, 'a')::INT", "json_array_length('[1, 2]')",
        "list_reduce([1, 2, 3], lambda x, y: x + y * <int>)",
    ],
    "double": [
        *(f"<double> {sign} <int>" for sign in ("+", "-", "*", "/", "^", "**", "%", "//")),
        "<int> / <int>", "<int> ^ <int>", "<int> ^ - <int> * <int>", "<int> ^ ~<int> * <int>", "<int> ** <int> ** 2", "(<double>)",
        "- <double> ^ 2", "sqrt(<int>)", "round(<double>, 1)", "floor(<double>)", "pow(<int>, 2)", "<double>::DECIMAL(10, 2)",
        "ln(<int>)", "trunc(<double>)", "list_avg(<list>)", "CASE WHEN <bool> THEN <double> END",
    ],
    "text": [
        "<text> || <text>", "<text> || <int>", "(<text>)", "upper(<text>)", "substr(<text>, 1, <int>)", "<text>[1:2]", "<text>[2]",
        "concat(<text>, <int>, NULL)", "replace(<text>, 'a', <text>)", "left(<text>, 2)", "trim(<text>)", "lpad(<text>, 5, '*')",
        "<int>::VARCHAR", "<date>::VARCHAR", "(<time>)::VARCHAR", "(<interval>)::VARCHAR", "CAST(<list> AS VARCHAR)",
        "CAST(<struct> AS VARCHAR)", "typeof(<int>)", "typeof(<date>)", "typeof(<double>)", "strftime(<time>, '%Y-%j')",
        "CASE WHEN <bool> THEN <text> ELSE 'n' END", "regexp_replace(<text>, '[a-e]', '-', 'g')", "regexp_extract(<text>, '(.)_', 1)",
        "split_part(<text>, '_', 1)", "<text>.upper()", "printf('%d', <int>)", "format('{}', <int>)", "md5(<text>)", "chr(65 + <int>)",
        "'{\"a\": [1, 2]}' ->> '$.a'", "('{\"a\": {\"b\": 5}}'::JSON -> 'a') ->> 'b'", "json_extract_string('{\"a\": 1}', '$.a')",
        "to_json(<struct>)", "array_to_string(<list>, ',')", "<text> COLLATE NOCASE", "<struct>.b", "string_split(<text>, '_')[1]",
    ],
    "bool": [
        *(f"<int> {sign} <int>" for sign in ("=", "<>", "!=", "==", "<", "<=", ">", ">=")),
        *(f"<bool> {sign} <bool>" for sign in ("AND", "OR", "=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")),
        *(
            f"<text> {sign} <text>"
            for sign in (
                "LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE", "SIMILAR TO", "NOT SIMILAR TO", "GLOB", "^@", "~", "!~", "~~", "!~~", "~~*",
                "!~~*", "~~~", "=", "<", "IN",
            )
        ),
        "<text> LIKE <text> ESCAPE '!'", "<int> BETWEEN <int> AND <int>", "<int> NOT BETWEEN <int> AND <int> + 1", "NOT <bool>",
        "<int> IN (<int>, <int>)", "<int> NOT IN (1, <int>)", "<text> IN (SELECT key FROM aggregate)", "<int> IS NULL",
        "<bool> IS TRUE", "<bool> IS NOT FALSE", "<int> IS NOT NULL", "<int> ISNULL", "<int> NOTNULL", "(<bool>)", "<date> < <date>",
        "<time> = <time>", "<date> BETWEEN <date> AND <date>", "<list> = <list>", "list_contains(<list>, <int>)", "<list> && <list>",
        "<list> @> <list>", "<list> <@ <list>", "<int> IN <list>", "<struct> = <struct>", "<int> = ANY(<list>)", "<int> > ALL (SELECT 1)",
        "EXISTS (SELECT 1 WHERE <bool>)", "<text> || <text> ^@ <text> || <text>", "starts_with(<text>, 'k')", "contains(<text>, 'e')",
        "(<int>, <text>) = (1, 'a')", "(<int>, 2) IN ((1, 2), (3, <int>))", "isnan(<double>)", "<double> > <int>", "NOT <int> = <int>",
        "<int> = <int> IS NULL", "<bool> AND <bool> OR NOT <bool>", "- <int> < <int> AND <bool>", "<time> > <time> - <interval>",
    ],
    "date": [
        "<date> + <int>", "<date> - <int>", "date_add(<date>, 1)", "date_add(<date>, <interval>)", "<time>::DATE", "last_day(<date>)",
        "(<date>)", "make_date(2020, 1, 2)", "date_trunc('month', <date>)", "coalesce(<date>, <date>)", "greatest(<date>, <date>)",
    ],
    "time": [
        "<time> + <interval>", "<time> - <interval>", "<date> + <interval>", "<date> + TIME '01:02:03'", "date_trunc('hour', <time>)",
        "<date>::TIMESTAMP", "(<time>)", "(<time>) AT TIME ZONE 'Europe/Paris'", "<time>::TIMESTAMP", "<time>::TIMESTAMPTZ",
        "strptime('2020-03-04', '%Y-%m-%d')", "time_bucket(INTERVAL 1 DAY, <time>)", "make_timestamp(2020, 1, 2, 3, 4, 5.5)",
        "to_timestamp(<int>)", "epoch_ms(<int>)",
    ],
    "interval": ["<interval> + <interval>", "- <interval>", "<interval> * <int>", "<time> - <time>", "age(<time>, <time>)", "(<interval>)"],
    "list": [
        "<list> || <list>", "<list>[2:]", "<list>[:-2]", "list_transform(<list>, lambda x: x * <int>)", "[x + 1 FOR x IN <list> IF x > 1]",
        "list_filter(<list>, lambda x: x > <int>)", "list_sort(<list>, 'DESC')", "list_distinct(<list>)", "[<int>, <int>]", "(<list>)",
        "list_concat(<list>, <list>)", "list_reverse(<list>)", "<list>::BIGINT[]", "list_append(<list>, <int>)", "map_values(<map>)",
        "generate_series(1, 3)", "flatten([<list>])", "<list> + <list>", "list_zip(<list>, <list>)", "array_agg(<int>) OVER ()",
        "list_prepend(<int>, <list>)", "list_has_any(<list>, [1])", "list_sort(<list>, 'DESC', 'NULLS FIRST')",
    ],
    "struct": ["(<struct>)", "{'a': <int>, 'b': <text>}", "struct_insert(<struct>, c := <int>)", "{a: <int>, b: <bool>}"],
    "map": ["(<map>)", "MAP {<text>: <int>}", "map_concat(<map>, <map>)", "map_from_entries([(<text>, <int>)])"],
}  # fmt: skip
_STATEMENTS = [
    "SELECT key, <any> FROM aggregate WHERE <bool> AND value < 20",
    "SELECT count(*), min(key) FROM aggregate WHERE <bool>",
    "SELECT count(*), max(key) FROM aggregate WHERE key = 'key_662' AND <bool>",
    "SELECT count(*) FROM native.aggregate WHERE <bool> OR native.aggregate.key IN ('key_1', 'key_2') AND <bool>",
    "SELECT count(*) FROM aggregate a WHERE NOT (a.key = 'key_662') = <bool>",
    "FROM aggregate SELECT key, value WHERE key = 'key_662' IS NOT DISTINCT FROM <bool>",
    "SELECT <any> AS x, count(*) FROM aggregate GROUP BY ALL",
    "SELECT <int> % 3 AS x, sum(<int>) FILTER (<bool>), count(DISTINCT <text>) FROM aggregate WHERE value > 3 GROUP BY 1",
    "SELECT key, row_number() OVER (PARTITION BY <bool> ORDER BY key, value) FROM aggregate WHERE value > 10",
    "SELECT key, sum(value) OVER w, lag(<int>) OVER w FROM aggregate WHERE value < 5 WINDOW w AS (ORDER BY key, value)",
    "SELECT key FROM aggregate QUALIFY rank() OVER (ORDER BY value DESC, key) <= <int>",
    "WITH aggregate AS (SELECT key, value, _key_group, _subtask, namespace FROM aggregate WHERE <bool>) SELECT max(<any>) FROM aggregate",
    "WITH t(k) AS (VALUES ('key_1'), (<text>)) SELECT a.key, a.value FROM aggregate a JOIN t ON a.key = t.k WHERE <bool2>",
    "SELECT a.key FROM aggregate a JOIN aggregate b USING (key) WHERE b.key = 'key_662' AND <bool2>",
    "SELECT count(*) FROM aggregate WHERE key IN (SELECT <text> UNION ALL SELECT 'key_1')",
    "SELECT (SELECT <any2>), x FROM (VALUES (1), (2)) v(x) WHERE <bool2>",
    "VALUES (<any2>), (NULL)",
    "SELECT * EXCLUDE (value) REPLACE (key || 'x' AS key) FROM aggregate WHERE <bool> LIMIT 0",
    "SELECT <any2> UNION ALL SELECT NULL",
    "SELECT unnest(<list2>), <any2>",
    'SELECT s.key, s.value FROM native."mod7-no-uid__seen" s WHERE s.key = <int2> OR key = 3 AND <bool2>',
    "SELECT count(*) FROM \"mod7-no-uid__seen\" WHERE key IN (1, INTEGER '2', '3'::INT) AND <bool2>",
]


class Expressions:
    """Random expressions and statements; the same ones for the same seed.

    Args:
        seed: of the random numbers.
        leaves: of each kind of value, texts without holes.
        forms: of each kind of value, texts with holes.
    """

    def __init__(
        self,
        seed: int,
        leaves: Mapping[str, Sequence[str]] = _LEAVES,
        forms: Mapping[str, Sequence[str]] = _FORMS,
    ) -> None:
        self._random = random.Random(seed)
        self._leaves, self._forms = leaves, forms
        self._kinds = tuple(leaves)

    def expression(self, depth: int = 3, *, has_columns: bool = True) -> str:
        """Return an expression of any kind of value."""
        return self._of(self._random.choice(self._kinds), self._random.randint(1, depth), has_columns)

    def filled(self, text: str) -> str:
        """Return a text whose holes are filled; `<any>` is an expression of any kind."""

        def made(hole: re.Match[str]) -> str:
            kind = self._random.choice(self._kinds) if hole[1] == "any" else hole[1]
            return self._of(kind, self._random.randint(0, 2), True)

        return _HOLE.sub(made, text)

    def statement(self) -> str:
        """Return a statement over the tables `aggregate` and `mod7-no-uid__seen`. `<bool2>` has no column."""

        def filled(hole: re.Match[str]) -> str:
            kind, has_columns = hole[1].rstrip("2"), not hole[1].endswith("2")
            if kind == "any":
                return self.expression(2, has_columns=has_columns)
            return self._of(kind, self._random.randint(0, 2), has_columns)

        return _HOLE.sub(filled, self._random.choice(_STATEMENTS))

    def _of(self, kind: str, depth: int, has_columns: bool) -> str:
        text = self._random.choice(self._forms[kind] if depth > 0 else self._leaves[kind])
        if not has_columns and re.search(r"\b(key|namespace|_key_group|_subtask)\b(?!_)(?!')", text):
            return self._of(kind, depth, has_columns)
        return _HOLE.sub(
            lambda hole: self._of(hole[1], depth - self._random.randint(1, 2), has_columns), text
        )
