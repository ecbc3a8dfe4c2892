"""Compiled code: Python functions over machine words, compiled once by numba and kept as object code.

Numba is imported only to compile: its import, and its own cache, take longer than most queries. It compiles a plain C
function of 64-bit integers and addresses into an object file, which is kept; llvmlite loads it.

    kernel.py    `kernel`: a function that Python calls; a unit is the kernels of one module; the files that keep object code
    routines.py  what kernels call: subroutines, and operations of LLVM that Python does not have; object code → functions
    compiler.py  a unit → object code; imports numba

A kernel takes integers and arrays; of an array it gets the address. It cannot raise, allocate or call Python, and it
runs without the interpreter's lock. Its caller keeps the arrays alive.

Object code is kept in the folder `kernels` of the cache folder (`readers.storage.temporary`), or, if that cannot be
written, in a folder of the user among the system's temporary files.
"""
