-- SPDX-License-Identifier: MIT
--- The points of a large sweep by columns, beside its rows: what the commands read that answer
--- about a million points in a second.
--
-- A pack is made from the rows and holds nothing that they do not: parameters, medians with their
-- intervals, medians of passes, metrics, states, grades and flags of all points in the order of
-- their numbers. Triggers of the file drop its head as soon as a row changes, whoever changes it,
-- an older ridge, too; then everything is read from the rows again until the next pack.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local ffi = require 'ffi'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'
local stream = require 'ridge.store.stream'

local M = {}

--- Sweeps with fewer points are read by rows.
M.LEAST = 20000

local FORMAT = 1
local LEVELS, METRICS, PHASES, PASSES = 65536, 256, 32, 64
local NAN = 0 / 0

local function dropper(event, of, id)
  return ([[CREATE TRIGGER IF NOT EXISTS sweep_pack_%s_%s AFTER %s ON %s BEGIN
  DELETE FROM sweep_pack WHERE sweep_id = %s; END;
]]):format(of, event:lower(), event, of, id)
end

-- The sweep of an attempt whose row, or whose timing or metric, changes.
local OF_ATTEMPT = [[(SELECT t.sweep_id FROM attempt a JOIN trial t ON t.id = a.trial_id
  WHERE a.id = %s)]]

local TABLES = [[
CREATE TABLE IF NOT EXISTS sweep_pack(        -- a pack that is as its rows are
  sweep_id INTEGER PRIMARY KEY, points INT NOT NULL,
  head TEXT NOT NULL CHECK(json_valid(head))) STRICT;
CREATE TABLE IF NOT EXISTS sweep_column(      -- f64 or i32, one of each point; nan: absent
  id INTEGER PRIMARY KEY, sweep_id INT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,
  UNIQUE(sweep_id, name)) STRICT;
]] .. dropper('INSERT', 'trial', 'NEW.sweep_id') .. dropper('UPDATE', 'trial', 'NEW.sweep_id')
  .. dropper('DELETE', 'trial', 'OLD.sweep_id')
  .. dropper('UPDATE', 'attempt', '(SELECT sweep_id FROM trial WHERE id = NEW.trial_id)')
for _, of in ipairs { 'timing', 'metric' } do
  TABLES = TABLES .. dropper('INSERT', of, OF_ATTEMPT:format 'NEW.attempt_id')
    .. dropper('UPDATE', of, OF_ATTEMPT:format 'NEW.attempt_id')
    .. dropper('DELETE', of, OF_ATTEMPT:format 'OLD.attempt_id')
end

-- -- Reading the rows -----------------------------------------------------------------------------

