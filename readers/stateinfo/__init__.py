"""What states a savepoint holds and in which types: the headers of the state files.

In: the first bytes of a state file. Out: the key serializer, the states with their kinds and serializers.

Reading order:

    snapshots.py   a serializer snapshot → a `Serializer`
    metainfo.py    one registered state: name, kind, serializers
    proxies.py     the whole header of keyed and of operator state
    javaio.py      Java object streams, parsed and never instantiated
    file.py        the `stateInfo` file: what the bytes do not say
    refinement.py  what it says, applied to types and kinds
    plans.py       names from job plans
    writer.py      a savepoint → its `stateInfo`
"""
