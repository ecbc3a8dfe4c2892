"""A savepoint → one with some of its keys: a key is in or out everywhere, by its value.

sample.py   the request, the outcome, and a new savepoint that was read back
choices.py  which keys stay in each operator; what goes by its name; the edits
"""
