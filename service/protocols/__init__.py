"""Protocols of other databases, so that their clients can query savepoints.

One package for each protocol:

    mcp/    the Model Context Protocol: agents
    trino/  Trino's client protocol: BI tools, JDBC, SQLAlchemy
"""
