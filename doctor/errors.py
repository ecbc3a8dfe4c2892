"""The errors of the doctor.

DoctorError                    root; every message says what was expected and what was found
  UnknownVersionError          a version of Flink that the doctor has no facts about
  UnknownBackendError          neither hashmap, rocksdb nor forst
"""

from __future__ import annotations


class DoctorError(Exception):
    """Root of all errors of the doctor."""


class UnknownVersionError(DoctorError):
    """A text that is no version of Flink, or a version that the doctor has no facts about."""


class UnknownBackendError(DoctorError):
    """A state backend that the doctor has no facts about."""
