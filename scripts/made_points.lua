-- SPDX-License-Identifier: MIT
--- A database of made rows, to ask how long the commands take that read one: a sweep of a million
--- points in the real schema.  Nothing in it was measured, and it says so everywhere a number's
--- origin is kept: the machine, the recipe, the build, `ci_how` of timings, `how` of metrics.
--
--     ./ridge scripts/made_points.lua --db made.db [--points 1000000] [--passes 5] [--seed 21]

local canonical = require 'ridge.store.canonical'
local ridge = require 'ridge'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local opt = ridge.args {
  { 'db', 'made.db', 'the file, which is not there yet' },
  { 'points', 1000000, 'points of the sweep', integer = true, min = 16, max = 4000000 },
  { 'passes', 5, 'passes behind each point', integer = true, min = 1, max = 50 },
  { 'seed', 21, 'what the numbers are drawn by', integer = true, min = 0, max = 2 ^ 31 },
}

local file = io.open(opt.db)
if file then
  file:close()
  error(opt.db .. ' is there already', 0)
end

local SOURCE = '-- These rows were made by scripts/made_points.lua; nothing was measured.\n'
local HOW = 'made, not measured'
local BEGAN = 1767225600000000 -- 2026-01-01 in microseconds

local st = store.open(opt.db, 'write')
local db = st.db
-- made again where it is lost; all of it in memory until then
db:exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -4000000', 'settings')
local WIDTHS, BATCHES, DTYPES = 100, 50, { 'bf16', 'f16', 'f32', 'f64' }

-- What rows are made from: i from 0 on; u, v: two draws in 0 .. 1 that i and the seed decide.
local function draw(by) -- two rounds of multiplying modulo a prime; all products fit 63 bits
  return ('(((n.i + 1) * %d + %d) %% 2147483647 * 48271 %% 2147483647 * 16807 %% 2147483647 '
    .. '/ 2147483647.0)'):format(by, opt.seed * 7919 + 1)
