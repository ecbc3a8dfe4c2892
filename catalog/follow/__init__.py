"""The checkpoints of a job, one after the other.

changes.py  what each of them changed in a table: a table with one diff for each
steps.py    where a follower is, and the step to the next one: gaps, restarts, beginnings; reads no rows
"""
