"""HTTP under `/api`, the health checks and the documentation of the calls.

In reading order:

    state.py      the objects that all routers share
    query.py      POST /api/query
    queries.py    /api/queries: queries that run while their client does something else
    answers.py    the rows of a query → an HTTP answer
    buffer.py     the rows of a JSON answer, until it is sent
    links.py      GET /db/…: databases, tables, keys and statements as links
    linkanswers.py the rows of a link, with an ETag and its headers
    linktags.py   the ETag of a link
    saved.py      /api/saved, GET /saved/…: queries with names and parameters, as links
    databases.py  /api/databases: the catalog
    jobs.py       /api/jobs: the databases by their jobs
    keys.py       POST /api/databases/{database}/keys: a key as people write it → queries
    checks.py     POST /api/checks/jar: will a savepoint restore in the job of a jar
    savepoints.py /api/savepoints: a script → a new savepoint
    tasks.py      /api/xray, /api/diff, …: the use cases of `service.tasks`
    triggers.py   /api/jobs/{job}/savepoints: savepoints that Flink takes; /api/flink
    health.py     GET /healthz, /readyz and /metrics
    docs.py       GET /docs
"""
