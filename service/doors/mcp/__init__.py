"""The Model Context Protocol: tools for agents, by its official SDK, over HTTP (`/mcp`) and over standard input and output.

Only `server.py` and `door.py` import the SDK, which is the extra `mcp` and takes its time: they are imported
when the first client comes. The tools call the functions that the HTTP API calls, with the same limits, grants and audit log.

In reading order:

    calls.py        one call of a tool: its arguments, who asks, and the queries that run for it
    results.py      what a tool returns: structured content and a short text, of rows as many as have room
    catalogtools.py list_databases, describe_database, describe_table
    querytools.py   query, run_saved_query
    tasktools.py    the use cases of `service.tasks`; preview_write
    tools.py        the table of tools; databases and tables as texts with addresses
    guide.py        what an agent reads first: instructions, and a prompt
    server.py       the server of the SDK
    door.py         one HTTP request → the SDK; the sessions of clients: how many, for how long
    router.py       `/mcp`
"""
