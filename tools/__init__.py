"""Tools of the project itself: they read the code or whole folders of savepoints, and are not part of the wheel.

screenshots.py  the screenshots of README and docs, or of every place of the page
support.py    the tables that come from registries, for README.md and pages of docs/
reference.py  docs/reference/index.md and python.md
examples.py   runs the examples of the documentation and of notebooks
fidelity.py   a report of what decodes in a folder of savepoints
roundtrip.py  a report of what is encoded to the same bytes in a folder of savepoints
rewritten.py  a report of which keyed state is written anew in a folder of savepoints
folders.py    the folders on the command lines of the last three
compat.py     how often `check` foresees what real Flink did, on labelled restores
synthetic/    savepoints of any size with known rows, for tests and benchmarks
servers.py    servers of their own, and their processes
halfopen.py   requests that begin and do not end, while others ask
"""