local POINTS = [[/* points to pack */ SELECT t.id, ]] .. schema.STATE .. [[, a.grade, a.flags
  FROM main.trial t NOT INDEXED LEFT JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' ORDER BY t.id]]
local PARAMS = [[/* parameters to pack */ SELECT t.id, p.name, p.num, p.txt,
  CASE WHEN p.num IN (0, 1) THEN json_type(c.params, '$."' || p.name || '"') END
  FROM main.trial t JOIN main.param p ON p.config_id = t.config_id
  JOIN main.config c ON c.id = t.config_id WHERE t.sweep_id = ? AND t.role = 'point']]
local TIMINGS = [[/* timings to pack */ SELECT t.id, g.id, g.phase, g.med, max(g.ci_lo, 0.0),
  max(g.ci_hi, 0.0), g.cache = 'cold', g.sd_minutes FROM main.trial t
  JOIN main.timing g ON g.attempt_id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' AND g.cache <> 'first']]
local MEDIANS = [[/* passes to pack */ SELECT t.id, p.pass, g.phase, g.pass_med, g.cache = 'warm'
  FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
  JOIN main.attempt p ON p.series = a.series AND p.outcome = 'ok'
  JOIN main.timing g ON g.attempt_id = p.id AND g.pass_med IS NOT NULL AND g.cache <> 'first'
  WHERE t.sweep_id = ? AND t.role = 'point']]
local VALUES = [[/* metrics to pack */ SELECT t.id, m.name, m.value, m.how = 'nan', m.better
  FROM main.trial t JOIN main.metric m ON m.attempt_id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' AND m.how IS NOT 'model']]

-- What cannot be packed stays in rows; the reason is nobody's but a developer's.
local function give_up(why) error({ unpacked = why }, 0) end

-- Words by number from 0 on; -1: absent.
local function words(n)
  local known, list = {}, canonical.list {}
  local codes = ffi.new('int32_t[?]', math.max(1, n))
  ffi.fill(codes, 4 * n, 0xff)
  return { list = list, codes = codes, set = function(i, key, word)
    local code = known[key]
    if not code then
      if #list == LEVELS then give_up 'too many values' end
      code = #list
      known[key], list[code + 1] = code, word
    end
    codes[i] = code
  end }
end

local function numbers(n)
  local data = ffi.new('double[?]', math.max(1, n))
  for i = 0, n - 1 do data[i] = NAN end
  return data
end

local function is_finite(v) return v == v and v < math.huge and v > -math.huge end

-- Is there any number in a column, and any that is finite?
local function has(data, n)
  local any = false
  for i = 0, n - 1 do
    local v = data[i]
    if v == v then
      any = true
      if is_finite(v) then return true, true end
    end
  end
  return any, false
end

local function points_of(db, id, n)
  local trial, place = numbers(n), {}
  local state, grade, flags = words(n), words(n), words(n)
  local i = 0
  stream.each(db, POINTS, { id }, function(row)
    if i == n then give_up 'a point came' end
    trial[i] = row:number(0)
    place[trial[i]] = i
    local a, b, c = row:text(1), row:text(2), row:text(3)
    state.set(i, a, a)
    if b then grade.set(i, b, b) end
    if c then flags.set(i, c, c) end
    i = i + 1
  end)
  if i ~= n then give_up 'a point went' end
  return trial, place, { state = state, grade = grade, flags = flags }
end

local function params_of(db, id, n, place)
  local out = {}
  stream.each(db, PARAMS, { id }, function(row)
    local name, text = row:text(1), row:text(3)
    local v = text or row:number(2)
    local kind = row:text(4)
    if kind == 'true' or kind == 'false' then v = kind == 'true' end
    if v ~= v or v == math.huge or v == -math.huge then give_up 'a parameter that is no number' end
    if not out[name] then out[name] = words(n) end
    out[name].set(place[row:number(0)], type(v) == 'string' and 's' .. v or v, v)
  end)
  return out
end

local function phases_of(db, id, n, place)
  local out, count = {}, 0
  stream.each(db, TIMINGS, { id }, function(row)
    local name, i, order = row:text(2), place[row:number(0)], row:number(1)
    local phase = out[name]
    if not phase then
      count = count + 1
      if count > PHASES then give_up 'too many phases' end
      phase = { med = numbers(n), lo = numbers(n), hi = numbers(n), minutes = numbers(n),
        id = numbers(n), passes = {}, cold = false, warm = false }
      out[name] = phase
    end
    if row:number(6) == 1 then phase.cold = true else phase.warm = true end
    -- the first one of a phase is what its row says
    if not (phase.id[i] < order) then
      phase.id[i], phase.med[i] = order, row:number(3)
      phase.lo[i], phase.hi[i] = row:number(4), row:number(5)
      phase.minutes[i] = row:number(7)
    end
  end)
  return out
end

local function passes_of(db, id, n, place, phases)
  local warm = {}
  stream.each(db, MEDIANS, { id }, function(row)
    local i, pass, name = place[row:number(0)], row:number(1), row:text(2)
    local phase, is_warm = phases[name], row:number(4) == 1
    if not phase or not (pass >= 1 and pass <= PASSES) then give_up 'passes out of order' end
    local list = phase.passes[pass]
    if not list then
      list = numbers(n)
      phase.passes[pass], warm[list] = list, {}
    end
    -- of cold and warm caches the warm ones
    if is_warm or not warm[list][i] then list[i] = row:number(3) end
    if is_warm and phase.cold then warm[list][i] = true end
  end)
end

local function metrics_of(db, id, n, place)
  local out, count = {}, 0
  stream.each(db, VALUES, { id }, function(row)
    local name = row:text(1)
    local metric = out[name]
    if not metric then
      count = count + 1
      if count > METRICS then give_up 'too many metrics' end
      metric = { data = numbers(n) }
      out[name] = metric
    end
    metric.data[place[row:number(0)]] = row:number(2)
    if row:number(3) == 1 then metric.nan = true end
    local better = row:number(4)
    if better == better then metric.better = better end
  end)
  return out
end

-- -- Making ---------------------------------------------------------------------------------------

local function sorted(set)
  local names = canonical.list {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function made(st, sweep, n)
  local db, id = st.db, sweep.id
  local columns, any, finite, taken = {}, {}, {}, {}
  local function own(name)
    if taken[name:lower()] then give_up 'two columns of one name' end
    taken[name:lower()] = true
  end
  for _, name in ipairs(schema.FIXED) do taken[name] = true end
  local function keep(name, data, size)
    columns[#columns + 1] = { name = name, data = ffi.string(data, n * size) }
  end
  local function keep_numbers(name, data)
    local some, number = has(data, n)
    any[name], finite[name] = some or nil, number or nil
    keep(name, data, 8)
  end
  local trial, place, said = points_of(db, id, n)
  keep('trial', trial, 8)
  local head = { format = FORMAT, n = n, params = {}, phases = {}, metrics = {} }
  for _, name in ipairs { 'state', 'grade', 'flags' } do
    head[name] = said[name].list
    any[name] = #said[name].list > 0 or nil
    keep(name, said[name].codes, 4)
  end
  for name, param in pairs(params_of(db, id, n, place)) do
    own(name)
    head.params[name], any[name] = param.list, true
    for _, v in ipairs(param.list) do
      if type(v) == 'number' then finite[name] = true end
    end
    keep(name, param.codes, 4)
  end
  local phases = phases_of(db, id, n, place)
  passes_of(db, id, n, place, phases)
  for name, phase in pairs(phases) do
    for _, pair in ipairs(schema.PHASE_COLUMNS) do own(name .. pair[1]) end
    head.phases[name] = { cold = phase.cold and phase.warm or nil, passes = 0 }
    keep_numbers(name, phase.med)
    keep_numbers(name .. '_lo', phase.lo)
    keep_numbers(name .. '_hi', phase.hi)
    keep_numbers(name .. '_between_minutes', phase.minutes)
    for pass, data in pairs(phase.passes) do
      head.phases[name].passes = math.max(head.phases[name].passes, pass)
      keep(name .. '#' .. pass, data, 8)
    end
  end
  for name, metric in pairs(metrics_of(db, id, n, place)) do
    own(name)
    head.metrics[name] = { better = metric.better, nan = metric.nan }
    keep_numbers(name, metric.data)
  end
  head.any, head.finite = sorted(any), sorted(finite)
  head.names = schema.names(db, id)
  for _, list in pairs(head.names) do canonical.list(list) end
  -- required here: both read packs
  local results = require 'ridge.store.results'
  head.first = results.first(st, id)
  head.directions, head.newest = results.directions(st, id), results.newest(st, id)
  head.counts = require('ridge.store.sweeps').counts(st, id)
  return head, columns
end

--- Make the packs that are not there, of sweeps with many points.
---@param st table open for writing
---@param least integer|nil points from which on a sweep has one; M.LEAST when left out
---@return table[] done each name, points, of the sweeps that were packed
function M.update(st, least)
  local done, db = {}, st.db
  -- rows are looked up by the million: as much of the file at hand as a process may well take
  db:run('/* pages at hand */ PRAGMA cache_size = -262144')
  for _, sweep in ipairs(db:query '/* sweeps */ SELECT id, name FROM main.sweep ORDER BY id') do
    local n = db:value([[/* points */ SELECT count(*) FROM main.trial
      WHERE sweep_id = ? AND role = 'point']], sweep.id)
    if n >= (least or M.LEAST) and not M.head(st, sweep.id) then
      st:within(function()
        local ok, head, columns = pcall(made, st, sweep, n)
        if not ok then
          if type(head) == 'table' and head.unpacked then return end
          error(head, 0)
        end
        db:exec(TABLES, 'tables of packs')
        db:run('/* old pack */ DELETE FROM sweep_column WHERE sweep_id = ?', sweep.id)
        for _, c in ipairs(columns) do
          db:run('/* pack */ INSERT INTO sweep_column(sweep_id, name, data) VALUES(?,?,?)',
            sweep.id, c.name, sqlite.blob(c.data))
        end
        db:run('/* head of a pack */ INSERT OR REPLACE INTO sweep_pack VALUES(?,?,?)', sweep.id, n,
          canonical.encode(head))
        done[#done + 1] = { name = sweep.name, points = n }
      end)
    end
  end
  return done
end

--- As `update`, for the end of something that is done already: what goes wrong costs the pack only.
---@param st table open for writing
function M.try(st)
  pcall(M.update, st)
end

--- Remove all packs and what keeps them.
---@param db table open for writing
function M.drop(db)
  for _, row in ipairs(db:query [[/* triggers of packs */ SELECT name FROM main.sqlite_schema
      WHERE type = 'trigger' AND name GLOB 'sweep_pack_*']]) do
    db:exec('DROP TRIGGER main."' .. row.name:gsub('"', '""') .. '"', 'drop trigger')
  end
  db:exec('DROP TABLE IF EXISTS main.sweep_pack; DROP TABLE IF EXISTS main.sweep_column', 'drop')
end

-- -- Reading --------------------------------------------------------------------------------------

local THERE = [[/* packs */ SELECT count(*) FROM main.sqlite_schema
  WHERE type = 'table' AND name IN ('sweep_pack', 'sweep_column')]]

-- A head is somebody's text until it has the form of one.
local function checked(head)
  if type(head) ~= 'table' or head.format ~= FORMAT or type(head.n) ~= 'number'
      or type(head.first) ~= 'string' or head.n < 0 or head.n % 1 ~= 0 then
    return nil
  end
  for _, name in ipairs { 'params', 'phases', 'metrics', 'any', 'finite', 'state', 'grade',
      'flags', 'names', 'directions', 'counts' } do
    if type(head[name]) ~= 'table' then return nil end
  end
  for _, name in ipairs { 'params', 'phases', 'metrics' } do
    for _, each in pairs(head[name]) do
      if type(each) ~= 'table' then return nil end
    end
  end
  for _, phase in pairs(head.phases) do
    local passes = phase.passes
    if type(passes) ~= 'number' or not (passes >= 0 and passes <= PASSES) then return nil end
  end
  for _, list in pairs(head.params) do
    for _, v in pairs(list) do
      if type(v) == 'table' then return nil end
    end
  end
  for _, name in ipairs { 'params', 'phases', 'cold', 'metrics' } do
    if type(head.names[name]) ~= 'table' then return nil end
  end
  for _, name in ipairs { 'states', 'grades' } do
    if type(head.counts[name]) ~= 'table' then return nil end
  end
  return head
end

--- The head of the pack of a sweep; nil where it has none that is as its rows are.
---@param st table
---@param sweep_id integer
---@return table|nil head n; state, grade, flags: words by code; params: values by code, by name;
---  phases: passes, cold by name; metrics: better, nan by name; any, finite: names of columns with
---  any value, with any finite number; names (what the wide view is made from), directions (of
---  ridge.store.results), counts (of ridge.store.sweeps), newest (attempt),
---  first (of ridge.store.results)
function M.head(st, sweep_id)
  return M.head_of(st.db, sweep_id)
end

--- As `head`, of a connection.
---@param db table
---@param sweep_id integer
---@return table|nil head
function M.head_of(db, sweep_id)
  if db:value(THERE) ~= 2 then return nil end
  local row = db:row('/* head of a pack */ SELECT points, head FROM main.sweep_pack '
    .. 'WHERE sweep_id = ?', sweep_id)
  if not row then return nil end
  local ok, head = pcall(canonical.decode, row.head)
  head = ok and checked(head)
  return head and head.n == row.points and head or nil
end

--- One column of a pack, as it is stored.
---@param st table
---@param sweep_id integer
---@param name string
---@param size integer bytes of one value
---@param n integer points
---@return string|nil bytes nil where it has not that length
function M.column(st, sweep_id, name, size, n)
  local data = st.db:value('/* column of a pack */ SELECT data FROM main.sweep_column '
    .. 'WHERE sweep_id = ? AND name = ?', sweep_id, name)
  if data and #data ~= n * size then
    blame.raise(('%s: the pack of a sweep is damaged (column %s); ridge db pack makes it again')
      :format(st.path, name), 'EFORMAT')
  end
  return data
end

return M
