"""Tools of the project itself: they read the code or whole folders of savepoints, and are not part of the wheel.

Reading order:

    fidelity.py   scans every table of every savepoint in a folder, and reports what decodes
    reference.py  writes the reference pages of the documentation
    support.py    writes the support tables of the README
"""
