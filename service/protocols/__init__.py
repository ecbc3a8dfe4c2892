"""Protocols of other databases, so that their clients can query savepoints.

trino/  Trino's client protocol: BI tools, JDBC, SQLAlchemy
"""
