"""What all of the service shares.

version.py    the installed version
machine.py    memory and cores of this process, Arrow without pandas, files that are written whole
waiting.py    threads that the event loop waits for
rowgroups.py  rows → row groups of Parquet
errors.py     `QueryError`: errors as users see them, with HTTP status and stable code
hosts.py      which names of hosts mean this machine
settings.py   the one table of settings, for the command line, the environment and a file
catalogtables.py  names to the catalog who makes its tables about restores
restorecheck.py  the rows of restore_check and required_classes, from the doctor
principal.py  who asks, and which databases they may see
"""
