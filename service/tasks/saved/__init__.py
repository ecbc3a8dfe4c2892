"""Saved queries: statements with names and parameters.

In: a TOML file that people write, and a folder beside it with one file for each query that clients save. Out: a query by its name,
and its statement with the values that somebody gives.

Reading order:

    query.py  SavedQuery: a name, a statement, its parameters; TOML ↔ saved queries; `:key` in a statement, texts → values
    store.py  SavedQueries: the file and the folder, read again when they change; UserQueries: those of one user
"""
