-- SPDX-License-Identifier: MIT
--- A benchmark's report over points that are written here: its table, its JSON, its CSV and its
--- files, word by word (tests/approved/bench).

local approved = dofile 'tests/lua/approved.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local report = require 'ridge.bench.report'

local MB = 2 ^ 20

-- Ten samples around a median of so many nanoseconds.
local function entry(model, batch, ns, more)
  local e = { model = model, batch = batch, params = { model = model, batch = batch, width = 64 },
    samples = {}, inner = 4, ci_lo = 0.98 * ns, ci_hi = 1.03 * ns, first_ns = 3 * ns,
    peak = 3 * MB, average = 2 * MB, flops = 1000 * batch, grade = 'A', flags = '',
    stop = 'precision', rounds = 5, warm_calls = 40, config = { precision = 0.01 } }
  for i = 1, 9 do e.samples[i] = ns * (1 + (i - 5) / 100) end
  for name, value in pairs(more or {}) do e[name] = value end
  return e
end

local FACTS = { machine = { cpu = 'Test CPU 9000', threads = 4, ram = 8 * 2 ^ 30 },
  device = { kind = 'cpu', name = 'Test CPU 9000' } }

local CASES = {
  one = { entry('linear{16,8}', 1, 2e6, { clock_hz = 3.2e9 }), entry('linear{16,8}', 8, 4e6) },
  three = {
    entry('linear', 1, 2000, { inner = 1, flags = 'DRIFT WIDE' }),
    entry('linear', 8, 4e6, { inner = 4, params = { model = 'linear', batch = 8, act = 'a,"b"' } }),
    entry('low rank', 1, 1000, { inner = 16, peak = 1.5 * MB, grade = 'B', flags = 'WIDE' }),
    entry('low rank', 8, 8e6, { peak = 6 * MB, average = 5.125 * MB, ci_lo = -5 }),
    entry('low rank', 32, 3e7), -- which the first one has not
    entry('third', 8, 4.01e6, { grade = 'D', flags = 'FOREIGN' }),
    entry('third', 1, 2e3, { ci_lo = false, ci_hi = false, flops = false, first_ns = false,
      gpu = { clock_mhz = 1980, celsius = 40, watts = 300 } }) },
  single = { entry('x', 2, 10000, { inner = 1 }), entry('x', 4, 9999, { inner = 1 }) },
  long = { entry('x', 2, 10000, { inner = 1 }), entry('x', 4, 10000, { inner = 1 }) },
  wide = { entry('x', 2, 5e5, { inner = 2, ci_lo = -1e4 }), entry('x', 4, 9e5, { inner = 3,
    grade = false }) },
}

local function text_of(name)
  local list = {}
  for i, e in ipairs(CASES[name]) do
    list[i] = {}
    for key, value in pairs(e) do list[i][key] = value or nil end
  end
  return report.new(list, FACTS)
end

describe('a report of a benchmark', function()
  it('reads as it was approved', function()
    local out = {}
    for _, name in ipairs { 'one', 'three', 'single', 'long', 'wide' } do
      out[#out + 1] = ('-- %s\n%s'):format(name, text_of(name):text())
    end
    approved.check('bench/text', table.concat(out, '\n\n'))
  end)

  it('is JSON and CSV as they were approved', function()
    local r = text_of 'three'
    assert.matches('^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ$', r.timestamp)
    r.timestamp = '2026-01-02T03:04:05Z'
    local one = text_of 'one'
    one.timestamp = 'then'
    local function lines(json) return (json:gsub('},{', '},\n{'):gsub(',"', ',\n  "')) end
    approved.check('bench/json', lines(one:json { samples = true }) .. '\n' .. lines(r:json()))
    approved.check('bench/csv', ('%s\n%s'):format(r:csv(), one:csv()))
  end)

  it('is a file for each point, with its own comparison', function()
    local r = report.new({ entry('a b{1,2}', 1, 1e6), entry('a-b_1', 1, 2e6),
      entry('a b 1 2', 1, 3e6), entry(('m'):rep(70), 16, 4e6) }, FACTS)
    local folder = folders.new()
    local paths, names, found = r:save(folder), {}, {}
    for i, path in ipairs(paths) do
      names[i] = path:sub(#folder + 2)
      local file = assert(io.open(path))
      local text = file:read '*a'
      file:close()
      assert.equal('\n', text:sub(-1))
      local own = require('ridge.store.canonical').decode(text)
      assert.equal(1, #own.results)
      assert.equal(9, #own.results[1].samples_ns)
      found[i] = own.results[1].model_name:sub(1, 8) .. #own.comparison
        .. (own.comparison[1] and own.comparison[1].model_name or '')
    end
    folders.remove(folder)
    assert.same({ 'a_b_1_2_b1.json', 'a-b_1_b1.json', 'a_b_1_2_b1-2.json',
      ('m'):rep(60) .. '_b16.json' }, names)
    assert.same({ 'a b{1,2}0', 'a-b_11a-b_1', 'a b 1 21a b 1 2', 'mmmmmmmm0' }, found)
  end)
end)
