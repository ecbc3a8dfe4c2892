"""Will it restore: a check of the doctor's as people, programs and CI systems read it.

Modules:

    findings.py  reports of one savepoint, the worst first → what is not fine in them, an exit code, advice, lines for the terminal
    running.py   what is asked; a savepoint and what it is compared with → findings; the check that ends a write
    script.py    what a write can mend → the script of the write; what it leaves, in its comments
    markup.py    findings → HTML, a page of its own or a part of a notebook; JUnit's XML
    process.py   the check of a client in its process: what it gets, and what it sends back
    registry.py  the checks of clients: so many at a time, each in a process of its own
"""
