"""The one table of all rules: `docs/check.md` shows it."""

from __future__ import annotations

from doctor.rules import avro, graph, jar, kryo, plans, pojo, samples, scala, states, types, upgrade, values
from doctor.rules.rule import Rule

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "job graph": graph.RULES,
    "states, keys, TTL": states.RULES,
    "types": types.RULES,
    "POJOs and records": pojo.RULES,
    "Kryo": kryo.RULES,
    "Avro": avro.RULES,
    "Scala": scala.RULES,
    "jars": jar.RULES,
    "plans, stateInfo": plans.RULES,
    "upgrades, SQL, CEP": upgrade.RULES,
    "the first stored values": samples.RULES,
    "stored values (`--values`)": values.RULES,
}
"""Title, as the documentation shows it → the rules of one family."""
