"""The commands: one module each, imported when the command is called, so that no command waits for the imports of another.

serve.py       run the HTTP service
query.py       run one statement
shell/         run statements from a terminal or a pipe
task.py        run a use case of `service.tasks`: xray, write, export, …
jobs/          test savepoints, or each new checkpoint
savepoint.py   let a running Flink take a savepoint
stateinfo.py   describe the states of a savepoint in a file beside it
demo.py        write and serve the savepoints of two jobs, which it brings
mcp.py         serve savepoints to an agent
completion.py  print a script that completes commands in bash, zsh or fish
compile.py     compile the decoder
keys.py        create, list and revoke API keys
doctor_env.py  check the environment
options.py     the request of a use case → arguments, and back
parser.py      what the parsers of commands share
outcome.py     exit codes, and errors as one line
sources.py     `[name=]PATH` → a catalog
output.py      rows → standard output or a file
progress.py    the progress of a long read, on standard error
"""
