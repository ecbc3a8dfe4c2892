"""HTTP under `/api`: one router per noun.

query.py        POST /api/query
databases.py    the catalog
health.py       GET /healthz
errors.py       QueryError → JSON
buffer.py       the rows of a JSON answer, until it is sent
connections.py  clients that take nothing
state.py        what the routers share
body.py         the limit on the size of requests
"""
