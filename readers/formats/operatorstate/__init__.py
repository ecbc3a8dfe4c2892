"""Managed operator state: list, union and broadcast state of one subtask."""
