"""The commands that make new savepoints.

create.py      make a new savepoint, from queries and files
write.py       change a savepoint, into a new savepoint
convert.py     write a savepoint anew for another Flink, with equal values
savepoint.py   let a running Flink take a savepoint
"""
