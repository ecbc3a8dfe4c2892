"""This process and the machine under it.

Modules:

    machine.py   memory and cores that this process may use
    arrow.py     Arrow without pandas
    waiting.py   threads that the event loop waits for
    files.py     files that are written whole or not at all
"""
