"""Channel state: the records that were in flight when an unaligned checkpoint was taken.

layout.py  the buffers of a channel, and the records in them
source.py  the records of a subtask, one state per gate or partition
"""
