"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15."""
