"""The user's `stateInfo` file: facts about a savepoint that its bytes do not hold, such as names of fields.

In: JSON, written by a user or by `readers.description`. Out: the types of states, refined.

Reading order:

    file.py         the file: read, checked, written
    refinement.py   its facts, applied to the types and kinds of states
    plans.py        names from job plans
"""
