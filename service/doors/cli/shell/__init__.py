"""`savepointdb PATH`: the shell. Statements and commands from a terminal or a pipe; answers as `savepointdb query` shows them.

shell.py        the arguments of the command
terminal.py     a terminal: the prompt, its keys, what is shown before the first statement
opening.py      the savepoints, opened while the prompt is already there
banner.py       what is said of them first
pipe.py         a pipe or a file: its statements, one after the other
console.py      run statements and commands; errors as one line
view.py         how answers are shown, and where they go
dotcommands.py  the commands that begin with a dot
taskcommands.py the use cases among them: .lookup, .history, .diff, .xray, .check, …
statements.py   the lines of a file, and a text → its statements; a line → its command
completion.py   what may stand at the cursor
names.py        the names that completion knows, from the catalog
history.py      the statements of earlier days, in a file of the user
"""
