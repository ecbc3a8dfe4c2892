"""An expression of DuckDB's SQL → an expression of Spark's that means the same, with its type.

Both engines know most functions by the same names, and many of these mean different things. So only expressions in the tables
`HANDLERS` are translated, each to what means the same on Spark, and all others are refused. A handler names the arguments of a
node that it translates (`knows`); a node with another argument is refused. The differences:

| DuckDB | Spark | translation |
|---|---|---|
| `1 / 2` = 0.5, `1 / 0` = inf | decimals divide as decimals, division by zero is an error | division of DOUBLEs, with a case for zero |
| literals take the type beside them; TINYINTs overflow | literals and results have other types | casts to DuckDB's type, before and after |
| `sum(BIGINT)` is a HUGEINT | BIGINT, overflows | summed in two halves |
| `avg` of BIGINTs or decimals in groups divides once, as `long double` | divides twice | `service/spark/partial.py` |
| `avg` of these without groups is sum / count | the same | sum / count |
| HUGEINT becomes DOUBLE by halves of 64 bits | the nearest DOUBLE | by halves |
| CAST rounds | CAST truncates | `rint` or `round` before the cast |
| `list[1]` is the first, `list[9]` is NULL | `[0]` is the first, `[9]` is an error | `try_element_at` |
| `list(x)` keeps NULLs, and is NULL without rows | drops NULLs, and is `[]` | a list of structs |
| NULLs last, also in DESC | NULLs first | NULLS FIRST or LAST is written out |
| `concat` skips NULL | is NULL | `concat_ws` |
| a text is cast to a number leniently (`'1e3'::INT`) | strictly | plain digits only, else an error |
| LOWER, UPPER change each letter into one | `ß` → `SS`, `ς` at the end of words | an error for a text with such letters |
| NULL is a condition | a condition is a BOOLEAN | NULL cast to BOOLEAN |
| `epoch_ms`, and TIMESTAMP_NS as TIMESTAMP, round halves away from zero | round down | `thousandths` |
| timestamps and times of nanoseconds | none | BIGINT, see `service/spark/types.py` |

What depends on the order of the rows does so on both engines: sums of floating-point numbers, `arg_max` with ties, and what else
docs/reference/tables.md lists.

    terms.py       calls, casts and literals of Spark's SQL, and `translate`, which finds the handler; columns, fields, elements, literals
    conditions.py  comparisons, logic, subqueries, CASE, the order of rows
    casts.py       CAST and TRY_CAST; operators, intervals, rounding
    texts.py       functions of texts, dates and timestamps; lists, maps and structs; the macros of Trino's and Flink's dialects
    aggregates.py  aggregates and windows
"""
