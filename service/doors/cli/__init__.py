"""The commands, imported when they are called, so that no command waits for the imports of another.

serve.py       run the HTTP service; `demo` writes the savepoints of two jobs, and serves them
query.py       run one statement
shell/         run statements from a terminal or a pipe
task.py        run a use case of `service.tasks`: the fields of its request → arguments, its outcome → text, JSON or rows
jobs/          test savepoints, or each new checkpoint
mcp.py         serve savepoints to an agent
completion.py  print a script that completes commands in bash, zsh or fish
setup.py       API keys, `stateInfo` files, compiling the decoder
doctor_env.py  check the environment
parser.py      what the parsers of commands share
output.py      rows → standard output or a file; errors and progress → standard error; exit codes
sources.py     `[name=]PATH` → a catalog
"""
