"""The timeline of a key: what each state of a job has of it in each checkpoint.

In: a job, a text that is a key. Out: a timeline of each state, the oldest checkpoint first.

    timeline.py   asks the history of the job, one statement a state
    text.py       timelines → rows and lines for people
"""
