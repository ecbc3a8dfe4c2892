"""The commands: a module each, loaded when it is called, so that none waits for what another needs.

serve.py     the HTTP service
query.py     one statement
inspect.py   what is in a savepoint
lookup.py    every state and timer of one key
compile.py   the decoder, compiled for all queries to come
stateinfo.py what is known of a savepoint's states, written beside it
outcome.py   exit codes, and errors as one line
sources.py   `[name=]PATH` → a catalog
output.py    rows → standard output or a file
progress.py  a line that says how far a long read is
"""
