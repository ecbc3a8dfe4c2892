"""Our reader of SST files: a range of keys of a column family, without RocksDB, eight times as fast, on every core.

It returns the entries that RocksDB's own iterator returns, with overwrites, deletes and merges applied. Where it does not know
for certain what the bytes mean it raises `NotReadHereError`, and RocksDB reads them.

    files.py        the bytes of the files, wherever they are; what two instances need is read once
    words.py        machine words and byte strings at an address
    checksums.py    CRC-32C, XXH3
    manifest.py     CURRENT and MANIFEST: the files of each column family
    blocks.py       entries, index blocks; Snappy and LZ4, zlib and ZSTD by a library
    table.py        a file: footer, properties, range tombstones, index
    merge.py        the entries of all files in order, the newest of each key
    scan.py         files → windows → merge → pages
    lockstep.py     pages of two instances → the entries that differ
"""
