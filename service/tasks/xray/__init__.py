"""How much state a savepoint has, where it is, and how much of it is garbage.

xray.py  the request, the outcome, and what runs it
"""
