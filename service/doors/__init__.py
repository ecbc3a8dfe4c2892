"""Where requests come in and answers go out. A door decides nothing that another door could decide otherwise.

operations/  metrics, logs, checks of the environment
served.py    a client and a use case: bodies → requests, and what answers them
http/        the limits, connections and errors of all requests; keys and tokens; `/api`
mcp/         the Model Context Protocol: agents
trino/       Trino's client protocol: BI tools, JDBC, SQLAlchemy
page/        the page at `/`
app.py       the HTTP application
cli/         the commands of the command line, one module for each
"""
