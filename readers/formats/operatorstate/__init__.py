"""Managed operator state: list, union and broadcast state of one subtask.

layout.py  where elements and broadcast entries stand
source.py  the states of a handle
"""
