"""The files of a savepoint by which it is recognised before it is read."""

MAGIC = 0x4960672D
"""The first four bytes of `_metadata`."""

STATE_INFO_FILE_NAME = "stateInfo"
