"""The errors of the writers, as users see them; importing this module makes them known."""

from __future__ import annotations

from functools import partial

from readers import ReaderError
from service.base.errors import ConflictError, InvalidQueryError, QueryError, translate, translated
from writers import TargetError, TargetExistsError, WriterError

translate(WriterError, InvalidQueryError, "REFUSED_WRITE")
translate(TargetError, QueryError, "TARGET_FAILED")
translate(TargetExistsError, ConflictError, "TARGET_EXISTS")

write_errors = partial(translated, ReaderError, WriterError)
"""Raises errors of the readers and writers as those of the service."""
