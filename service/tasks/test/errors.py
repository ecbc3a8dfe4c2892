"""The errors of tests for state.

InvalidRequestError
  InvalidRulesError    a file of rules is not as documented
"""

from __future__ import annotations

from service.base.errors import InvalidRequestError


class InvalidRulesError(InvalidRequestError, code="INVALID_RULES"):
    """A file of rules is not as documented; the message says which rule of which file."""
