"""Savepoints → tables. Knows names and scans; no engine, no HTTP, no byte layout.

In: paths of savepoints, or of folders that hold several. Out: databases, tables, scans.

Reading order:

    discovery.py  finds savepoints and checkpoints under a root
    naming.py     the names of databases and tables
    freshness.py  names that follow a job: `latest`
    catalog.py    Catalog: all databases; `connect`
    database.py   Database: one savepoint and its tables
    tables.py     the tables of states: one state, all states of an operator, timers
    sqlviews.py   what the operators of SQL jobs keep, a column a field
    statemeta.py  the tables of facts: StateMeta, operators, files
    scan.py       Scan → Split: what an engine reads
    statecache.py what was decoded once, in the files of cachefiles.py
    predicate.py  what of a query's conditions saves reading
    jsontext.py   values of different types as one column of JSON text
    stateinfo.py  files of the user: `stateInfo`, job plans, uids
    fidelity.py   `make fidelity`: what of whole folders decodes
    support.py    the support tables of the README

    >>> import catalog
    >>> db = catalog.connect("/savepoints/savepoint-42")
    >>> db.table("aggregate").scan(columns=["key", "value"], key="key_662").to_arrow()
"""

from catalog.catalog import Catalog, Root, connect
from catalog.database import Database
from catalog.errors import CatalogError, NoSuchColumnError, NoSuchDatabaseError, NoSuchTableError
from catalog.predicate import Predicate
from catalog.scan import Scan, Split
from catalog.statetables import FactsTable, Table

__all__ = [
    "Catalog",
    "CatalogError",
    "Database",
    "FactsTable",
    "NoSuchColumnError",
    "NoSuchDatabaseError",
    "NoSuchTableError",
    "Predicate",
    "Root",
    "Scan",
    "Split",
    "Table",
    "connect",
]
