"""The sentence about the SDK where it is not installed."""

from typing import Final

MISSING: Final = "the Model Context Protocol needs the extra mcp: pip install 'savepointdb[mcp]'"
