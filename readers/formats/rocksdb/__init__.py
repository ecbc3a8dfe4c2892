"""Native RocksDB and ForSt snapshots: the files of one database instance, opened as one."""
