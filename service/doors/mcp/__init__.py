"""The Model Context Protocol: tools for agents, by its official SDK, over HTTP (`/mcp`) and over standard input and output.

Only `server.py`, `door.py` and `standardio.py` import the SDK, which is the extra `mcp` and takes its time: they are imported
when the first client comes. The tools call the functions that the HTTP API calls, with the same limits, grants and audit log.

In reading order:

    arguments.py    the arguments of each tool, and their JSON schemas
    calls.py        one call of a tool: who asks, and the queries that run for it
    sheet.py        rows of a query, as many as have room
    texts.py        results as short texts: tables, errors
    results.py      what a tool returns: structured content and a text
    catalogtools.py list_databases, describe_database, describe_table
    querytools.py   query
    savedtools.py   run_saved_query
    writetools.py   preview_write
    tasktools.py    the use cases of `service.tasks`
    tools.py        the table of tools
    resources.py    databases and tables as texts with addresses
    guide.py        what an agent reads first: instructions, and a prompt
    server.py       the server of the SDK
    sessions.py     the sessions of clients: how many, for how long
    door.py         one HTTP request → the SDK
    router.py       `/mcp`
"""
