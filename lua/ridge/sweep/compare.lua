-- SPDX-License-Identifier: MIT
--- Stored results held against each other: of two databases unpaired, and labelled so; points of
--- one sweep by the passes that both have.
--
-- The two were measured at different times, so whatever the machine did between them is part of the
-- difference.  Faster or slower is said only across the same environment (without the build: that
-- is what is compared) and when work that never changes took the same time on both days; else the
-- answer is open, and `ridge ab` is how to know.  Of two machines the ratio is one of machines,
-- with all that differs between them: nobody can time them side by side.
--
-- That is what two files of a machine each ask for.  Where points of one side are of unlike
-- machines themselves, verdicts beside each other would be of other machines each: refused, unless
-- asked for.

local anchors = require 'ridge.sweep.anchors'
local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local hardware = require 'ridge.sweep.hardware'
local minutes = require 'ridge.measure.minutes'
local near = require 'ridge.near'
local options = require 'ridge.options'
local pairing = require 'ridge.sweep.pairing'
local results_of = require 'ridge.store.results'
local rows_of = require 'ridge.sweep.rows'
local schema = require 'ridge.store.schema'
local store = require 'ridge.store'
local unlike = require 'ridge.sweep.unlike'
local verdicts = require 'ridge.sweep.verdicts'

local M = {}

local SPEC = {
  sweep = { 'string', doc = 'only the sweep of this name' },
  match = { 'table', doc = 'parameters in which a pair agrees; all when left out' },
  margin = { 'number', default = 0.01, min = 0, max = 1, doc = 'what is less is not called' },
  time = { 'string', default = 'med', choices = { 'med', 'quiet' },
           doc = "med: the machine as it is; quiet: its fast state" },
  mixed = { 'boolean', default = false, doc = 'also points of unlike machines' },
}

local INSIDE = { a = { 'table', required = true, doc = 'parameters that say which points are a' },
  b = { 'table', required = true, doc = 'parameters that say which points are b' },
  phases = { 'table', doc = 'only these' }, match = SPEC.match, margin = SPEC.margin,
  time = SPEC.time, mixed = SPEC.mixed,
  where = { 'string', doc = 'only points for which this holds: machine = "m..." names one' } }

-- How far the reference work may have moved between the two.
local SENTINEL = 0.02

-- Two intervals of a few per cent never agree to one: equal is at most this.
local EQUAL = 0.03

local TIMINGS = [[/* timings to compare */
  SELECT s.base AS sweep, hex(a.uuid) AS attempt, c.params, g.phase, g.cache, g.med, g.ci_lo,
    g.ci_hi, g.sd_minutes, g.quiet, g.quiet_lo, g.quiet_hi, g.grade, g.sentinel,
    e.governor, e.turbo, e.smt, e.aslr, e.thp, e.cpuset, e.cpu_quota, e.vars,
    hex(m.fp) AS machine, CASE d.kind WHEN 'cpu' THEN m.cpu ELSE d.name END AS processor,
    d.uuid AS device, d.id AS device_id, b.git, b.ridge,
    m.cpu, m.sockets, m.cores, m.threads, m.isa, m.l1d, m.l2, m.l3, d.kind, d.name,
    s.id AS sweep_id, p.version
  FROM main.trial t JOIN main.sweep s ON s.id = t.sweep_id JOIN main.protocol p
    ON p.id = s.protocol_id JOIN main.config c ON c.id = t.config_id
  JOIN main.attempt a ON a.id = t.best_attempt JOIN main.timing g ON g.attempt_id = a.id
  JOIN main.env e ON e.id = a.env_id JOIN main.machine m ON m.id = e.machine_id
  JOIN main.device d ON d.id = e.device_id JOIN main.build b ON b.id = e.build_id
  WHERE t.role = 'point' AND t.state = 'ok' AND g.cache <> 'first'
    AND (?1 IS NULL OR s.base = ?1 OR s.name = ?1) AND (?2 IS NULL OR s.name = ?2)
  ORDER BY a.began]]

local ENV = { 'machine', 'device', 'governor', 'turbo', 'smt', 'aslr', 'thp', 'cpuset',
  'cpu_quota', 'vars' }

-- -- Reading --------------------------------------------------------------------------------

local function pick(params, names)
  if not names then return params end
  local out = {}
  for _, name in ipairs(names) do out[name] = params[name] end
  return out
end

