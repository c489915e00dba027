-- SPDX-License-Identifier: MIT
--- What ridge.sweep.best says, of a packed sweep: the same answers from columns.
--
-- A point is surely behind, surely not, or near the border; only the last are looked at as rows
-- are, so that both ways say the same.

local best = require 'ridge.sweep.best'
local columns_of = require 'ridge.store.columns'
local ffi = require 'ffi'
local interval = require 'ridge.measure.interval'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local results = require 'ridge.store.results'
local rows_of = require 'ridge.plot.rows'
local schema = require 'ridge.store.schema'

local M = {}

--- Points of the set whose rows are there; the others are counted.
M.SHOWN = 1000

local ALL = 8 -- passes up to which the interval reaches from the least to the most
local NEAR = 1e-6 -- of a ratio: beside the border, whatever nine digits of a pass do

--- Can a question be answered from the columns?
---@param columns table|nil of ridge.store.columns
---@param tree table what is looked for
---@param condition table|nil
---@return boolean
function M.answers(columns, tree, condition)
  if not columns or not columns:knows(tree) then return false end
  return not condition or columns:knows(condition)
end

-- A pass is stored with all its digits and read with nine.
local function digits(v) return tonumber(('%.9g'):format(v)) end

-- The ends without what other minutes differ by, which is no matter among points of one sweep;
-- those that are stored where no point has any of it.
local function own_ends(columns, goal, data)
  local phase = goal.measured
  local sd = columns:stored(minutes.column(phase))
  local med, lo, hi = columns:numbers(phase), columns:numbers(phase .. '_lo'),
    columns:numbers(phase .. '_hi')
  if not (sd and med and lo and hi) then return data.lo, data.hi end
  local own_lo, own_hi = ffi.new('double[?]', columns.n + 1), ffi.new('double[?]', columns.n + 1)
  for i = 0, columns.n - 1 do
    own_lo[i], own_hi[i] = lo[i], hi[i]
    if sd[i] > 0 and lo[i] == lo[i] and hi[i] == hi[i] then
      own_lo[i], own_hi[i] = minutes.own(med[i], lo[i], hi[i], sd[i])
    end
  end
  return columns:evaluate(goal.tree, { [phase] = own_lo }),
    columns:evaluate(goal.tree, { [phase] = own_hi })
end

-- What decides: values, ends and passes of all points.
local function measured(columns, goal)
  local data = { v = columns:evaluate(goal.tree), passes = {} }
  local phase = goal.measured
  if not phase then return data end
  local function at(name)
    local own = columns:numbers(name)
    return own and columns:evaluate(goal.tree, { [phase] = own })
  end
  if columns.any[phase .. '_lo'] and columns.any[phase .. '_hi'] then
    data.lo, data.hi = at(phase .. '_lo'), at(phase .. '_hi')
    data.own_lo, data.own_hi = own_ends(columns, goal, data)
  end
  local of = columns.head.phases[phase]
  for pass = 1, of and of.passes or 0 do
    data.passes[pass] = columns:stored(phase .. '#' .. pass) or false
  end
  return data
end

-- One point as ridge.sweep.best has it.
local function candidate(columns, goal, data, i, row)
  local found = { v = data.v[i], row = row or { trial = columns:value('trial', i) } }
  if data.lo then
    local a, b = data.lo[i], data.hi[i]
    if a == a and b == b then
      found.lo, found.hi = math.min(a, b, found.v), math.max(a, b, found.v)
      a, b = data.own_lo[i], data.own_hi[i]
      found.own_lo, found.own_hi = math.min(a, b, found.v), math.max(a, b, found.v)
    end
  end
  if #data.passes == 0 then return found end
  local whole, last = not goal.is_plain and columns:row(i), 0
  found.passes = {}
  for pass, list in ipairs(data.passes) do
    local v = list and list[i] or 0 / 0
    if v == v then last = pass end
    local value = v == v and digits(v)
    if value and whole then value = best.value_at(goal, whole, value) end
    found.passes[pass] = value and value > 0 and value or false
  end
  for pass = last + 1, #data.passes do found.passes[pass] = nil end
  if last == 0 then found.passes = nil end
  return found
end

-- Student's quantile over the root of n, for the range of n passes; nil where ranks alone decide.
local function student(n)
  if n < passes.LEAST or passes.range_level(n) >= 0.95 then return nil end
  local logs = {}
  for i = 1, n do logs[i] = i end
  local lo, hi = interval.student(logs, 0.95)
  local mean, sum = (n + 1) / 2, 0
  for i = 1, n do sum = sum + (i - mean) ^ 2 end
  return (hi - lo) / 2 / math.sqrt(sum / (n - 1))
end

