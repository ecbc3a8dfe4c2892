"""Compiled code: Python functions over machine words, compiled once by numba and kept as object code.

Numba is loaded where something is to be compiled, and then only: loading it and its own cache takes longer than most
queries. What it compiles is a plain C function of 64-bit integers and addresses, in an object file that LLVM loads.

    kernel.py    `kernel`: what Python calls; a unit is the kernels of one module
    identity.py  what the code of a unit depends on, as one hash
    store.py     the files that hold it
    loading.py   object code → functions
    compiler.py  a unit → object code; imports numba
    ahead.py     all units, compiled now
    routines.py  what a kernel is made of: subroutines, and operations that LLVM has and Python has not

A kernel is called with integers and arrays, and gets the address of each array. It cannot raise, allocate or call Python,
and runs without the interpreter's lock; whoever calls it keeps the arrays alive.

Object code is kept in `kernels` of the folder that `readers.storage.cachefolder` names. Where that cannot be written, a folder
of the user's among the system's temporary files serves.
"""
