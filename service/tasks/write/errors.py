"""The errors of the writers, as users see them; importing this module makes them known."""

from __future__ import annotations

from service.base.errors import ConflictError, InvalidQueryError, QueryError, query_error_of, translate
from writers import TargetError, TargetExistsError, WriterError

translate(WriterError, InvalidQueryError, "REFUSED_WRITE")
translate(TargetError, QueryError, "TARGET_FAILED")
translate(TargetExistsError, ConflictError, "TARGET_EXISTS")

write_error_of = query_error_of
"""Translate an error of any room, those of the writers too; the caller raises the result `from error`."""
