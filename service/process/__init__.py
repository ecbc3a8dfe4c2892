"""This process and the machine under it.

machine.py   memory and cores that this process may use
memory.py    what this process keeps of memory that was freed
arrow.py     Arrow without pandas
"""
