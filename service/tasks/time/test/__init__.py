"""Rules → whether savepoints keep them. Tests for state, as a job's own tests are for its code.

In: a file of rules, and savepoints. Out: a report: what is violated, with sample rows; what could not be tested, and why.

Reading order:

    rules.py        Rule: a query that must return no row, or a value within bounds; files (.toml, .sql) → rules; the standard ones
    running.py      one savepoint, the one before it, and rules → results; exit codes
    testing.py      what is asked → a report of a whole run, as lines for people and as JUnit's XML
    watching.py     new checkpoints, as they come; a report → POST to a URL of the user
    states.py       what the rules of a service say of each job, and the file that keeps it
    serving.py      the thread of a service that tests its rules on new checkpoints, and tells what changes
"""
