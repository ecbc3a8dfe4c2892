"""This process and the machine under it.

Modules:

    machine.py   memory and cores that this process may use
    memory.py    limits of the freed memory that the allocators keep
    arrow.py     Arrow without pandas
    files.py     files that are written whole or not at all
"""
