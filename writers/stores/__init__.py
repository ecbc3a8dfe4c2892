"""New savepoints in object stores: objects below a prefix, of which `_metadata` comes last.

store.py    the requests that a new savepoint needs of a store; files that are sent, several requests at a time
clients.py  S3 and what speaks its protocol, by botocore; the stores of Google and Azure, by pyarrow
prefix.py   the target: what is sent when, and what is taken back; that of another process
"""
