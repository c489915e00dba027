-- SPDX-License-Identifier: MIT
--- Stored results of two databases held against each other: unpaired, and labelled so.
--
-- The two were measured at different times, so whatever the machine did between them is part of the
-- difference.  Faster or slower is said only across the same environment (without the build: that
-- is what is compared) and when work that never changes took the same time on both days; else the
-- answer is open, and `ridge ab` is how to know.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local near = require 'ridge.near'
local options = require 'ridge.options'
local store = require 'ridge.store'

local M = {}

local SPEC = {
  sweep = { 'string', doc = 'only the sweep of this name' },
  match = { 'table', doc = 'parameters in which a pair agrees; all when left out' },
  margin = { 'number', default = 0.01, min = 0, max = 1, doc = 'what is less is not called' },
}

-- How far the reference work may have moved between the two.
local SENTINEL = 0.02

-- Two intervals of a few per cent never agree to one: equal is at most this.
local EQUAL = 0.03

local TIMINGS = [[/* timings to compare */
  SELECT s.base AS sweep, c.params, g.phase, g.cache, g.med, g.ci_lo, g.ci_hi, g.grade, g.sentinel,
    e.governor, e.turbo, e.smt, e.aslr, e.thp, e.cpuset, e.cpu_quota, e.vars,
    hex(m.fp) AS machine, d.uuid AS device, d.id AS device_id, b.git, b.ridge,
    p.version
  FROM main.trial t JOIN main.sweep s ON s.id = t.sweep_id JOIN main.protocol p
    ON p.id = s.protocol_id JOIN main.config c ON c.id = t.config_id
  JOIN main.attempt a ON a.id = t.best_attempt JOIN main.timing g ON g.attempt_id = a.id
  JOIN main.env e ON e.id = a.env_id JOIN main.machine m ON m.id = e.machine_id
  JOIN main.device d ON d.id = e.device_id JOIN main.build b ON b.id = e.build_id
  WHERE t.role = 'point' AND t.state = 'ok' AND g.cache <> 'first'
    AND (?1 IS NULL OR s.base = ?1 OR s.name = ?1) ORDER BY a.began]]

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

-- The newest timing of each point, phase and cache mode, by what a pair agrees in.
local function read(path, opt)
  local st = store.open(path, 'read')
  local found, order, seen = {}, {}, {}
  local ok, err = pcall(function()
    local rows = st.db:look(TIMINGS, opt.sweep)
    for _, row in ipairs(rows) do row.params = canonical.decode(row.params) end
    check_names(path, rows, opt.match)
    for _, row in ipairs(rows) do
      row.match = pick(row.params, opt.match)
      row.reference = reference_of(st, row.device_id)
      local key = canonical.encode { row.sweep, row.match, row.phase, row.cache }
      local whole = canonical.encode(row.params)
      if seen[key] and seen[key] ~= whole then
        blame.raise(('compare: several points of %s agree in %s: %s and %s; match more'):format(
          path, table.concat(opt.match, ', '), seen[key], whole), 'EARG', 'compare')
      end
      if not found[key] then order[#order + 1] = key end
      found[key], seen[key] = row, whole
    end
  end)
  st:close()
  if not ok then error(err, 0) end
  table.sort(order)
  return found, order
end

-- -- Judging ----------------------------------------------------------------------------------

-- What differs between two environments, the build left out.
local function other_environment(a, b)
  local out = {}
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

local function reason_of(a, b)
  if a.version ~= b.version then
    return ('measured by protocol %d and %d: rounds of one process and passes say other things')
      :format(a.version, b.version)
  end
  local why = other_environment(a, b) or other_speed(a, b)
  if why then return why end
  for _, row in ipairs { a, b } do
    if row.grade == 'D' then return 'grade D: it was disturbed' end
  end
  if not (a.ci_lo and b.ci_lo) then return 'no interval is stored' end
end

local function judge(a, b, margin)
  local ratio = b.med / a.med
  -- each end against the far end of the other: covers at least what both cover
  local lo = math.max(b.ci_lo or b.med, 0) / (a.ci_hi or a.med)
  -- an interval that reaches zero says nothing of how large the ratio may be
  local least = a.ci_lo or a.med
  local hi = least > 0 and (b.ci_hi or b.med) / least or math.huge
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
  return { verdict = verdict, ratio = ratio, ci_lo = lo, ci_hi = hi, design = 'unpaired',
           sweep = a.sweep, phase = a.phase, cache = a.cache, match = a.match, a = a.params,
           b = b.params, a_ns = a.med, b_ns = b.med, a_build = a.git or a.ridge,
           b_build = b.git or b.ridge, reason = reason }
end

--- Hold the stored results of two databases against each other.
--
-- What was measured in one of them only is left out and counted.
-- >> local list = require('ridge.sweep.compare').databases('main.db', 'pr.db')
---@param path_a string
---@param path_b string
---@param given table|nil  sweep, match (parameters a pair agrees in; all when left out), margin
---@return table[] results  each verdict of b ('faster', 'slower', 'equal', 'open'), ratio, ci_lo,
---  ci_hi, design 'unpaired', reason (when open), sweep, phase, cache, match, a, b (parameters),
---  a_ns, b_ns, a_build, b_build
---@return integer alone    timings that only one of them has
function M.databases(path_a, path_b, given)
  local opt = options.check(SPEC, given, 'compare')
  local as, order = read(path_a, opt)
  local bs, order_b = read(path_b, opt)
  local results = {}
  for _, key in ipairs(order) do
    if bs[key] then results[#results + 1] = judge(as[key], bs[key], opt.margin) end
  end
  if #results == 0 then
    blame.raise(('compare: %s and %s have no point in common'):format(path_a, path_b), 'EARG',
      'compare')
  end
  return results, #order + #order_b - 2 * #results
end

return M
