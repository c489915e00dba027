-- SPDX-License-Identifier: MIT
-- A results database whose every number is written here, so that what is printed of it is known to
-- the last digit: sweeps of both protocols, every state, grade and kind of row.
--
-- widths: kind x width, five passes each, a time, a cold one, a first call, rates, partners.
-- old: protocol 1, rounds of one process.  broken: every way to fail.  half: under way.  empty.

local canonical = require 'ridge.store.canonical'
local record = require 'ridge.store.record'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local M = {}

-- 2026-01-02 03:04:05 UTC
local BEGAN = 1767323045 * 1e6

-- What each pass makes of a median, in the order of the passes.
local PASSES = { 1, 1.02, 0.98, 1.01, 0.99 }

local uuids = 0
local function uuid()
  uuids = uuids + 1
  return sqlite.blob(('%016d'):format(uuids))
end

local function hash(text) return sqlite.blob(canonical.hash(text)) end

-- -- Rows ----------------------------------------------------------------------------------------

local function who(db, opt)
  db:insert('machine', { id = 1, fp = hash('machine' .. (opt.cpu or '')),
    hostname = 'bench', cpu = opt.cpu or 'Test CPU 9000',
    cores = 2, threads = 4, isa = 'avx2', os = 'Test OS 1', kernel = '6.1.0', virt = 'none' })
  db:insert('device', { id = 1, machine_id = 1, kind = 'cpu', uuid = 'cpu',
    name = 'Test CPU 9000' })
  db:insert('build', { id = 1, fp = hash('build' .. opt.git), ridge = '0.1.0', git = opt.git,
    compiler = 'gcc 12', flags = '-O3', debug = 0, libs = '{}' })
  db:insert('env', { id = 1, fp = hash 'env', machine_id = 1, build_id = 1, device_id = 1,
    governor = opt.governor or 'performance', turbo = 0, vars = '{"threads":2}' })
  db:insert('recipe', { id = 1, sha = hash 'recipe', name = 'widths.lua', source = 'return 1' })
  db:insert('protocol', { id = 1, sha = hash 'rounds', json = '{"version":1}', version = 1 })
  db:insert('protocol', { id = 2, sha = hash 'passes', version = 2,
    json = '{"passes":5,"version":2}' })
  db:insert('worker', { id = 1, uuid = uuid(), machine_id = 1, boot_id = 'boot', pid = 4711,
    lock = 'none.lock', started = BEGAN, ended = BEGAN + 1e9, how = 'done' })
  db:insert('worker', { id = 2, uuid = uuid(), machine_id = 1, boot_id = 'boot', pid = 4712,
    lock = 'none.lock', started = BEGAN, ended = BEGAN + 1e9, how = 'done' })
end

local function sweep(db, id, name, protocol, opt)
  db:insert('sweep', { id = id, uuid = uuid(), name = name, base = name, recipe_id = 1,
    protocol_id = protocol, args = '{}', space = '{"params":{}}', strategy = 'grid', seed = 1,
    n_rejected = opt and opt.rejected or 0, created = BEGAN, state = opt and opt.state or 'done' })
end

local configs = {}
local function config(db, params)
  local text = canonical.encode(params)
  if configs[text] then return configs[text] end
  local id = db:insert('config', { sha = hash(text), params = text })
  for name, value in pairs(params) do
    db:insert('param', { config_id = id, name = name,
      num = type(value) == 'number' and value or nil,
      txt = type(value) == 'string' and value or nil })
  end
  configs[text] = id
  return id
end

local function trial(db, id, of, params, more)
  local row = { id = id, uuid = uuid(), sweep_id = of, config_id = config(db, params), ord = id,
    state = 'ok', tries = 1 }
  for name, value in pairs(more or {}) do row[name] = value end
  db:insert('trial', row)
end

-- One attempt and what it produced; it is the best one of its trial so far.
local function attempt(db, of, n, more, outcome)
  local row = { uuid = uuid(), trial_id = of, n = n, worker_id = 1, env_id = 1,
    began = BEGAN + 60e6 * (of - 1) + 2e6 * (n - 1), outcome = 'ok' }
  row.ended = row.began + 1.25e6
  for name, value in pairs(more or {}) do row[name] = value end
  local id = db:insert('attempt', row)
  record.attempt(db, id, outcome or {})
  db:run('/* best */ UPDATE trial SET best_attempt = ?, tries = ? WHERE id = ?', id, n, of)
  return id
end

-- -- Sweeps --------------------------------------------------------------------------------------

