"""The serializers of SQL's internal data.

Reading order:

    rowdata.py        the serializers and their snapshots
    logicaltypes.py   SQL types, and their values in binary rows and arrays
    javatypes.py      SQL types from the Java objects of snapshots
    variants.py       VARIANT
"""
