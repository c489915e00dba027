-- SPDX-License-Identifier: MIT
--- The best points of a sweep as a set: those that the measurement cannot tell from the first.
--
-- Two points are told apart pass by pass, where both have passes, and by their intervals where they
-- have none; a time without an interval is told from nothing, a metric without any is taken as
-- exact.  Points of grade D have no say.

local blame = require 'ridge.blame'
local expression = require 'ridge.store.expression'
local minutes = require 'ridge.measure.minutes'
local near = require 'ridge.near'
local passes = require 'ridge.measure.passes'
local roof = require 'ridge.measure.roof'

local M = {}

-- -- What is looked for ------------------------------------------------------------------------

local function finite(v) return type(v) == 'number' and v == v and math.abs(v) < math.huge end

-- Columns of all rows, and of them those that were timed or measured with an interval.
local function columns_of(rows)
  local known = {}
  for _, row in ipairs(rows) do
    for name, value in pairs(row) do
      if finite(value) then known[name] = true end
    end
  end
  return known
end

local function sorted(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- Columns that one may look for: timed phases and metrics, without their ends and quantiles.
---@param directions table  of ridge.store.results
---@return string[] names
function M.measures(directions)
  local list = {}
  for _, name in ipairs(sorted(directions)) do
    local phase = name:match '^(.*)_between_minutes$' or name:match '^(.*)_[%w]+$'
    if not (phase and directions[phase .. '_p95']) and not name:find '_lo$'
        and not name:find '_hi$' then
      list[#list + 1] = name
    end
  end
  return list
end

local FAILED = { oom = true, timeout = true, error = true, crashed = true, implied = true }

local function wanted(text, directions, rows, what)
  local list = M.measures(directions)
  if #list == 0 then
    local failed = 0
    for _, row in ipairs(rows) do failed = failed + (FAILED[row.state] and 1 or 0) end
    blame.raise(('%s has no measured point yet%s'):format(what, failed > 0
      and ('; %d of %d failed (ridge sweeps says how)'):format(failed, #rows) or ''), 'EARG')
  end
  blame.raise(('%s; %s has %s'):format(text, what, table.concat(list, ', ')), 'EARG')
end

-- The same tree where rates of phases are their counts over their times, as which they are known.
local function with_times(tree, directions, known)
  if tree.kind == 'name' then
    local phase, count = minutes.rate(tree.name)
    if phase and directions[phase .. '_p95'] and known[phase] and known[count] then
      return expression.parse(('%s / %s'):format(count, phase))
    end
    return tree
  end
  local out = {}
  for key, value in pairs(tree) do
    out[key] = type(value) == 'table' and with_times(value, directions, known) or value
  end
  return out
end

-- Is a column a time that passes have an interval of, once there are five?
local function is_time(name, directions)
  local phase = name:gsub('_quiet$', ''):gsub('_cold$', '')
  return directions[phase .. '_p95'] ~= nil
end

--- What is best: 'max rows_per_s', 'min fwd / batch', or a name whose direction is known.
---@param text string       '' takes the only phase or metric with a direction
---@param directions table  of ridge.store.results
---@param rows table        of ridge.store.results, or finite: a set of the columns with numbers
---@param what string       for errors: 'the sweep widths'
---@return table goal       text, tree (rates of phases as counts over times), better (1: more, -1:
---  less), measured (the column whose interval the value has, or would have after five passes; nil
---  where nothing is a time), is_plain (the value is that column)
function M.goal(text, directions, rows, what)
  local sign, rest = text:match '^%s*(m[axin]+)%s+(.+)$'
  local better = sign == 'max' and 1 or sign == 'min' and -1 or nil
  local body = better and rest or text
  if body:match '^%s*$' then
    local list, said = M.measures(directions), {}
    for _, each in ipairs(list) do
      if directions[each] ~= 0 then said[#said + 1] = each end
    end
    list = #said > 0 and said or list -- one of them has a way that is better: that is meant
    if #list ~= 1 then
      wanted("--for 'max NAME' or 'min NAME' is missing", directions, rows, what)
    end
    body = list[1]
  end
  local tree, known = expression.parse(body), rows.finite or columns_of(rows)
  local name = body:match '^%s*([%a_][%w_.]*)%s*$'
  name = name and name:gsub('%.', '_')
  if name and directions[name] and not known[name] then
    blame.raise(('no point of %s has a %s that is a number'):format(what, name), 'EARG')
  elseif name and not known[name] then
    wanted(('there is no %s%s'):format(name, near.hint(name, sorted(known))), directions, rows,
      what)
  end
  expression.check(tree, known, what)
  better = better or name and directions[name]
  if not better or better == 0 then
    wanted(("nobody said which way %s is better; write 'max %s' or 'min %s'"):format(body, body,
      body), directions, rows, what)
  end
  tree = with_times(tree, directions, known)
  local measured
  expression.names(tree, function(each)
    local has_ends = known[each .. '_lo'] ~= nil
    if (has_ends or is_time(each, directions)) and each ~= measured then
      if measured and has_ends and known[measured .. '_lo'] then
        blame.raise(('%s holds %s and %s, which both have intervals: one at most'):format(body,
          measured, each), 'EARG')
      end
      if not measured or has_ends then measured = each end
    end
  end)
  return { text = body, tree = tree, better = better, measured = measured,
           is_plain = name ~= nil and name == measured }
end

--- The value of a row where its measured column has another value.
---@param goal table    of M.goal
---@param row table     of ridge.store.results
---@param x number|nil
---@return number|nil v nil where it is no finite number
function M.value_at(goal, row, x)
  if not x then return nil end
  local v = expression.evaluate(goal.tree, setmetatable({ [goal.measured] = x },
    { __index = row }))
  return finite(v) and v or nil
end

--- The interval of a value where that of its measured column is another one.
---@param goal table
---@param row table
---@param v number      the value
---@param lo number|nil  of the measured column
---@param hi number|nil
---@return number|nil lo nil where it has no interval
---@return number|nil hi
function M.ends(goal, row, v, lo, hi)
  local a, b = M.value_at(goal, row, lo), M.value_at(goal, row, hi)
  if not (a and b) then return nil end
  return math.min(a, b, v), math.max(a, b, v)
end

-- A row as a candidate: v, lo, hi (nil without an interval), own_lo, own_hi (without what other
-- minutes differ by: both were measured in the same), passes (its value by pass).
local function candidate(goal, row)
  local v = expression.evaluate(goal.tree, row)
  if not finite(v) then return nil end
  local found = { row = row, v = v }
  if not goal.measured then return found end
  found.lo, found.hi = M.ends(goal, row, v, row[goal.measured .. '_lo'],
    row[goal.measured .. '_hi'])
  -- what points of one sweep are held against each other by
  found.own_lo, found.own_hi = M.ends(goal, row, v, minutes.ends(row, goal.measured))
  local text = row[goal.measured .. '_by_pass']
  if type(text) == 'string' then
    found.passes = {}
    local i = 0
    for word in text:gmatch '%S+' do
      i = i + 1
      local value = M.value_at(goal, row, tonumber(word))
      found.passes[i] = value and value > 0 and value or false
    end
  end
  return found
end

--- Is a candidate beyond doubt behind the first one?
---@param goal table
---@param first table   v, own_lo, own_hi, passes
---@param other table
---@return boolean behind
---@return table|nil pair  ratio of other over first within passes, where both have five
function M.is_behind(goal, first, other)
  local pair = first.passes and other.passes and passes.ratio(first.passes, other.passes)
  if pair and pair.lo then
    if goal.better > 0 then return pair.hi < 1, pair end
    return pair.lo > 1, pair
  end
  if first.own_lo and other.own_lo then
    if goal.better > 0 then return other.own_hi < first.own_lo end
    return other.own_lo > first.own_hi
  end
  -- a time without its interval may be anything; what has none in any row is exact
  if goal.measured then return false end
  return (first.v - other.v) * goal.better > 0
end

-- -- The answer --------------------------------------------------------------------------------

--- The rows that fulfil a condition.
---@param rows table
---@param condition table  of ridge.store.expression
---@param what string      for errors: 'the sweep widths'
---@return table rows
function M.where(rows, condition, what)
  local known, out = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row) do known[name] = true end
  end
  expression.check(condition, known, what)
  for _, row in ipairs(rows) do
    if expression.holds(condition, row) then out[#out + 1] = row end
  end
  return out
end

--- The set of points that cannot be told from the best.
---@param rows table   of ridge.store.results
---@param goal table   of M.goal
---@return table found  set (candidates, best first: row, v, lo, hi, own_lo, own_hi,
---  pair), n (how many they are),
---  last (the last of them), order (those that have a say, best first), behind (how many are),
---  disturbed (all points are of grade D: set is all of them, and nothing is decided), left_out
---  (points of grade D beside others), without (measured points that lack the value), open (points
---  that were not measured)
function M.set(rows, goal)
  local clear, all = {}, {}
  local found = { set = {}, behind = 0, without = 0, open = 0 }
  for _, row in ipairs(rows) do
    if row.state == 'ok' then
      local each = candidate(goal, row)
      if each then
        all[#all + 1] = each
        if row.grade ~= 'D' then clear[#clear + 1] = each end
      else
        found.without = found.without + 1
      end
    else
      found.open = found.open + 1
    end
  end
  found.disturbed = #clear == 0 and #all > 0
  found.left_out = found.disturbed and 0 or #all - #clear
  local list = found.disturbed and all or clear
  table.sort(list, function(a, b)
    if a.v ~= b.v then return (a.v - b.v) * goal.better > 0 end
    return a.row.trial < b.row.trial
  end)
  found.order = list
  for i, each in ipairs(list) do
    local behind, pair
    if i > 1 and not found.disturbed then behind, pair = M.is_behind(goal, list[1], each) end
    each.pair = pair
    if behind then
      found.behind = found.behind + 1
    else
      found.set[#found.set + 1] = each
    end
  end
  found.n, found.last = #found.set, found.set[#found.set]
  return found
end

-- -- Why ---------------------------------------------------------------------------------------

-- A call shorter than this that is as far from its roof is limited by being called: dispatch, Lua.
local SHORT_NS, FAR = 1e4, 0.1
local WORDS = { compute = 'arithmetic', L1 = 'L1', L2 = 'L2', LLC = 'last cache', DRAM = 'memory' }

--- What limits a point, and the share of that roof which it reaches.
---@param row table     of ridge.store.results
---@param phase string  its phase
---@param machine table l1d, l2, l3 in bytes, threads, ceilings by name
---@return string|nil limit  arithmetic, L1, L2, last cache, memory, calls; nil where operations,
---  bytes or ceilings are not known
---@return number|nil share
function M.limit(row, phase, machine)
  local ns = row[phase]
  if not (finite(ns) and ns > 0) then return nil end
  local least, name = roof.least({ flops = row[phase .. '_flops'], bytes = row[phase .. '_bytes'],
    sign_flops = row[phase .. '_sign_flops'], dtype = row.dtype or 'f32' }, machine.ceilings,
    machine)
  if not least then return nil end
  local share = least / ns
  if share < FAR and ns < SHORT_NS then return 'calls', share end
  return WORDS[name], share
end

-- Effects with the value whose median is best.
local function best_of(effects, is_difference, goal)
  local out = {}
  for _, effect in ipairs(effects) do
    local best = effect.levels[1]
    for _, level in ipairs(effect.levels) do
      if (level.median - best.median) * goal.better > 0 then best = level end
    end
    if effect.most > effect.least then
      out[#out + 1] = { name = effect.name, reach = effect.reach, is_difference = is_difference,
        best = best.value }
    end
  end
  return out
end

--- Parameters by how far the medians over all others lie apart.
---@param rows table
---@param goal table
---@param params string[]
---@return table[] effects  name, reach (largest over smallest median; largest less smallest where
---  a median is not above 0: is_difference), best (the value of the parameter with the best
---  median); largest reach first, without those of which every value has the same median
function M.effects(rows, goal, params)
  local valued = {}
  for _, row in ipairs(rows) do
    local each = row.state == 'ok' and candidate(goal, row)
    if each then valued[#valued + 1] = setmetatable({ value = each.v }, { __index = row }) end
  end
  local list, is_difference = require('ridge.plot.effects').effects(valued, params, 'value')
  return best_of(list, is_difference, goal)
end

--- As `effects`, from the medians at each value of each parameter.
---@param params table[] each name, levels (each value, median)
---@param goal table
---@return table[] effects
function M.reaches(params, goal)
  local list, is_difference = require('ridge.plot.effects').reaches(params)
  return best_of(list, is_difference, goal)
end

return M
