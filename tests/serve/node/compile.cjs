// Check a TypeScript file strictly, and write it as JavaScript beside it.
const ts = require("typescript");
const [file] = process.argv.slice(2);
const options = {
  strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022, lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
  types: [], noEmitOnError: true, outDir: require("node:path").dirname(file),
};
const program = ts.createProgram([file], options);
const found = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
for (const one of found) console.error(ts.flattenDiagnosticMessageText(one.messageText, "\n"));
process.exit(found.length ? 1 : 0);
