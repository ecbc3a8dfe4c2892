"""New savepoints in object stores: objects below a prefix, of which `_metadata` comes last.

store.py    the requests that a new savepoint needs of a store
s3.py       S3 and what speaks its protocol, by botocore
arrow.py    the stores of Google and Azure, by pyarrow
requests.py files that are sent, several requests at a time
prefix.py   the target: what is sent when, and what is taken back
joined.py   the target of another process
"""
