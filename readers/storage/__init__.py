"""The storage of savepoints: local files, object stores, and the caches of this machine.

In: a path or URL from the user, and the handles of `_metadata`. Out: streams of bytes. In reading order:

    filesystems.py  locations, streams and windows of bytes; local files, memory-mapped, and their lost pages
    remote.py       files behind a network, read by ranges
    schemes.py      URL schemes, the client of each, its options and credentials
    paths.py        the paths that a savepoint records: where their files are now, and which are allowed
    location.py     one savepoint: finds and opens its files
    temporary.py    folders for temporary files, and fetched files on a local disk
"""
