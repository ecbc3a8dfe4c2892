"""Will it restore: a check of the doctor's as people, programs and CI systems read it.

Modules:

    findings.py  reports of one savepoint, the worst first → what is not fine in them, an exit code, and advice
    running.py   a savepoint and what it is compared with → findings
    written.py   the check that ends a write
    text.py      findings → lines for the terminal
    markup.py    findings → HTML: a page of its own, or a part of a notebook
    junit.py     findings → JUnit's XML
    task.py      what the process of a client's check gets, and what it sends back
    process.py   runs one check, then ends
    registry.py  the checks of clients: so many at a time, each in a process of its own
"""
