"""Functions in FROM that no engine has: the resolver makes tables of them.

calls.py        a call whose arguments are names in single quotes
differences.py  `diff('before', 'after', 'table')`
"""