-- For each point beside the first: 1 where its passes say that it is behind beyond doubt, 3 that
-- it is not, 2 where they have to be looked at, 0 where they say nothing, since fewer than five
-- are shared.
local function by_passes(columns, goal, data, first, order, n)
  local out, P = ffi.new('uint8_t[?]', math.max(1, columns.n)), #data.passes
  if P < passes.LEAST then return out end
  local lists, base, t = {}, {}, ffi.new('double[?]', P + 1)
  for pass = 1, P do
    local stored = data.passes[pass]
    local all = stored and columns:evaluate(goal.tree, { [goal.measured] = stored })
    local own = all and all[first] or 0 / 0
    if own > 0 then lists[#lists + 1], base[#base + 1] = all, math.log(own) end
  end
  for k = 0, P do t[k] = student(k) or 0 end
  local sign = goal.better > 0 and -1 or 1
  local m = #lists
  local least = ffi.new('double[?]', columns.n)
  local sum, square = ffi.new('double[?]', columns.n), ffi.new('double[?]', columns.n)
  local count = ffi.new('int32_t[?]', columns.n)
  for i = 0, columns.n - 1 do least[i] = math.huge end
  for k = 1, m do
    local list, own = lists[k], base[k]
    for i = 0, columns.n - 1 do
      local v = list[i]
      if v > 0 then
        local d = sign * (math.log(v) - own)
        if d < least[i] then least[i] = d end
        sum[i], square[i], count[i] = sum[i] + d, square[i] + d * d, count[i] + 1
      end
    end
  end
  for k = 1, n - 1 do
    local i = order[k]
    local c = count[i]
    if c >= passes.LEAST then
      local mean = sum[i] / c
      local sd = math.sqrt(math.max(0, (square[i] - c * mean * mean) / (c - 1)))
      -- of d * d what was lost in the difference is far below the border's width
      local low = math.min(least[i], mean - t[c] * (sd + NEAR))
      -- up to eight the least of them is the end of their interval
      out[i] = low > NEAR and 1 or c <= ALL and low < -NEAR and 3 or 2
    end
  end
  return out
end

--- The set of points that cannot be told from the best, as ridge.sweep.best.set has it; of the set
--- itself the first SHOWN.
---@param columns table
---@param goal table of ridge.sweep.best.goal
---@param condition table|nil
---@return table found as of ridge.sweep.best.set
---@return table data what effects and the order of all points are taken from
function M.set(columns, goal, condition)
  local n = columns.n
  local data = measured(columns, goal)
  local mask = condition and columns:holds(condition)
  local state, states = columns:codes 'state'
  local grade, grades = columns:codes 'grade'
  local ok, disturbed = -2, -2
  for i, word in ipairs(states) do if word == 'ok' then ok = i - 1 end end
  for i, word in ipairs(grades) do if word == 'D' then disturbed = i - 1 end end
  local found = { set = {}, n = 0, behind = 0, without = 0, open = 0 }
  local clear, all = ffi.new('int32_t[?]', math.max(1, n)), ffi.new('int32_t[?]', math.max(1, n))
  local n_clear, n_all, without, open = 0, 0, 0, 0
  local v = data.v
  for i = 0, n - 1 do
    if not mask or mask[i] == 1 then
      if state[i] ~= ok then
        open = open + 1
      elseif v[i] == v[i] then
        all[n_all], n_all = i, n_all + 1
        if grade[i] ~= disturbed then clear[n_clear], n_clear = i, n_clear + 1 end
      else
        without = without + 1
      end
    end
  end
  found.without, found.open = without, open
  found.disturbed = n_clear == 0 and n_all > 0
  found.left_out = found.disturbed and 0 or n_all - n_clear
  local list, m = clear, n_clear
  if found.disturbed then list, m = all, n_all end
  list = columns_of.sort(v, list, m, goal.better > 0)
  data.order, data.n, data.clear = list, m, n_clear
  if m == 0 then return found, data end
  local function add(i)
    found.n = found.n + 1
    if found.n <= M.SHOWN then
      found.set[found.n] = candidate(columns, goal, data, i, columns:row(i))
    else
      found.last = i
    end
  end
  add(list[0])
  local first, at = found.set[1], list[0]
  local by = found.disturbed and {} or by_passes(columns, goal, data, at, list, m)
  for k = 1, m - 1 do
    local i = list[k]
    local behind = false
    if not found.disturbed then
      if by[i] == 1 or by[i] == 3 then
        behind = by[i] == 1
      elseif by[i] == 2 then
        behind = best.is_behind(goal, first, candidate(columns, goal, data, i))
      elseif first.lo and data.lo and data.lo[i] == data.lo[i] and data.hi[i] == data.hi[i] then
        if goal.better > 0 then
          behind = math.max(data.own_lo[i], data.own_hi[i], v[i]) < first.own_lo
        else
          behind = math.min(data.own_lo[i], data.own_hi[i], v[i]) > first.own_hi
        end
      elseif not goal.measured then
        behind = (first.v - v[i]) * goal.better > 0
      end
    end
    if behind then found.behind = found.behind + 1 else add(i) end
  end
  if not found.disturbed then
    for k = 2, #found.set do
      local each = found.set[k]
      local pair = first.passes and each.passes and passes.ratio(first.passes, each.passes)
      each.pair = pair or nil
    end
  end
  found.last = found.last and candidate(columns, goal, data, found.last) or found.set[#found.set]
  return found, data
end

-- As ridge.plot.effects has a median of sorted numbers.
local function place(n)
  local at = 1 + 0.5 * (n - 1)
  local low = math.floor(at)
  return low, math.min(low + 1, n), at - low
end

-- Median of what is looked for at each value of a parameter: the points come in their order, so the
-- middle ones of each value are met one after the other.
local function levels(columns, name, data, rising)
  local codes, values = columns:codes(name)
  local m = #values
  local count, seen = ffi.new('int32_t[?]', m + 1), ffi.new('int32_t[?]', m + 1)
  local low, high = ffi.new('double[?]', m + 1), ffi.new('double[?]', m + 1)
  local from, to = ffi.new('int32_t[?]', m + 1), ffi.new('int32_t[?]', m + 1)
  local order, n, v = data.order, data.clear, data.v
  for k = 0, n - 1 do
    local c = codes[order[k]]
    if c >= 0 then count[c] = count[c] + 1 end
  end
  local share = {}
  for c = 0, m - 1 do
    if count[c] > 0 then
      local a, b
      a, b, share[c] = place(count[c])
      from[c], to[c] = a, b
    end
  end
  for k = 0, n - 1 do
    local i = order[rising and k or n - 1 - k]
    local c = codes[i]
    if c >= 0 then
      local s = seen[c] + 1
      seen[c] = s
      if s == from[c] then low[c] = v[i] end
      if s == to[c] then high[c] = v[i] end
    end
  end
  local known = {}
  for c = 0, m - 1 do
    if count[c] > 0 then
      known[#known + 1] = { value = values[c + 1],
        median = low[c] + (high[c] - low[c]) * share[c] }
    end
  end
  local at, out = {}, {}
  for _, level in ipairs(known) do at[level.value] = level end
  for i, value in ipairs(rows_of.distinct(known, 'value')) do out[i] = at[value] end
  return out
end

--- Parameters by how far the medians over all others lie apart, as ridge.sweep.best.effects has it.
---@param columns table
---@param goal table
---@param params string[]
---@param data table of M.set
---@return table[] effects name, reach, best; largest reach first
function M.effects(columns, goal, params, data)
  if data.clear == 0 then return {} end
  local list = {}
  for _, name in ipairs(params) do
    list[#list + 1] = { name = name, levels = levels(columns, name, data, goal.better < 0) }
  end
  return best.reaches(list, goal)
end

-- Where each point was measured, as columns that a condition may name.
local function with_origins(st, sweep, rows)
  local origins = results.origins(st, sweep.id)
  for _, row in ipairs(rows) do
    for _, name in ipairs(schema.ORIGIN) do
      if row[name] == nil then row[name] = origins[row.trial][name] end
    end
  end
end

--- The answer to a question, from the columns of a sweep where it has them, else from its rows.
---@param st table
---@param sweep table id, name
---@param ask table text (what is best), directions, params, what (for errors), condition (or nil),
---  whole (all of the set is wanted), origins (the condition asks where points were measured)
---@return table goal of ridge.sweep.best.goal
---@return table found of ridge.sweep.best.set
---@return table[] effects
function M.answer(st, sweep, ask)
  local columns = not ask.whole and not ask.origins and columns_of.of(st, sweep)
  local known, goal = pcall(best.goal, ask.text, ask.directions, columns or {}, ask.what)
  if columns and known and M.answers(columns, goal.tree, ask.condition) then
    local found, data = M.set(columns, goal, ask.condition)
    return goal, found, M.effects(columns, goal, ask.params, data)
  end
  -- what is missing is known without any row
  if columns and not known and ask.text:match '^%s*$' then error(goal, 0) end
  local rows = results.rows(st, sweep.id)
  if ask.origins then with_origins(st, sweep, rows) end
  goal = best.goal(ask.text, ask.directions, rows, ask.what)
  if ask.condition then rows = best.where(rows, ask.condition, ask.what) end
  return goal, best.set(rows, goal), best.effects(rows, goal, ask.params)
end

return M