-- A result over five passes; every pass has four windows around its own median.
local function passes(db, of, t)
  local series = sqlite.blob(('series %08d'):format(of))
  for n = 1, t.passes or #PASSES do
    local own = t.med * PASSES[n]
    local r = { n = 4 * n, inner = 10, warm_calls = 40, min = 0.95 * t.med, p25 = 0.99 * t.med,
      med = t.med, p75 = 1.01 * t.med, p95 = 1.1 * t.med, p99 = 1.2 * t.med, max = 1.25 * t.med,
      mean = 1.005 * t.med, sd = 0.02 * t.med, mad = 0.01 * t.med, ci_lo = t.lo, ci_hi = t.hi,
      ci_level = 0.95, grade = t.grade, flags = t.flags, passes = n, procs = n, quiet = t.quiet,
      quiet_lo = t.quiet_lo, quiet_hi = t.quiet_hi, ratio = t.ratio, ratio_lo = t.ratio_lo,
      ratio_hi = t.ratio_hi, sd_between = t.between, sd_within = t.within, sentinel = 0.001,
      pass_med = own, t0_ns = 1e9 * n, samples = { 0.95 * own, own, 1.05 * own, 1.2 * own },
      at = { 0, 1000, 2000, 3000 }, mark = { false, true, false, false },
      first_ns = t.first }
    local list = { { phase = 'fwd', result = r } }
    if t.cold then
      list[2] = { phase = 'fwd', result = { n = 3, inner = 1, cache = 'cold', med = t.cold,
        ci_lo = 0.9 * t.cold, ci_hi = 1.1 * t.cold, p95 = 1.2 * t.cold, p99 = 1.3 * t.cold,
        grade = 'B', passes = n, procs = n, pass_med = t.cold * PASSES[n] } }
    end
    attempt(db, of, n, { pass = n, series = series, grade = t.grade, turn = n,
      flags = table.concat(t.flags or {}, ' '), partner = t.partner }, { timings = list,
      metrics = { { name = 'fwd_gflops', value = t.flops / t.med, unit = 'GFLOP/s', better = 1 },
        { name = 'loss', value = t.loss, better = -1 },
        { name = 'fwd_flops', value = t.flops, unit = 'FLOP', better = 0 } } })
  end
end

local function widths(db, scale)
  sweep(db, 1, 'widths', 2)
  local k = 0
  local function point(kind, width, t)
    k = k + 1
    t.flops = 2 * 8 * width * width * (kind == 'linear' and 1 or 0.5)
    for _, name in ipairs { 'med', 'lo', 'hi', 'quiet', 'quiet_lo', 'quiet_hi' } do
      t[name] = t[name] and t[name] * scale
    end
    trial(db, k, 1, { kind = kind, width = width, batch = 8 }, { passes = #PASSES,
      reused = t.reused })
    t.partner = t.ratio and canonical.encode { kind = 'linear', width = width, batch = 8 } or nil
    passes(db, k, t)
  end
  point('linear', 64, { med = 1000, lo = 990, hi = 1010, grade = 'A', loss = 0.5, quiet = 900,
    quiet_lo = 890, quiet_hi = 910, cold = 5000, first = 123456, between = 0.012, within = 0.034 })
  point('linear', 128, { med = 4000, lo = 3960, hi = 4040, grade = 'A', loss = 0.25, quiet = 3800,
    between = 0.05, within = 0.01 })
  point('sketched', 64, { med = 1500, lo = 1450, hi = 1560, grade = 'B', loss = 0.75, ratio = 1.5,
    ratio_lo = 1.48, ratio_hi = 1.53, quiet = 1400, quiet_lo = 1390, quiet_hi = 1410 })
  point('sketched', 128, { med = 3000, lo = 2700, hi = 3300, grade = 'C', loss = 0.125, reused = 1,
    flags = { 'drift' }, ratio = 0.75 })
  point('linear', 256, { med = 16000, lo = 12000, hi = 20000, grade = 'D', loss = 0.0625,
    flags = { 'foreign', 'drift' } })
  point('sketched', 256, { med = 8e6, grade = 'B', loss = 0 / 0, passes = 2 })
  trial(db, 7, 1, { kind = 'linear', width = 64, batch = 8 }, { role = 'anchor',
    state = 'cancelled' })
end

local function rounds(db)
  sweep(db, 2, 'old', 1)
  trial(db, 11, 2, { k = 1 })
  attempt(db, 11, 1, { grade = 'B' }, { timings = { { phase = 'fwd', result = { n = 20, inner = 4,
    rounds = 5, med = 2.5e6, ci_lo = -2e4, ci_hi = 4.151e6, p95 = 5e6, p99 = 6e6, grade = 'B',
    stop = 'precision', thresholds = 'fixed', t0_ns = 0, samples = { 1, 2, 3, 4, 5, 4, 3, 2 },
    at = { 0, 1, 2, 3, 4, 5, 6, 7 } } } } })
  trial(db, 12, 2, { k = 2 })
  attempt(db, 12, 1, nil, { timings = { { phase = 'fwd', result = { n = 1, inner = 1,
    med = 3e9 } } } })
  -- samples that are all the same, and more of them than a line has bars: 0 .. 119, two a bar
  local flat, ramp = {}, {}
  for i = 1, 120 do ramp[i] = i - 1 end
  for i = 1, 7 do flat[i] = 5 end
  for i, samples in ipairs { flat, ramp } do
    trial(db, 12 + i, 2, { k = 2 + i })
    attempt(db, 12 + i, 1, nil, { timings = { { phase = 'fwd', result = { n = #samples, inner = 2,
      rounds = 1, med = 5, t0_ns = 0, samples = samples, at = samples } } } })
  end
