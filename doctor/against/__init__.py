"""What a savepoint is compared with: each kind tells some facts about the new job.

Reading order:

    kind.py         Against: what every kind does
    savepoint.py    a savepoint: of the new job, started once; and the savepoint that is checked
    written.py      the source of a savepoint that a script wrote
    jars.py         a jar of the new job: its classes, their types, and what its code declares
    plans.py        a job plan: ids of operators, parallelism
    stateinfo.py    a stateInfo file: operators, names and types of states
    recognition.py  paths → what is there, told apart by content

To add a kind, write a module with a class of `Against`; the rules need not know it.
"""
