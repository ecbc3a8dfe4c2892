"""Savepoints → tables. Knows names and scans; no engine, no HTTP, no byte layout.

In: paths of savepoints, or of folders that hold several. Out: databases, tables, scans.

Reading order:

    references.py   the names of databases and tables; what clusters say of jobs; savepoints and states, to be opened again in any process
    roots.py        finds savepoints and checkpoints: the databases under roots, and those that one user may see
    aliases.py      all other names by which a database is called: those that follow a job, as `latest`
    catalog.py      Catalog: all databases; `connect`
    database.py     Database: one savepoint, its age and its tables
    history.py      the savepoints of one job, and their history as tables
    follow/         the checkpoints of a job, one after the other: what each changed, the step to the next
    savepointtables.py  the tables of an open savepoint, by name
    table.py        Table; the tables that need no state
    statetables.py  the tables of states: one state, all states of an operator, timers
    changedtables.py  tables of states with places and changes, for statements that write
    views.py        the states of SQL jobs, with a column a field; the keyed states of an operator side by side
    facts.py        the rows of StateMeta, operators, files, source_offsets; restore_check, required_classes are made above
    xray.py         the rows of xray and of the tables about keys
    wide/           the columns and rows of these
    upstream.py     the names of Flink's own State Catalog
    keys.py         keys as people write them; the states that have keys
    scan.py         Predicate → Scan → Split: what an engine reads; splits of states, of the cache, of facts
    differences/    what differs between two databases: tables of rows, a summary
    cache/          decoded states as Parquet files; the tables of savepoints
    masks/          what stands in place of values that a reader may not see
    stateinfo.py    files of the user: `stateInfo`, job plans, uids
    kernels.py      the modules that have compiled loops
    errors.py       CatalogError and its subclasses

    >>> import catalog
    >>> db = catalog.connect("/savepoints/savepoint-42")
    >>> db.table("aggregate").scan(columns=["key", "value"], key="key_662").to_arrow()
"""

from typing import TYPE_CHECKING

from readers import late_names

if TYPE_CHECKING:
    from catalog.cache.files import ListedTable
    from catalog.catalog import Catalog, Root, connect
    from catalog.database import Database
    from catalog.differences.summary import SummaryTable, diff_facts
    from catalog.differences.table import diff_table
    from catalog.errors import (
        CatalogError,
        NoSuchColumnError,
        NoSuchDatabaseError,
        NoSuchJobError,
        NoSuchTableError,
        NotAKeyError,
    )
    from catalog.history import HistoryDatabase, Job
    from catalog.keys import (
        ENTRIES,
        Key,
        KeyedState,
        entries_of,
        key_of,
        keyed_states,
        parse_key,
        shown_key,
        unread_operators,
        value_of_text,
    )
    from catalog.references import CheckpointFacts, JobFacts
    from catalog.scan import Predicate, Scan, Split
    from catalog.table import FactsTable, PlannedTable, Table

# A type checker would take every name for one of the room.
if not TYPE_CHECKING:
    __getattr__, __all__ = late_names(globals())
