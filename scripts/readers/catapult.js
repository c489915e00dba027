// SPDX-License-Identifier: MIT
'use strict';
// What chrome://tracing makes of a trace: its importer, out of the page that shows traces, in node.
// Prints a line of JSON: slices, samples of counters, arrows, and what it warned of.
//
//     node catapult.js TRACE_VIEWER.html TRACE
//
// Parts of the page that draw want a document and fail here; those that read do not.
const fs = require('fs');
const vm = require('vm');

process.on('uncaughtException', (e) => { // without the line, which is all of the page
  process.stderr.write(`${e.stack.slice(0, 500)}\n`);
  process.exit(1);
});
const [, , viewer, trace] = process.argv;
const page = fs.readFileSync(viewer, 'utf8');
const begin = page.indexOf("'use strict';const global=this.window||this.global;this.tr=");
const parts = page.slice(begin, page.indexOf('</script>', begin)).split("'use strict';").slice(1);

const world = { console, setTimeout, performance, isVinn: true };
world.global = world.self = world;
vm.createContext(world);
for (const part of parts) {
  try { vm.runInContext(part, world); } catch (e) { /* it draws */ }
}
world.text = fs.readFileSync(trace, 'utf8');
process.stdout.write(vm.runInContext(`
  const model = new tr.Model();
  new tr.importer.Import(model, new tr.importer.ImportOptions()).importTraces([text]);
  let slices = 0, samples = 0;
  for (const event of model.getDescendantEvents()) {
    if (event instanceof tr.model.Slice) slices++;
    if (event instanceof tr.model.CounterSample) samples++;
  }
  JSON.stringify({ slices, samples, flows: model.flowEvents.length,
                   warnings: model.importWarnings.map((w) => w.message) })
`, world) + '\n');
