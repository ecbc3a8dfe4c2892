"""Authentication: the principal of a request, and the databases that it may read.

    keys.py        API keys: a file of their hashes
    tokens.py      tokens of an identity provider (OIDC), checked against its published keys
    gate.py        the middleware that every request passes: host, origin, credentials

Without keys and without an identity provider everybody may read everything; the service then listens on this machine
only.
"""
