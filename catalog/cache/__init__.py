"""States that were decoded once, kept as Parquet files."""
