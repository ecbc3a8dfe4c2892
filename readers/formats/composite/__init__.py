"""The composite key and the value of an entry, as RocksDB holds them and canonical savepoints repeat them."""