-- The times of the reference work of a device, from its calibration.
local function reference_of(st, device_id)
  local out = {}
  for _, row in ipairs(st:ceilings(device_id)) do
    if row.name:find '^sentinel%.' then out[row.name .. ' ' .. row.threads] = row.value end
  end
  return out
end

-- A name that no point has would have all of them agree in it.
local function check_names(path, rows, match)
  local known, names = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row.params) do
      if not known[name] then names[#names + 1] = name end
      known[name] = true
    end
  end
  table.sort(names)
  for _, name in ipairs(#rows > 0 and match or {}) do
    if not known[name] then
      blame.raise(('compare: %s has no parameter %s%s; it has %s'):format(path, name,
        near.hint(name, names), table.concat(names, ', ')), 'EARG', 'compare')
    end
  end
end

-- The newest timing of each point, phase and cache mode, by what a pair agrees in; of one sweep
-- where its whole name is given, which then is no part of that.
local function read(path, opt, only)
  local st = store.open(path, 'read')
  local found, order, seen = {}, {}, {}
  local ok, err = pcall(function()
    local rows = st.db:look(TIMINGS, opt.sweep, only)
    for _, row in ipairs(rows) do
      row.params = canonical.decode(row.params)
      if opt.time == 'quiet' then
        row.unseen = row.quiet == nil
        row.med, row.ci_lo, row.ci_hi = row.quiet, row.quiet_lo, row.quiet_hi
      end
    end
    check_names(path, rows, opt.match)
    for _, row in ipairs(rows) do
      row.match = pick(row.params, opt.match)
      row.reference, row.only = reference_of(st, row.device_id), only
      local key = canonical.encode { only and '' or row.sweep, row.match, row.phase, row.cache }
      local whole = canonical.encode(row.params)
      if seen[key] and seen[key] ~= whole then
        blame.raise(('compare: several points of %s agree in %s: %s and %s; match more'):format(
          path, table.concat(opt.match, ', '), seen[key], whole), 'EARG', 'compare')
      end
      if not found[key] then order[#order + 1] = key end
      row.versions = found[key] and found[key].versions or {}
      row.versions[row.version] = row
      found[key], seen[key] = row, whole
    end
  end)
  st:close()
  if not ok then error(err, 0) end
  table.sort(order)
  return found, order
end

-- -- Judging ----------------------------------------------------------------------------------

-- Variables without the choices of paths, which may be hundreds, and how many these are.
local function without_choices(text)
  local ok, vars = pcall(canonical.decode, text)
  if not ok or type(vars) ~= 'table' or type(vars.choices) ~= 'string' then return text, '', 0 end
  local choices = vars.choices
  vars.choices = nil
  return canonical.encode(vars), choices, select(2, choices:gsub('[^;]+', ''))
end

-- What differs between two environments, the build left out.
local function other_environment(a, b)
  local out = {}
  if a.vars ~= b.vars then
    local x, of_x, n_x = without_choices(a.vars)
    local y, of_y, n_y = without_choices(b.vars)
    if of_x ~= of_y then
      out[1] = ('other choices of paths (%d, and %d here)'):format(n_x, n_y)
      a = setmetatable({ vars = x }, { __index = a })
      b = setmetatable({ vars = y }, { __index = b })
    end
  end
  for _, name in ipairs(ENV) do
    if a[name] ~= b[name] then
      out[#out + 1] = (name == 'machine' or name == 'device') and 'another ' .. name
        or ('%s: %s -> %s'):format(name, tostring(a[name]), tostring(b[name]))
    end
  end
  return #out > 0 and table.concat(out, '; ') or nil
end

local function other_speed(a, b)
  if not (a.sentinel and b.sentinel) then return 'nobody watched the machine' end
  local moved = b.sentinel - a.sentinel
  for name, ns in pairs(a.reference) do
    if b.reference[name] then
      local step = b.reference[name] / ns - 1
      if math.abs(step) > math.abs(moved) then moved = step end
    end
  end
  if math.abs(moved) > SENTINEL then
    return ('the machine itself moved by %+.1f %%'):format(100 * moved)
  end
end

-- Of another machine all of its state is part of what is compared.
local function is_elsewhere(a, b) return a.machine ~= b.machine end

local function reason_of(a, b)
  -- a file against itself is asked whether it is equal; a sweep may have taken points of the other
  if a.only and b.only and a.attempt == b.attempt then
    return 'both are one and the same measurement'
  end
  if a.version ~= b.version then
    return ('measured by protocol %d and %d: rounds of one process and passes say other things')
      :format(a.version, b.version)
  end
  if a.unseen or b.unseen then return 'the fast state was not seen in three passes' end
  local why = not is_elsewhere(a, b) and (other_environment(a, b) or other_speed(a, b))
  if why then return why end
  for _, row in ipairs { a, b } do
    if row.grade == 'D' then return 'grade D: it was disturbed' end
  end
  if not (a.ci_lo and a.ci_hi and b.ci_lo and b.ci_hi) then return 'no interval is stored' end
end

local function judge(a, b, margin, time)
  local ratio, lo, hi = a.med and b.med and b.med / a.med or 0 / 0, nil, nil
  if a.ci_lo and a.ci_hi and b.ci_lo and b.ci_hi then
    local same = a.attempt == b.attempt -- of the same minutes, too
    local a_lo, a_hi = minutes.own(a.med, a.ci_lo, a.ci_hi, same and a.sd_minutes)
    local b_lo, b_hi = minutes.own(b.med, b.ci_lo, b.ci_hi, same and b.sd_minutes)
    -- each end against the far end of the other: covers at least what both cover
    lo = math.max(b_lo, 0) / a_hi
    -- an interval that reaches zero says nothing of how large the ratio may be
    hi = a_lo > 0 and b_hi / a_lo or math.huge
  end
  local reason, verdict = reason_of(a, b), 'open'
  if not reason then
    if (lo > 1 or hi < 1) and math.abs(math.log(ratio)) > margin then
      verdict = ratio > 1 and 'slower' or 'faster'
    elseif math.log(lo) >= -EQUAL and math.log(hi) <= EQUAL then
      verdict = 'equal'
    else
      reason = 'the intervals are too wide'
    end
  end
  local machines
  if is_elsewhere(a, b) then
    local other = {}
    for _, name in ipairs(ENV) do
      if name ~= 'machine' and name ~= 'device' and a[name] ~= b[name] then
        other[#other + 1] = name == 'vars' and 'threads or variables' or name
      end
    end
    if (a.git or a.ridge) ~= (b.git or b.ridge) then other[#other + 1] = 'builds' end
    machines = { a = a.processor, b = b.processor, differ = canonical.list(other) }
  end
  return { verdict = verdict, ratio = ratio, ci_lo = lo, ci_hi = hi,
           design = machines and 'of machines' or 'unpaired', machines = machines, time = time,
           sweep = a.sweep, phase = a.phase, cache = a.cache, match = a.match, a = a.params,
           b = b.params, a_ns = a.med, b_ns = b.med, a_build = a.git or a.ridge,
           b_build = b.git or b.ridge, reason = reason }
end

-- The newest two, of one version of the protocol where both have it.
local function alike(a, b)
  if a.version == b.version then return a, b end
  local newest
  for version in pairs(a.versions) do
    if b.versions[version] and (not newest or version > newest) then newest = version end
  end
  if newest then return a.versions[newest], b.versions[newest] end
  return a, b
end

-- -- Unlike machines ------------------------------------------------------------------------------

-- Machines of rows, those with most points first.
local function machines_of(rows)
  local places = {}
  for i, row in ipairs(rows) do
    row.key = row.key or hardware.key(row)
    places[i] = { key = row.key, cpu = row.cpu, kind = row.kind, name = row.name,
      threads = row.threads, machine_id = row.machine, trial = row.attempt,
      machine = 'm' .. row.machine:sub(1, 7):lower() }
  end
  return unlike.machines(places)
end

-- The anchors of the sweeps that rows are of.
local function anchors_of(path, rows)
  local seen, sweeps = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.sweep_id] then
      seen[row.sweep_id], sweeps[#sweeps + 1] = true, { id = row.sweep_id }
    end
  end
  return store.with(path, 'read', function(st) return anchors.observed(st, sweeps) end)
end

-- A sweep with points of unlike machines on one side, while one of its pairs is; and these.
local function mixed_sweep(rows, chosen)
  local by_name, names, apart = {}, {}, {}
  for i, row in ipairs(rows) do
    local name = row.sweep
    if not by_name[name] then by_name[name], names[#names + 1] = {}, name end
    table.insert(by_name[name], row)
    apart[name] = apart[name] or hardware.key(chosen[i].a) ~= hardware.key(chosen[i].b)
  end
  for _, name in ipairs(names) do
    local found = machines_of(by_name[name])
    if apart[name] and hardware.differ(found) then return name, found end
  end
end

-- How far the machines of pairs are apart, by anchors; nil where no pair is of unlike ones. Raises
-- where points of one side are of unlike machines themselves.
local function check_machines(a_side, b_side, chosen, opt)
  local as, bs, apart = {}, {}, false
  for i, pair in ipairs(chosen) do
    as[i], bs[i] = pair.a, pair.b
    apart = apart or hardware.key(pair.a) ~= hardware.key(pair.b)
  end
  if not apart then return nil end
  local of_a, of_b, words = machines_of(as), machines_of(bs), {}
  local list_a, list_b = anchors_of(a_side.db, as), anchors_of(b_side.db, bs)
  for _, b in ipairs(of_b) do
    for _, a in ipairs(of_a) do
      if a.kind == b.kind and a.key ~= b.key then
        words[#words + 1] = anchors.beside(list_a, a, list_b, b)
      end
    end
  end
  local told = #words > 0 and table.concat(words, '; ') or anchors.NONE
  for _, side in ipairs { { a_side, as }, { b_side, bs } } do
    local name, found = mixed_sweep(side[2], chosen)
    if name and not opt.mixed then
      blame.raise(('compare: points of %s in %s are of unlike machines, and not all of them have '
        .. 'their partners on the like of theirs: %s; %s; mixed (--mixed) has each verdict as one '
        .. 'of its two machines'):format(name, side[1].db, unlike.text(found), told), 'EARG',
        'compare')
    end
  end
  return told
end

-- Two sides, each db, text (how it is named in errors) and name (of the one sweep, or nil).
local function compared(a_side, b_side, opt)
  local as, order = read(a_side.db, opt, a_side.name)
  local bs, order_b = read(b_side.db, opt, b_side.name)
  local results, chosen = {}, {}
  for _, key in ipairs(order) do
    if bs[key] then
      local a, b = alike(as[key], bs[key])
      chosen[#chosen + 1] = { a = a, b = b }
      results[#results + 1] = judge(a, b, opt.margin, opt.time)
    end
  end
  if #results == 0 then
    blame.raise(('compare: %s and %s have no point in common'):format(a_side.text, b_side.text),
      'EARG', 'compare')
  end
  local told = check_machines(a_side, b_side, chosen, opt)
  return verdicts.verdicts(results), #order + #order_b - 2 * #results, told
end

--- Hold the stored results of two databases against each other.
--
-- What was measured in one of them only is left out and counted.
-- >> local list = require('ridge.sweep.compare').databases('main.db', 'pr.db')
---@param path_a string
---@param path_b string
---@param given table|nil  sweep, match (parameters a pair agrees in; all when left out), margin,
---  time ('med', or 'quiet': the fast state of the machine), mixed (also where points of one side
---  are of unlike machines)
---@return table[] results  each verdict of b ('faster', 'slower', 'equal', 'open'), ratio, ci_lo,
---  ci_hi, design 'unpaired', or 'of machines' with machines (a, b: their names; differ: what else
---  is not the same) where another one measured b, time, reason (when open), sweep, phase, cache,
---  match, a, b (parameters), a_ns, b_ns, a_build, b_build
---@return integer alone    timings that only one of them has
---@return string|nil apart  how far their machines are apart by the anchors, where they are unlike
function M.databases(path_a, path_b, given)
  local opt = options.check(SPEC, given, 'compare')
  return compared({ db = path_a, text = path_a }, { db = path_b, text = path_b }, opt)
end

--- Hold two stored sweeps against each other, of one database or of two.
-- >> require('ridge.sweep.compare').sweeps({ db = 'main.db', name = 'mlp' },
--      { db = 'main.db', name = 'mlp-2' })
---@param a table db (path), name: as it is stored, mlp-2 the second of mlp
---@param b table db, name; the same sweep twice is an error
---@param given table|nil mixed
---@return table[] results as of M.databases
---@return integer alone
---@return string|nil apart
function M.sweeps(a, b, given)
  local function side(one)
    local st = store.open(one.db, 'read')
    local path = st.path
    st:close()
    return { db = path, name = one.name, text = ('%s in %s'):format(one.name, one.db) }
  end
  a, b = side(a), side(b)
  if a.db == b.db and a.name == b.name then
    blame.raise(('compare: both are the sweep %s; nothing is to be compared'):format(a.text),
      'EARG', 'compare')
  end
  return compared(a, b, options.check(SPEC, given, 'compare'))
end

-- -- Inside one sweep ------------------------------------------------------------------------

local function has(row, wanted)
  for name, value in pairs(wanted) do
    if row[name] ~= value then return false end
  end
  return true
end

-- What a pair agrees in when nobody says: all that neither side names.
local function shared(params, a, b)
  local out = {}
  for _, name in ipairs(params) do
    if a[name] == nil and b[name] == nil then out[#out + 1] = name end
  end
  return out
end

local function check_sides(params, opt)
  for _, side in ipairs { 'a', 'b' } do
    for name in pairs(opt[side]) do
      local known = false
      for _, param in ipairs(params) do known = known or param == name end
      if not known then
        blame.raise(('compare: %s names %s, which is no parameter%s; it has %s'):format(side,
          tostring(name), near.hint(tostring(name), params), table.concat(params, ', ')), 'EARG',
          'compare')
      end
    end
  end
end

local function has_name(list, name)
  for _, each in ipairs(list) do
    if each == name then return true end
  end
  return false
end

local function phases_of(rows)
  local seen, names = {}, {}
  for _, row in ipairs(rows) do
    for key in pairs(row) do
      local name = type(key) == 'string' and key:match '^(.+)_by_pass$'
      if name and not seen[name] then
        seen[name], names[#names + 1] = true, name
      end
    end
  end
  table.sort(names)
  return names
end

-- The ratio of two rows: by the passes that both have on one machine, else by their intervals: what
-- two machines did in their passes fell on one of them each, and the fast states lie in different
-- windows of different passes.
local function ratio_of(a, b, phase, time, design)
  if time == 'med' and not design then return pairing.ratio(a, b, phase), 'paired by pass' end
  local suffix = time == 'quiet' and '_quiet' or ''
  local x, y = a[phase .. suffix], b[phase .. suffix]
  if not (x and y) then return nil, design or 'unpaired' end -- of two machines: minutes move each
  local x_lo, x_hi = minutes.ends(a, phase .. suffix, design)
  local y_lo, y_hi = minutes.ends(b, phase .. suffix, design)
  return { med = y / x, lo = x_hi and y_lo and y_lo / x_hi,
    hi = x_lo and y_hi and (x_lo > 0 and y_hi / x_lo or math.huge) }, design or 'unpaired'
end

-- Nodes of a cluster may be alike to the last fact: a boot is of one of them.
local BOOTS = [[/* boots of points */ SELECT t.id AS trial, w.boot_id AS boot FROM main.trial t
  JOIN main.attempt a ON a.id = t.best_attempt JOIN main.worker w ON w.id = a.worker_id
  WHERE t.sweep_id = ? AND t.role = 'point']]

local function boots_of(st, sweep)
  local boots = {}
  for _, row in ipairs(st.db:look(BOOTS, sweep.id)) do boots[row.trial] = row.boot end
  return boots
end

-- How two rows can be held against each other where not by passes: on several machines of a kind,
-- or on unlike ones, with these.
local function apart(a, b, boots)
  local x, y = boots[a.trial], boots[b.trial]
  local of_a, of_b = unlike.place(a), unlike.place(b)
  if of_a and of_b and of_a.key ~= of_b.key then
    return 'of machines', { a = hardware.name(of_a), b = hardware.name(of_b),
      differ = canonical.list {} }
  end
  return x and y and x ~= y and 'unpaired' or nil
end

local function judge_inside(a, b, phase, opt, boots)
  local by, machines = apart(a, b, boots)
  local found, design = ratio_of(a, b, phase, opt.time, by)
  local verdict, reason = 'open', nil
  if not found then
    reason = opt.time == 'quiet' and 'the fast state was not seen in three passes'
      or 'they have no pass in common'
  elseif a[phase .. '_grade'] == 'D' or b[phase .. '_grade'] == 'D' then
    reason = 'grade D: it was disturbed'
  elseif not (found.lo and found.hi) then
    reason = by and 'no interval is stored' or 'fewer than five passes: no interval'
  elseif (found.lo > 1 or found.hi < 1) and math.abs(math.log(found.med)) > opt.margin then
    verdict = found.med > 1 and 'slower' or 'faster'
  elseif math.log(found.lo) >= -EQUAL and math.log(found.hi) <= EQUAL then
    verdict = 'equal'
  else
    reason = 'the interval is too wide'
  end
  local suffix = opt.time == 'quiet' and '_quiet' or ''
  return { verdict = verdict, ratio = found and found.med or 0 / 0, ci_lo = found and found.lo,
    ci_hi = found and found.hi, design = design, machines = machines, time = opt.time,
    phase = phase, passes = found and found.n, a_ns = a[phase .. suffix], b_ns = b[phase .. suffix],
    reason = reason }
end

local ASK = "where = 'machine = \"m...\"' (--where) asks for those of one, mixed (--mixed) has "
  .. 'each verdict as one of its two machines'

-- The points of a sweep that a comparison is of; where they were measured are columns, too.
local function rows_inside(st, sweep, opt)
  local rows = results_of.rows(st, sweep.id)
  unlike.tag(st, sweep, rows)
  if not opt.where then return rows end
  local origins = results_of.origins(st, sweep.id)
  for _, row in ipairs(rows) do
    for _, name in ipairs(schema.ORIGIN) do
      if row[name] == nil then row[name] = (origins[row.trial] or {})[name] end
    end
  end
  return rows_of.new(rows):where(opt.where)
end

--- Hold points of one stored sweep against each other, by the ratios within the passes that both
--- have: what the machine did in a pass fell on both.
-- >> require('ridge.sweep.compare').inside(st, 'mlp', { a = { impl = 'x' }, b = { impl = 'y' } })
---@param st table         store
---@param name string      of the sweep
---@param given table      a, b (parameters), match (those a pair agrees in; all others when left
---  out), phases, margin, time ('med', or 'quiet': the fast state, which is not paired), where
---  (text; it may name a machine), mixed (also points of unlike machines)
---@return table[] results as of M.databases, design 'paired by pass', passes; of points of two
---  machines 'unpaired', or 'of machines' where these are unlike
---@return string|nil apart  what is said of unlike machines that points are of, with the anchors
function M.inside(st, name, given)
  local opt = options.check(INSIDE, given, 'compare')
  local sweep = require('ridge.store.query').sweep(st, name)
  local params, boots = results_of.params(st, sweep.id), boots_of(st, sweep)
  check_sides(params, opt)
  local rows = rows_inside(st, sweep, opt)
  local match, others, found = opt.match or shared(params, opt.a, opt.b), {}, {}
  table.sort(rows, function(x, y)   -- by their parameters, not by when they were measured
    for _, p in ipairs(params) do
      local u, v = x[p], y[p]
      if u ~= v then
        if type(u) == 'number' and type(v) == 'number' then return u < v end
        return tostring(u) < tostring(v)
      end
    end
    return x.trial < y.trial
  end)
  for _, row in ipairs(rows) do
    if row.state == 'ok' and has(row, opt.b) then
      local key = canonical.encode(pick(row, match))
      if others[key] then
        blame.raise(('compare: several points of b agree in %s; say more in b or match'):format(
          table.concat(match, ', ')), 'EARG', 'compare')
      end
      others[key] = row
    end
  end
  local phases = phases_of(rows)
  for _, phase in ipairs(opt.phases or {}) do
    if not has_name(phases, phase) then
      blame.raise(('compare: %s has no phase %s%s; it has %s'):format(sweep.name, tostring(phase),
        near.hint(tostring(phase), phases), table.concat(phases, ', ')), 'EARG', 'compare')
    end
  end
  phases = opt.phases or phases
  local took_part = {}
  for _, row in ipairs(rows) do
    local other = row.state == 'ok' and has(row, opt.a)
      and others[canonical.encode(pick(row, match))]
    for _, phase in ipairs(other and other ~= row and phases or {}) do
      if row[phase] and other[phase] then
        local result = judge_inside(row, other, phase, opt, boots)
        took_part[#took_part + 1], took_part[#took_part + 2] = row, other
        result.sweep, result.match = sweep.name, pick(row, match)
        result.a, result.b = pick(row, params), pick(other, params)
        found[#found + 1] = result
      end
    end
  end
  if #found == 0 then
    blame.raise(('compare: no measured point of %s with these a has a partner with these b')
      :format(name), 'EARG', 'compare')
  end
  local told = unlike.of_rows(took_part)
  if told and not opt.mixed and not unlike.named(opt.where) then
    blame.raise(('compare: %s; %s'):format(told, ASK), 'EARG', 'compare')
  end
  return verdicts.verdicts(found), told
end

return M
