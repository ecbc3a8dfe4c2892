"""DuckDB, in this process."""
