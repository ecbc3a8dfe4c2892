// How large the operators of a savepoint are, and their subtasks: from what `_metadata` and the list of files say.
import { Reading, records } from "./asking";
import { contents, operatorsOf } from "./catalog";
import { table } from "./sql";

interface OperatorRow {
  checkpoint_id: number;
  operator_name: string | null;
  operator_uid: string | null;
  operator_uid_hash: string;
  operator_parallelism: number;
  operator_max_parallelism: number;
  operator_total_size_in_bytes: number;
}
interface FileRow {
  operator_id: string;
  subtask: number | null;
  files: number;
  bytes: number;
  missing: number;
}
export interface Size {
  id: string;
  label: string;
  name: string | null;
  uid: string | null;
  parallelism: number;
  maxParallelism: number;
  bytes: number;
  /** Bytes of each subtask. */
  subtasks: number[];
}
export interface Sizes {
  /** The largest first. */
  sizes: Size[];
  files: number;
  missing: number;
  checkpoint: number | null;
}

export async function sizesOf(database: string, how: Reading): Promise<Sizes> {
  const [listed, files, found] = await Promise.all([
    records<OperatorRow>(`SELECT * FROM ${table(database, "operators")}`, how),
    records<FileRow>(
      `SELECT operator_id, subtask, count(*) AS files, sum(size_bytes)::BIGINT AS bytes, count(*) FILTER (NOT "exists") AS missing FROM ${table(database, "files")} GROUP BY ALL ORDER BY ALL`,
      how,
    ),
    contents(database),
  ]);
  const labels = new Map(operatorsOf(found).map((operator) => [operator.id, operator.label]));
  const sizes = listed.map((row): Size => {
    const id = row.operator_uid_hash;
    const own = files.filter((file) => file.operator_id === id && file.subtask !== null);
    return {
      id,
      label: labels.get(id) ?? row.operator_uid ?? row.operator_name ?? id,
      name: row.operator_name,
      uid: row.operator_uid,
      parallelism: row.operator_parallelism,
      maxParallelism: row.operator_max_parallelism,
      bytes: row.operator_total_size_in_bytes,
      subtasks: Array.from({ length: Math.max(row.operator_parallelism, 1) }, (_, subtask) => own.filter((file) => file.subtask === subtask).reduce((sum, file) => sum + file.bytes, 0)),
    };
  });
  sizes.sort((one, other) => other.bytes - one.bytes);
  const sum = (name: "files" | "missing") => files.reduce((total, file) => total + file[name], 0);
  return { sizes, files: sum("files"), missing: sum("missing"), checkpoint: listed[0]?.checkpoint_id ?? null };
}
