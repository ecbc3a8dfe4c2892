"""Keyed state that other processes make: each gets a parcel, and writes one file of the target.

    target ─ reference ─┐
    maker ─ pickled ────┴─▶ parcel ─▶ another process: opens the source, joins the target, makes the state ─▶ its handle

A parcel is small: it names the source's handles, which the other process opens itself, and the parts of a file of the target that have
the rows and entries which only the writer has. These are Arrow and entries, never code.

    parcels.py  works → parcels, and back
"""
