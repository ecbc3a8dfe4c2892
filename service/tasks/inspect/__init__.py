"""Inspect: the operators and states of a savepoint.

inspect.py  the request, the outcome, and what runs it
"""
