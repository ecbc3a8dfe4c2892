"""The two versions of Kryo that Flink has used: Flink 2.0 replaced Kryo 2.24 by Kryo 5."""

KRYO_2_24 = 2
KRYO_5 = 5
