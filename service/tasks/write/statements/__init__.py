"""A script of SQL statements → what it says, before anything is looked up.

    parser.py      reads the tokens of one statement
    keys.py        the statements about keys
    creation.py    the statements that create a state, or copy an operator
    script.py      the text → statements, by the table of first words

To add a statement, write its dataclass and a function that parses it, and add its line to `STATEMENTS` in script.py. The changes of
`service.tasks.write` then say what it does. Expressions and conditions stay as they were written: DuckDB reads them.
"""
