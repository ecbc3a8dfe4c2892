"""All expressions that are translated, and their handlers: any other expression is refused."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from service.query.engines.spark.expressions import aggregates, casts, conditions, terms, texts
from service.query.engines.spark.expressions.terms import Handler

HANDLERS: Mapping[type[exp.Expr], Handler] = {
    **aggregates.HANDLERS,
    **casts.HANDLERS,
    **conditions.HANDLERS,
    **terms.HANDLERS,
    **texts.HANDLERS,
}
