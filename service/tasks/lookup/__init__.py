"""Lookup: all states and timers of one key.

lookup.py      the request, the outcome, and what runs it
statements.py  a key → the condition and the statements that find it in a state
"""
