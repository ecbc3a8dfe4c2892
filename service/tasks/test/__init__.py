"""Rules → whether savepoints keep them. Tests for state, as a job's own tests are for its code.

In: a file of rules, and savepoints. Out: a report: what is violated, with sample rows; what could not be tested, and why.

Reading order:

    errors.py       InvalidRulesError
    rules.py        Rule: a query that must return no row, or a value within bounds
    files.py        files of rules (.toml, .sql) → rules
    standard.py     the rules that come with the program, in `standard.toml`
    results.py      the results of rules and of savepoints; exit codes
    running.py      one savepoint, the one before it, and rules → results
    selection.py    which savepoints are tested, and which is the one before each
    text.py         the results of a savepoint → lines for people
    testing.py      what is asked → a report of a whole run
    markup.py       a report → JUnit's XML
    watching.py     new checkpoints, as they come
    webhook.py      a report → POST to a URL of the user
"""
