"""Rules for what a job plan or a stateInfo file does not tell. A risk names it; the verdict stands unless the risk comes true."""

from __future__ import annotations

from doctor.rules.rule import DOUBT, Rule

OPERATOR_UNLISTED = Rule(
    id="plan-operator-unlisted",
    change="an operator with state that the plan, or the stateInfo file, does not list",
    effect="a plan has the ids of the heads of chains only; if the new job lacks the operator, the restore fails",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, started once",
    shown_by="uid-changed op-removed o.a.f.runtime.jobgraph.jsonplan.JsonPlanGenerator",
)
TYPES_BY_NAME = Rule(
    id="state-info-names",
    change="a stateInfo file has the names of types, and not the fields of their classes",
    effect="a type of the same name is taken for unchanged; a field that was added, removed or retyped would not be seen",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, or with its jar too",
    shown_by="pojo-retype-int-long pojo-remove-field",
)
TYPE_UNKNOWN = Rule(
    id="state-info-type",
    change="the stateInfo file has another type, which is not known by its name alone",
    effect="a type that does not fit fails the restore, or migrates the values",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, or with its jar too",
    shown_by="pojo-retype-long-string kind-value-to-list",
)

STATES_UNSEEN = Rule(
    id="plan-states-unseen",
    change="the states of the new job, which a plan does not tell",
    effect="they are taken for unchanged; a class or a type that has changed fails the restore, or loses values",
    heap=DOUBT,
    remedy="compare with a savepoint of the new job, or with its jar too",
    shown_by="pojo-retype-int-long state-renamed o.a.f.runtime.jobgraph.jsonplan.JsonPlanGenerator",
)
