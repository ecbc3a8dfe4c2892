"""The parts of HTTP that are the same for every request.

Modules:

    body.py         the limit on the size of requests
    connections.py  sockets and connections; clients that take no bytes are disconnected
    errors.py       QueryError → JSON
"""
