"""A state of a job as a stream of changes, checkpoint by checkpoint.

In: a table or a SELECT, and where to begin. Out: for each new checkpoint the rows that it changed, whole, in order, once.

    changes.py    the rows of a step of `catalog.follow.steps`, in memory or in a file, which any number of followers may read
    following.py  the request; the loop of one follower
    events.py     the rows and facts of a step as JSON lines
    sharing.py    the followers of a service: one look and one diff for all of them
"""
