-- SPDX-License-Identifier: MIT
--- How long questions to a large sweep take: makes 100,000 points with a timing and a metric each,
--- as a sweep would have left them, and asks.
--
--     ./ridge scripts/soak_query.lua [--points 100000] [--db FILE]

local ridge = require 'ridge'
local query = require 'ridge.store.query'
local store = require 'ridge.store'
local C = require 'ridge.ffi.lib'

local opt = ridge.args {
  { 'points', 100000, 'points of the sweep', integer = true, min = 10 },
  { 'db', '', 'where to keep it; a file that is removed again when left out' },
}

local path = opt.db ~= '' and opt.db or os.tmpname()
if opt.db == '' then os.remove(path) end

-- One real point, so that everything that points are made of is there.
ridge.sweep 'large' { space = { k = { 1 }, kind = { 'a' } }, measure = function(p, _, m)
  m:metric('score', p.k, { better = 'higher' })
end }:run { db = path, calibrate = false, progress = 'off' }

local st = store.open(path, 'write')
local N = ('WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= %d) ')
  :format(opt.points)
st:within(function()
  local db = st.db
  local function fill(into, columns, values)
    db:exec(('INSERT INTO %s(%s) %s SELECT %s FROM n'):format(into, columns, N, values), into)
  end
  fill('config', 'id, sha, params',
    [[i, randomblob(16), '{"k":' || i || ',"kind":"' || char(97 + i % 4) || '"}']])
  fill('param', 'config_id, name, num', "i, 'k', i")
  fill('param', 'config_id, name, txt', "i, 'kind', char(97 + i % 4)")
  fill('trial', 'id, uuid, sweep_id, config_id, state, ord, tries, best_attempt',
    "i, randomblob(16), 1, i, 'ok', i, 1, NULL")
  fill('attempt', 'id, uuid, trial_id, n, worker_id, env_id, began, outcome, grade',
    "i, randomblob(16), i, 1, 1, 1, i, 'ok', 'A'")
  db:exec('UPDATE trial SET best_attempt = id WHERE best_attempt IS NULL', 'best')
  fill('timing', 'attempt_id, phase, clock, cache, n, inner, med, ci_lo, ci_hi, grade',
    "i, 'fwd', 'c', 'warm', 20, 1, 100.0 + i % 977, 99, 101, 'A'")
  fill('metric', 'attempt_id, name, value, better', "i, 'score', i % 331, 1")
end)
st:close()

local reader = store.open(path, 'read')
local function ask(what, question)
  local before = tonumber(C.rg_clock_ns())
  local found = query.ask(reader, 'large', question)
  print(('%-58s %6d rows  %7.3f s'):format(what, #found.lines,
    (tonumber(C.rg_clock_ns()) - before) / 1e9))
end
ask('median(fwd) of four kinds', { columns = 'kind, median(fwd), count()', group = 'kind' })
ask('the ten with the highest score', { columns = 'k, kind, score', sort = '-3', limit = 10 })
ask('where k < 1000 and kind = a', { columns = 'k, fwd',
  where = "k < 1000 and kind = 'a'", sort = 'fwd' })
ask('fwd of all', { columns = 'fwd' })
reader:close()
if opt.db == '' then
  for _, suffix in ipairs { '', '-wal', '-shm', '.lock' } do os.remove(path .. suffix) end
end
