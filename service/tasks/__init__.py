"""The use cases, a module or a package each. A door turns its input into a request of a task, and the outcome into its output.

task.py      what a use case is asked: fields with defaults, help and limits; `Task`, `Outcome`, and the `Context` of a caller
registry.py  the table of the use cases that every door offers
lookup/   all states and timers of one key
inspect.py  the operators and states of a savepoint, and what does not decode
xray.py     how much state there is, where, and how much of it is garbage
saved/    queries with names and parameters
history.py   what each state of a job has of a key in each checkpoint
write/    a script of statements → a new savepoint
bisect.py   the checkpoints of a job and a query → the first one with a row
test/     rules and savepoints → which rules hold
convert/  a savepoint of one Flink → one for another
export/   tables → Parquet files, tables of Iceberg and Delta
jobs/     the REST API of clusters of Flink: jobs, checkpoints, savepoints that it takes
check/    will it restore: findings as text, HTML, JUnit's XML
diff/     what differs between two savepoints: counts, samples, texts
"""
