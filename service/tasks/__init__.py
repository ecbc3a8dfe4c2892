"""The use cases, a module or a package each. A door turns its input into a request of a task, and the outcome into its output.

task.py      what a use case is asked: fields with defaults, help and limits; `Task`, `Outcome`, and the `Context` of a caller
registry.py  the table of the use cases that every door offers
inspect.py   the operators and states of a savepoint, and what does not decode
lookup/      all states and timers of one key
xray.py      how much state there is, where, and how much of it is garbage
saved/       queries with names and parameters
time/        the checkpoints of a job: history of a key, differences, first fault, rules
follow/      what each new checkpoint of a job changes, as it comes
check/       will it restore: findings as text, HTML, JUnit's XML
write/       a script of statements → a new savepoint
copies/      a savepoint in another form: for another Flink, as Parquet, Iceberg or Delta
jobs/        the REST API of clusters of Flink: jobs, checkpoints, savepoints that it takes
"""
