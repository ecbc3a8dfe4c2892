// Questions to begin with, made of what is in a savepoint.
import { Contents, Operator, operatorsOf } from "./catalog";
import { h } from "./dom";
import { queryLink } from "./route";
import { identifier } from "./sql";

interface Example {
  title: string;
  sql: string;
}

export const STATES: Example = {
  title: "Which states are there, of which types, and how large?",
  sql: "SELECT table_name, state_name, state_kind, key_type, value_type, size_bytes\nFROM StateMeta\nORDER BY size_bytes DESC",
};

const OTHERS: Example[] = [
  { title: "Up to where had the sources read?", sql: "SELECT topic, partition, starting_offset, details\nFROM source_offsets" },
  { title: "Which operators are there, and how parallel are they?", sql: "SELECT operator_name, operator_uid, operator_parallelism, operator_max_parallelism\nFROM operators" },
];
const NUMBER = 3;

/** Of the largest operator with keys, as far as there is one. */
function examplesOf(contents: Contents): Example[] {
  const keyed = operatorsOf(contents)
    .map((operator) => ({ ...operator, states: operator.states.filter((state) => state.key_type !== null && state.state_kind !== "TIMER" && state.table_name !== null) }))
    .filter((operator) => operator.states.length);
  const size = (operator: Operator) => Math.max(...operator.states.map((state) => state.size_bytes ?? 0));
  const [largest] = keyed.sort((one, other) => size(other) - size(one));
  const own = largest
    ? [
        { title: `What is in ${largest.states[0].state_name} of ${largest.label}?`, sql: `SELECT *\nFROM ${identifier(largest.states[0].table_name!)}\nLIMIT 100` },
        { title: `How many entries has each state of ${largest.label}?`, sql: `SELECT state_name, count(*) AS entries\nFROM ${identifier(largest.table)}\nGROUP BY state_name\nORDER BY entries DESC` },
      ]
    : [];
  return [...own, STATES, ...OTHERS].slice(0, NUMBER);
}

export function questions(database: string, contents: Contents): HTMLElement {
  return h(
    "section",
    { class: "questions", "aria-label": "Questions to begin with", role: "region" },
    h("h2", {}, "Questions to begin with"),
    h("ul", {}, examplesOf(contents).map(({ title, sql }) => h("li", {}, h("a", { href: queryLink({ db: database, sql, run: "1" }), title: sql }, title)))),
  );
}
