"""`savepointdb PATH`: the shell. Statements and commands from a terminal or a pipe; answers as `savepointdb query` shows them.

terminal.py     a terminal: the prompt, its keys, the statements of earlier days; a thread opens the savepoints meanwhile
console.py      run statements and commands, also those of a pipe; errors as one line; what is said of the savepoints first
dotcommands.py  the commands that begin with a dot
taskcommands.py the use cases among them: .lookup, .history, .diff, .xray, .check, …; how answers are shown, and where they go
statements.py   the lines of a file, and a text → its statements; a line → its command
completion.py   what may stand at the cursor
"""
