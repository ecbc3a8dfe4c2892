"""States, types, uids and settings that the byte code of a jar declares. Nothing is loaded or run.

In: a `ClassPath`. Out: `Declarations`: what constant arguments of calls say. A method is interpreted once, over abstract values:
constants, classes, objects by their constructors, results of calls; what depends on more is unknown. Reading order:

    values.py       abstract values
    opcodes.py      the lengths and effects of instructions
    interpreter.py  the code of methods → the calls in it
    types.py        abstract values → serializers: Types.LONG, TypeInformation.of(X.class), new TypeHint<X>() {}
    queries.py      SQL in texts: the aggregates of queries
    reading.py      calls → declarations
"""
