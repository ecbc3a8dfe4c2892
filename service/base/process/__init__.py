"""This process and the machine under it.

Modules:

    machine.py   memory and cores that this process may use
    memory.py    limits of the freed memory that the allocators keep
    arrow.py     Arrow without pandas
    waiting.py   threads that the event loop waits for
    files.py     files that are written whole or not at all
"""
