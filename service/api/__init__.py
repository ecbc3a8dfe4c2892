"""HTTP under `/api`: one router per noun.

query.py      POST /api/query
databases.py  the catalog
health.py     GET /healthz
errors.py     QueryError → JSON
state.py      what the routers share
body.py       the limit on the size of requests
"""
