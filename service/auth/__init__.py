"""Who asks, and what they may see.

    principal.py   `Principal`: a name, and the databases it is granted
    keys.py        API keys: a file of their hashes
    tokens.py      tokens of an identity provider (OIDC), checked against its published keys
    gate.py        the middleware that every request passes: host, origin, credentials

Import from the modules: what a query needs of them (`principal`) brings no web framework with it.

Without keys and without an identity provider everybody may ask everything; the service then listens on this machine only.
"""
