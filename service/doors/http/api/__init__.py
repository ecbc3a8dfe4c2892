"""HTTP under `/api`, the health checks and the documentation of the calls.

In reading order:

    state.py      the objects that all routers share
    query.py      POST /api/query; /api/queries: queries that run while their client does something else
    answers.py    the rows of a query → an HTTP answer
    links/        GET /db/…: databases, tables, keys and statements as links
    saved.py      /api/saved, GET /saved/…: queries with names and parameters, as links
    databases.py  /api/databases: the catalog, and a key as people write it → queries
    changes.py    what each new checkpoint of a job changes, as Server-Sent Events or JSON lines
    jobs.py       /api/jobs: the databases by their jobs, savepoints that Flink takes; /api/flink
    rules.py      /api/rules: what the rules of the service say of each job, and how long they are silent
    savepoints.py /api/savepoints: a script → a new savepoint
    tasks.py      /api/xray, /api/diff, …: the use cases of `service.tasks`; /api/checks/jar: a restore in the job of a jar
    health.py     GET /healthz, /readyz, /metrics and /docs
"""
