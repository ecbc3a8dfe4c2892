"""An expression of DuckDB's SQL → one of Spark's that means the same, with its type.

Both engines know most names, and mean different things by many: so only what is in the tables below is translated, each
entry with what it takes to mean the same, and all else is refused. An entry that knows an argument of a node says so; an
argument that none knows is refused, too. What differs, and what is done about it:

| DuckDB | Spark | here |
|---|---|---|
| `1 / 2` = 0.5, `1 / 0` = inf | decimals divide as decimals, division by zero is an error | divided as doubles, zero apart |
| literals take the type beside them; TINYINTs overflow | others do | casts to DuckDB's type, before and after |
| `sum(BIGINT)` is a HUGEINT | BIGINT, overflows | summed in two halves |
| `avg(BIGINT)` and of decimals divides once, as `long double` | twice | `service/spark/average.py` |
| the same without groups is sum / count | the same | sum / count |
| HUGEINT to DOUBLE by halves of 64 bits | to the nearest | by halves |
| CAST rounds | CAST truncates | rounded first |
| `list[1]` is the first, `list[9]` is NULL | `[0]` is, `[9]` is an error | `try_element_at` |
| `list(x)` keeps NULLs; NULL where there is no row | drops them; `[]` | a list of structs |
| NULLs last, also in DESC | NULLs first | said explicitly |
| `concat` passes over NULL | is NULL | `concat_ws` |
| text casts to numbers leniently (`'1e3'::INT`) | strictly | plain digits, or an error |
| LOWER, UPPER: a letter for a letter | `ß` → `SS`, `ς` | an error where a text has such letters |
| timestamps and times of nanoseconds | none | BIGINT, see `service/spark/types.py` |

Floating-point sums depend on the order of the rows, on either engine.

    terms.py       what translated expressions are made of, and `translate`
    names.py       columns, fields, elements, literals
    arithmetic.py conditions.py casts.py texts.py times.py nested.py aggregates.py
    table.py       who translates which
"""

from service.engines.spark.expressions.aggregates import AVERAGE, has_aggregate, has_map, is_narrow
from service.engines.spark.expressions.conditions import ordered, truth
from service.engines.spark.expressions.table import HANDLERS
from service.engines.spark.expressions.terms import Handler, cast, translate

__all__ = [
    "AVERAGE",
    "HANDLERS",
    "Handler",
    "cast",
    "has_aggregate",
    "has_map",
    "is_narrow",
    "ordered",
    "translate",
    "truth",
]
