// What a restore of a savepoint will do: the question, and its answer.
import { post, send } from "./api";

export type Severity = "fails" | "unknown" | "loses" | "doubt" | "risk" | "fine";

export interface Risk {
  rule: string;
  /** `fine` for a word of caution about what no comparison sees. */
  severity: Severity;
  message: string;
  remedy: string;
  evidence: string[];
  field_path: string | null;
}
interface Verdict {
  stage: string | null;
  message: string;
  remedy: string;
  evidence: string[];
  rule: string | null;
  severity: Severity;
  risks: Risk[];
}
export interface StateVerdict extends Verdict {
  state_name: string;
  kind: string;
  outcome: string;
  field_path: string | null;
}
export interface OperatorVerdict extends Verdict {
  operator_id: string;
  uid: string | null;
  name: string | null;
  outcome: string;
  states: StateVerdict[];
}
export interface CheckReport extends Verdict {
  savepoint: string;
  against: string[];
  flink: string;
  backend: string;
  outcome: string;
  headline: string;
  advice: string;
  operators: OperatorVerdict[];
  /** All of them, where several were asked for; this one is the worst. */
  backends: Record<string, CheckReport>;
}
export interface Question {
  database: string;
  /** A database; null for none. */
  against: string | null;
  jar: File | null;
  flink: string;
  backend: string;
  allow_non_restored: boolean;
}

export function check({ jar, against, ...rest }: Question, signal: AbortSignal): Promise<CheckReport> {
  if (!jar) return post<CheckReport>("api/checks", { ...rest, against }, signal);
  const values = new URLSearchParams({ database: rest.database, name: jar.name.slice(0, 200), flink: rest.flink, backend: rest.backend, allow_non_restored: String(rest.allow_non_restored) });
  if (against) values.append("against", against);
  return send<CheckReport>(`api/checks/jar?${values}`, jar, signal);
}

const ORDER: Severity[] = ["fails", "unknown", "loses", "doubt", "risk", "fine"];

/** The worst first. */
export function worstFirst<T extends { severity: Severity }>(verdicts: T[]): T[] {
  return [...verdicts].sort((one, other) => ORDER.indexOf(one.severity) - ORDER.indexOf(other.severity));
}

/** The reports of all backends that say something of their own, the worst first. */
export function reportsOf(answer: CheckReport): CheckReport[] {
  const all = Object.values(answer.backends);
  const others = all.filter((one) => one.backend !== answer.backend && said(one) !== said(answer));
  return [answer, ...others];
}

/** The backends that one report speaks for. */
export function backendsOf(report: CheckReport, answer: CheckReport): string[] {
  const alike = Object.values(answer.backends).filter((one) => said(one) === said(report));
  return alike.length ? [report.backend, ...alike.map((one) => one.backend).filter((name) => name !== report.backend)] : [report.backend];
}

/** What a report shows; words of caution that are not shown make no difference. */
function said({ outcome, stage, operators, risks }: CheckReport): string {
  return JSON.stringify({ outcome, stage, operators, risks }, (name, value) => (name === "risks" ? shownRisks(value) : value));
}

/** The risks that people are shown. */
export function shownRisks(risks: Risk[]): Risk[] {
  return risks.filter((risk) => risk.severity !== "fine");
}
