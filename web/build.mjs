// Builds the page into service/doors/page/static, with a manifest that tells which sources it was built from.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const target = join(web, "..", "service", "doors", "page", "static");

const sha256 = (content) => createHash("sha256").update(content).digest("hex");
const names = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(web, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((name) => !name.startsWith("node_modules/"))
    .sort();
const hashes = (folder, files) => Object.fromEntries(files.map((name) => [name, sha256(readFileSync(join(folder, name)))]));

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const common = { absWorkingDir: web, outdir: target, bundle: true, target: "es2022", minify: true, charset: "utf8", legalComments: "none", logLevel: "info" };
const result = await build({
  ...common,
  entryPoints: { app: "src/main.ts" },
  splitting: true,
  format: "esm",
  chunkNames: "[name]-[hash]",
  metafile: true,
  define: { "process.env.NODE_ENV": '"production"' },
});
// Not a module: those run too late.
await build({ ...common, entryPoints: { theme: "src/theme-first.ts" }, format: "iife" });
for (const name of ["index.html", "icon.svg"]) cpSync(join(web, "src", name), join(target, name));

// The licences of every package that is in the bundle.
const packages = new Set(
  Object.keys(result.metafile.inputs)
    .map((input) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1])
    .filter(Boolean),
);
const licences = [...packages].sort().map((name) => {
  const folder = join(web, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const texts = readdirSync(folder, { withFileTypes: true })
    .filter((file) => file.isFile() && /^(licen[cs]e|notice)/i.test(file.name))
    .map((file) => file.name)
    .sort();
  const whole = texts.map((file) => readFileSync(join(folder, file), "utf8").trim()).join("\n\n");
  return `${name} ${version} (${license})\n\n${whole}`;
});
writeFileSync(join(target, "LICENSES.txt"), licences.join(`\n\n${"-".repeat(100)}\n\n`) + "\n");

const built = readdirSync(target).sort();
const manifest = { sources: hashes(web, names(web)), files: hashes(target, built) };
writeFileSync(join(target, "manifest.json"), JSON.stringify(manifest, null, 1) + "\n");