end

local FAILED = { { 'oom', '2 GB were asked for, 1 GB is left' }, { 'timeout', 'after 10 s' },
  { 'error', 'measure: [1]:3: three is not measured' }, { 'crashed', 'signal 11 (SIGSEGV)' },
  { 'infeasible', 'rank above width' }, { 'cancelled' }, { 'implied' }, { 'pruned' } }

local function broken(db)
  sweep(db, 3, 'broken', 1, { rejected = 2 })
  for i, each in ipairs(FAILED) do
    local state, message = each[1], each[2]
    trial(db, 20 + i, 3, { k = i, name = 'n' .. i }, { state = state, ord = 20 + i })
    if message then
      attempt(db, 20 + i, 1, { outcome = state, message = message,
        printed = state == 'error' and 'one\ntwo \27[2J' or nil })
    end
  end
  db:run '/* implied */ UPDATE trial SET implied_by = 21 WHERE id = 27'
end

local function half(db)
  sweep(db, 4, 'half', 2, { state = 'open' })
  for i = 1, 4 do
    trial(db, 30 + i, 4, { k = i }, { passes = i == 1 and 1 or 0, tries = 0,
      state = i == 2 and 'running' or 'pending' })
  end
  attempt(db, 31, 1, { pass = 1, series = sqlite.blob 'series of half', grade = 'B' },
    { timings = { { phase = 'fwd', result = { n = 4, inner = 10, med = 100, pass_med = 100,
      passes = 1, procs = 1, grade = 'B' } } } })
end

local function ceilings(db)
  for _, c in ipairs { { 'fma.f32', 1, 1e11, 'flop/s', 0.99e11, 1.01e11 },
      { 'fma.f32', 2, 1.9e11, 'flop/s' }, { 'bw.l1', 1, 2.5e11, 'B/s' },
      { 'noise.aa', 1, 0.0123, '1' }, { 'sentinel.mix', 1, 1.25e6, 'ns' } } do
    db:insert('ceiling', { device_id = 1, name = c[1], threads = c[2], value = c[3], unit = c[4],
      ci_lo = c[5], ci_hi = c[6], at = BEGAN })
  end
end

--- Ceilings of the machine this runs on, as `ridge calibrate --show` looks for them.
---@param path string of a database that is there
function M.ceilings_here(path)
  local facts = require('ridge.sweep.device').lab().facts()
  local st = store.open(path, 'write')
  st:add_ceilings(st:device(st:machine(facts.machine), facts.device), {
    { name = 'fma.f32', threads = 1, value = 1e11, unit = 'flop/s', ci_lo = 0.99e11,
      ci_hi = 1.01e11 },
    { name = 'fma.f32', threads = 2, value = 1.9e11, unit = 'flop/s' },
    { name = 'bw.l1', threads = 1, value = 2.5e11, unit = 'B/s' },
    { name = 'clock', threads = 1, value = 3.25e9, unit = 'Hz' },
    { name = 'noise.aa', threads = 16, value = 0.0123, unit = '1' },
    { name = 'trust.processes', threads = 2, value = 30, unit = '1' },
    { name = 'trust.up', threads = 2, value = 0.25, unit = '1' },
    { name = 'bw.copy', threads = 0, value = 1.5e10, unit = 'B/s' },
    { name = 'sentinel.mix', threads = 1, value = 1.25e6, unit = 'ns' } }, BEGAN)
  st:close()
end

--- Make the database.
---@param path string
---@param opt table|nil scale of all times of widths, git, governor, cpu; only: widths alone
function M.make(path, opt)
  opt = opt or {}
  uuids, configs = opt.uuids or 0, {}
  local st = store.open(path, 'write')
  st:within(function()
    local db = st.db
    who(db, { git = opt.git or '4f2a91c', governor = opt.governor, cpu = opt.cpu })
    widths(db, opt.scale or 1)
    ceilings(db)
    if opt.only then return end
    rounds(db)
    broken(db)
    half(db)
    sweep(db, 5, 'empty', 2)
  end)
  st:close()
end

return M