end
local N = ('WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d), '
  .. 'm AS (SELECT n.i, %s AS u, %s AS v, 32 + 32 * (n.i %% %d) AS width, '
  .. '1 + n.i / %d %% %d AS batch, n.i / %d %% 4 AS kind, 1 + n.i / %d AS rank FROM n) ')
  :format(opt.points - 1, draw(1103515245), draw(134775813), WIDTHS, WIDTHS, BATCHES,
    WIDTHS * BATCHES, WIDTHS * BATCHES * #DTYPES)
local DTYPE = 'CASE kind'
for i, name in ipairs(DTYPES) do DTYPE = ("%s WHEN %d THEN '%s'"):format(DTYPE, i - 1, name) end
DTYPE = DTYPE .. ' END'

-- Out of a thousand points: two had no memory, one raised, ten are of grade D, a few lost a flag.
local STATE = "CASE WHEN u < 0.002 THEN 'oom' WHEN u < 0.003 THEN 'error' ELSE 'ok' END"
local GRADE = "CASE WHEN v < 0.01 THEN 'D' WHEN v < 0.05 THEN 'C' WHEN v < 0.2 THEN 'B' "
  .. "ELSE 'A' END"
local FLAGS = "CASE WHEN v < 0.01 THEN 'CONTENDED UNSTABLE' WHEN v < 0.05 THEN 'OUTLIERS' "
  .. "ELSE '' END"
-- A time by what the point is, and a spread that nobody could mistake for a rule of nature.
local TIME = '(200.0 + width * (0.5 * batch + rank) * (1 + kind) * 0.05) * (0.97 + 0.06 * u)'

local function fill(into, columns, values, where, more)
  db:exec(('INSERT INTO %s(%s) %s SELECT %s FROM m%s%s'):format(into, columns, N, values,
    more or '', where and ' WHERE ' .. where or ''), into)
end

local PASSES = (' CROSS JOIN (WITH RECURSIVE p(p) AS (SELECT 1 UNION ALL SELECT p + 1 FROM p '
  .. 'WHERE p < %d) SELECT p FROM p)'):format(opt.passes)

st:within(function()
  local machine = st:machine { hostname = 'made', cpu = 'none: ' .. HOW, sockets = 1, cores = 1,
    threads = 1, l1d = 32768, l2 = 1048576, l3 = 33554432, ram = 2 ^ 34, os = HOW, kernel = HOW }
  local device = st:device(machine, { kind = 'cpu', uuid = 'cpu', name = 'none: ' .. HOW })
  local build = st:build { ridge = store.version(), git = 'made', compiler = HOW, flags = '' }
  local env = st:env { machine_id = machine, device_id = device, build_id = build,
    vars = { threads = 1 } }
  local protocol = st:protocol { version = 2, passes = opt.passes, level = 'made' }
  local sweep = db:insert('sweep', { uuid = sqlite.blob(canonical.hash 'made'), name = 'made',
    base = 'made', recipe_id = st:recipe('made_points.lua', SOURCE), protocol_id = protocol,
    args = '{}', space = canonical.encode { how = HOW }, strategy = 'made', seed = opt.seed,
    state = 'done', created = BEGAN })
  local worker = db:insert('worker', { uuid = sqlite.blob(canonical.hash 'made'),
    machine_id = machine, boot_id = 'made', pid = 0, lock = '', started = BEGAN, how = HOW })
  local per = opt.passes
  fill('config', 'id, sha, params', ([[i + 1, randomblob(32), '{"batch":' || batch
    || ',"dtype":"' || %s || '","rank":' || rank || ',"width":' || width || '}']]):format(DTYPE))
  for _, name in ipairs { 'batch', 'rank', 'width' } do
    fill('param', 'config_id, name, num', ("i + 1, '%s', %s"):format(name, name))
  end
  fill('param', 'config_id, name, txt', "i + 1, 'dtype', " .. DTYPE)
  fill('trial', 'id, uuid, sweep_id, config_id, state, ord, tries, passes', ([[i + 1,
    randomblob(16), %d, i + 1, %s, (i * 7368787 + %d) %% %d, %d, %d]]):format(sweep, STATE,
    opt.seed, opt.points, per, per))
  fill('attempt', 'id, uuid, trial_id, n, worker_id, env_id, began, ended, outcome, message, grade,'
    .. ' flags, pass, series, turn', ([[i * %d + p, randomblob(16), i + 1, p, %d, %d,
    %d + (p * %d + i) * 1000, %d + (p * %d + i) * 1000 + 900, %s, CASE WHEN u < 0.003 THEN
    'made: ' || i || ' bytes were not there' END, CASE WHEN u < 0.003 THEN NULL ELSE %s END,
    CASE WHEN u < 0.003 THEN '' ELSE %s END, p, CAST('made' || i AS BLOB), 1]]):format(per, worker,
    env, BEGAN, opt.points, BEGAN, opt.points, STATE, GRADE, FLAGS), 'u >= 0.003 OR p = 1', PASSES)
  db:exec(([[UPDATE trial SET best_attempt = CASE WHEN state = 'ok' THEN id * %d
    ELSE (id - 1) * %d + 1 END]]):format(per, per), 'best')
  local times = ([[i * %d + p, 'fwd', 'monotonic_raw', 'warm', 60, 60, 1, t * 0.95, t * 0.99, t,
    t * 1.01, t * 1.1, t * 1.2, t * 1.5, t * 1.01, t * 0.02, t * 0.01,
    t * (1 - 0.004 - 0.01 * v), t * (1 + 0.004 + 0.01 * v), 0.95, '%s', %s, %s, p, 1, 0.01, 0.01,
    t * (0.99 + 0.02 * ((i * 31 + p * 17) %% 101) / 100.0)]]):format(per, HOW, GRADE, FLAGS)
  local of = ('(SELECT m.*, p, %s AS t FROM m%s WHERE u >= 0.003)'):format(TIME, PASSES)
  db:exec(('INSERT INTO timing(attempt_id, phase, clock, cache, n, n_eff, inner, min, p25, med,'
    .. ' p75, p95, p99, max, mean, sd, mad, ci_lo, ci_hi, ci_level, ci_how, grade, flags, passes,'
    .. ' procs, sd_between, sd_within, pass_med) %s SELECT %s FROM %s'):format(N, times, of),
    'timing')
  fill('timing', 'attempt_id, phase, clock, cache, n, inner, min, med, max, mean',
    ("(i + 1) * %d, 'fwd', 'monotonic_raw', 'first', 1, 1, 9e3, 9e3 + 1e3 * v, 1.1e4, 9.5e3")
    :format(per), 'u >= 0.003')
  for name, value in pairs { fwd_flops = '2.0 * width * width * batch', fwd_bytes =
      '4.0 * width * (width + 2 * batch)', rows_per_s = ('1e9 * batch / (%s)'):format(TIME) } do
    fill('metric', 'attempt_id, name, value, unit, better, how', ("(i + 1) * %d, '%s', %s, NULL, "
      .. "%d, '%s'"):format(per, name, value, name == 'rows_per_s' and 1 or 0, HOW), 'u >= 0.003')
  end
end)
print(('%s: %d points of %d passes, seed %d; %s'):format(opt.db, opt.points, opt.passes, opt.seed,
  HOW))
st:close()
