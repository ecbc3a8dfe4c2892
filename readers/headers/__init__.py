"""The headers of state files: which states a file holds, and in which types."""
