"""What the classes of a job forbid, and no savepoint says.

nulls.py       NULL in fields that may be primitive in Java
shared.py      a class that an altered state shares with others
"""
