"""The headers of state files: which states a file holds, and in which types.

In: the first bytes of a state file. Out: the key serializer, the states with their kinds and serializers.

Reading order:

    keyed.py       the header of keyed state
    operator.py    the header of operator state
    metainfo.py    one registered state: name, kind, serializers
    recovery.py    the search for the position where a header goes on behind an unknown snapshot
"""
