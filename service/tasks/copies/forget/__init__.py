"""A savepoint → one without all that belongs to some ids, and the proof that no byte of them is left.

forgetting.py  the request, the outcome, and a new savepoint that was read back
rows.py        which rows belong to the ids: by the keys of operators, and by columns of a group
"""
