"""Protocols of other databases, so that their clients can ask savepoints.

trino/  Trino's client protocol: BI tools, JDBC, SQLAlchemy
"""
