// SPDX-License-Identifier: MIT
'use strict';
// Perfetto's trace processor, the wasm that browsers run, in node: it reads a trace and answers
// queries of SQL, each as a line of JSON, a list of rows.
//
//     node perfetto.js FOLDER TRACE QUERY...
//
// FOLDER has engine_bundle.js and trace_processor.wasm.  The bundle is a worker's: it is told of a
// port, and answers there, in messages of perfetto's trace_processor.proto.
const fs = require('fs');
const path = require('path');

process.on('uncaughtException', (e) => { // without the line, which is all of the bundle
  process.stderr.write(`${e.stack.slice(0, 500)}\n`);
  process.exit(1);
});
const [folder, trace, ...queries] = process.argv.slice(2);

// -- Messages ----------------------------------------------------------------------------------

function varint(n) {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return Buffer.from([...out, n]);
}
const number = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const bytes = (field, data) => Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);

// By number the values of each field: BigInt, or bytes.
function fields(buffer) {
  const out = {};
  let at = 0;
  function next() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  while (at < buffer.length) {
    const key = Number(next()), wire = key & 7;
    let value;
    if (wire === 0) {
      value = next();
    } else {
      const n = wire === 1 ? 8 : wire === 5 ? 4 : Number(next());
      value = buffer.subarray(at, at + n);
      at += n;
    }
    (out[key >> 3] ||= []).push(value);
  }
  return out;
}

function varints(buffer) {
  const out = [];
  let value = 0n, shift = 0n;
  for (const byte of buffer) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) { out.push(Number(BigInt.asIntN(64, value))); value = 0n; shift = 0n; }
  }
  return out;
}

// Rows of a batch of cells.
function cells(batch, width) {
  const numbers = varints(Buffer.concat(batch[2] || []));
  const doubles = Buffer.concat(batch[3] || []);
  const texts = Buffer.concat(batch[5] || []).toString().split('\0');
  let n = 0, d = 0, t = 0;
  const all = varints(Buffer.concat(batch[1] || [])).map((kind) => {
    if (kind === 2) return numbers[n++];
    if (kind === 3) return doubles.readDoubleLE(8 * d++);
    if (kind === 4) return texts[t++];
    return null;
  });
  const rows = [];
  for (let i = 0; i < all.length; i += width) rows.push(all.slice(i, i + width));
  return rows;
}

// -- The processor -----------------------------------------------------------------------------

globalThis.self = globalThis;
globalThis.location = { href: 'file:///' };
globalThis.WorkerGlobalScope = Object; // it looks whether it is a worker's
globalThis.XMLHttpRequest = class { // what it reads is its wasm
  open(method, name) { this.name = name; }
  send() { this.response = fs.readFileSync(path.join(folder, path.basename(this.name))); }
};
console.warn = () => {};
new Function('process', fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'))();

const answers = [];
const port = { postMessage: (data) => {
  for (const message of fields(Buffer.from(data))[1] || []) answers.push(fields(message));
} };
self.onmessage({ data: port });

let sequence = 0;
function ask(...parts) {
  answers.length = 0;
  port.onmessage({ data: new Uint8Array(bytes(1,
    Buffer.concat([number(1, ++sequence), ...parts]))) });
  for (const answer of answers) if (answer[5]) throw new Error(String(answer[5][0]));
  return answers;
}

async function main() {
  await new Promise((go) => setImmediate(go)); // the bundle has promised itself to be ready
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += 2 ** 24) {
    const [answer] = ask(number(2, 1), bytes(101, data.subarray(at, at + 2 ** 24)));
    const result = fields(answer[201][0]);
    if (result[2]) throw new Error(String(result[2][0]));
  }
  for (const answer of ask(number(2, 2))) {
    const result = answer[211] && fields(answer[211][0]);
    if (result && result[1]) throw new Error(String(result[1][0]));
  }
  for (const query of queries) {
    let width = 0;
    const rows = [];
    for (const answer of ask(number(2, 3), bytes(103, bytes(1, Buffer.from(query))))) {
      const result = fields(answer[203][0]);
      if (result[2] && result[2][0].length) throw new Error(String(result[2][0]));
      if (result[1]) width = result[1].length;
      for (const batch of result[3] || []) rows.push(...cells(fields(batch), width));
    }
    process.stdout.write(JSON.stringify(rows) + '\n');
  }
}

main().catch((e) => { process.stderr.write(`${e.message}\n`); process.exit(1); });
