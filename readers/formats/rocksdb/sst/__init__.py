"""SST files, read block by block without RocksDB: a whole column family or key range, several times as fast, on every core.

What comes out is what RocksDB's own iterator gives, overwrites, deletes and merges applied. Anything that is not known here for
certain raises `NotReadHereError`, and RocksDB reads it.

    files.py        where the bytes of files come from
    words.py        machine words and byte strings at an address
    checksums.py    CRC-32C, XXH3
    compression.py  Snappy and LZ4; zlib and ZSTD by a library
    manifest.py     CURRENT and MANIFEST: which files make up which column family
    blocks.py       entries, index blocks
    table.py        a file: footer, properties, range tombstones, index
    merge.py        the entries of all files, in order: the newest of each key
    scan.py         pieces of files → merge → pages
"""

from readers.formats.rocksdb.sst.errors import NotReadHereError
from readers.formats.rocksdb.sst.files import Directory, Files, TableBytes
from readers.formats.rocksdb.sst.scan import PAGE_BYTES, PAGE_ENTRIES, Entries, SstDatabase

__all__ = [
    "PAGE_BYTES",
    "PAGE_ENTRIES",
    "Directory",
    "Entries",
    "Files",
    "NotReadHereError",
    "SstDatabase",
    "TableBytes",
]
