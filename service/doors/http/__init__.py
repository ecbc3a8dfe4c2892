"""HTTP: what is the same for every request, who asks, and `/api`.

admission.py    the number of connections, and the time that each may wait for its client
body.py         the limits of the length of bodies, and of the time that they take
connections.py  the server that accepts connections, and their protocol; clients that send or take no bytes are disconnected
errors.py       QueryError → JSON
auth/           API keys, tokens, and the gate that checks them
api/            HTTP under `/api`
"""
