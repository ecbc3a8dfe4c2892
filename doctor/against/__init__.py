"""What a savepoint is compared with: each kind is an `Against` of `doctor.job`, and tells some facts about the new job.

Reading order:

    savepoint.py    a savepoint: of the new job, started once; the source of a written one; and the savepoint that is checked
    jars.py         a jar of the new job: its classes, their types, and what its code declares
    recognition.py  paths → what is there, told apart by content; job plans and stateInfo files

To add a kind, write a class of `Against`; the rules need not know it.
"""
