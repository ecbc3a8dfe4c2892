"""Functions in FROM that no engine has: the resolver makes tables of them.

calls.py        a call whose arguments are names in single quotes
differences.py  `diff('before', 'after', 'table')`
upstream.py     `savepoint_metadata('path')`, and what else of the names of Flink's State Catalog concerns statements
"""
