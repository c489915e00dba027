-- SPDX-License-Identifier: MIT
--- The points of a sweep as a page needs them: how many of each kind, the first ones, those that
--- failed, those that are drawn; from rows, or from the columns of a packed sweep.
--
-- A page of a million points cannot draw all of them: pictures of places show those that are like
-- the best in all but two parameters, the others a draw, and each says so.

local ffi = require 'ffi'
local columns_of = require 'ridge.store.columns'
local best = require 'ridge.sweep.best'
local front = require 'ridge.sweep.front'
local plain = require 'ridge.plain'
local results = require 'ridge.store.results'
local schema = require 'ridge.store.schema'
local space = require 'ridge.sweep.space'

local M = {}

--- Points of a picture at most, where not all are drawn: of places, and of a draw from all.
M.DRAWN, M.SAMPLE = 5000, 1000

-- -- From rows ------------------------------------------------------------------------------------

local Rows = {}
Rows.__index = Rows

--- What is best.
---@param goal table of ridge.sweep.best.goal
---@param params string[]
---@return table found of ridge.sweep.best.set
---@return table[] effects
function Rows:answer(goal, params)
  return best.set(self.rows, goal), best.effects(self.rows, goal, params)
end

--- A goal, by the columns there are; raises what ridge.sweep.best.goal does.
---@param text string
---@param directions table
---@param what string for errors
---@return table goal
function Rows:goal(text, directions, what)
  return best.goal(text, directions, self.rows, what)
end

--- How many points are in each state, and of each grade, and how often each flag stands there.
---@return table states numbers by word
---@return table grades
---@return table flags
function Rows:counts()
  local states, grades, flags = {}, {}, {}
  local function add(to, key) if key then to[key] = (to[key] or 0) + 1 end end
  for _, row in ipairs(self.rows) do
    add(states, row.state)
    add(grades, row.grade)
    for name in (type(row.flags) == 'string' and row.flags or ''):gmatch '%S+' do
      add(flags, name)
    end
  end
  return states, grades, flags
end

-- The set in its order, then those that have a say in theirs, then by a column, those without a
-- value of it last.
function Rows:first(said, by, most)
  local order, rank = {}, {}
  local found, goal = said.found or { set = {}, order = {} }, said.goal
  for i, each in ipairs(found.set) do rank[each.row] = i end
  for i, each in ipairs(found.order) do rank[each.row] = rank[each.row] or #found.set + i end
  for _, row in ipairs(self.rows) do if row.state == 'ok' then order[#order + 1] = row end end
  local function value_of(row)
    local v = by and row[by]
    return type(v) == 'number' and v == v and v or nil
  end
  table.sort(order, function(a, b)
    local x, y = rank[a] or math.huge, rank[b] or math.huge
    if x ~= y then return x < y end
    local u, v = value_of(a), value_of(b)
    if (u == nil) ~= (v == nil) then return v == nil end
    if u ~= v then
      if goal and goal.better > 0 and goal.is_plain then return u > v end
      return u < v
    end
    return a.trial < b.trial
  end)
  local out = {}
  for i = 1, math.min(most, #order) do out[i] = order[i] end
  return out
end

--- The first points in any of some states.
---@param states table a set of words
---@param most integer
---@return table[] rows
function Rows:failed(states, most)
  local out = {}
  for _, row in ipairs(self.rows) do
    if #out < most and states[row.state] then out[#out + 1] = row end
  end
  return out
end

--- The rows of a picture; nil: it reads all by itself.
---@return table[]|nil rows
function Rows.drawn() return nil end

-- -- From columns ---------------------------------------------------------------------------------

local Packed = {}
Packed.__index = Packed

function Packed:answer(goal, params)
  local found, data = front.set(self.columns, goal)
  self.data = data
  return found, front.effects(self.columns, goal, params, data)
end

function Packed:goal(text, directions, what)
  return best.goal(text, directions, self.columns, what)
end

-- How often each code of a column is there.
local function counted(columns, name)
  local codes, values = columns:codes(name)
  local n, out = ffi.new('int32_t[?]', #values + 1), {}
  for i = 0, columns.n - 1 do n[codes[i] + 1] = n[codes[i] + 1] + 1 end
  for k, value in ipairs(values) do if n[k] > 0 then out[value] = n[k] end end
  return out
end

function Packed:counts()
  local flags = {}
  for text, n in pairs(counted(self.columns, 'flags')) do
    for name in text:gmatch '%S+' do flags[name] = (flags[name] or 0) + n end
  end
  return counted(self.columns, 'state'), counted(self.columns, 'grade'), flags
end

function Packed:first(said, by, most)
  local columns, out, taken = self.columns, {}, {}
  for _, each in ipairs(said.found and said.found.set or {}) do
    if #out == most then return out end
    out[#out + 1] = each.row
    taken[each.row.trial] = true
  end
  local state, states = columns:codes 'state'
  local ok = -2
  for i, word in ipairs(states) do if word == 'ok' then ok = i - 1 end end
  local trial, value = columns:stored 'trial', by and columns:numbers(by)
  local data = said.found and self.data
  for k = 0, data and data.n - 1 or -1 do
    if #out == most then return out end
    local i = data.order[k]
    if not taken[trial[i]] then
      out[#out + 1] = columns:row(i)
      taken[trial[i]] = true
    end
  end
  local list, n = ffi.new('int32_t[?]', math.max(1, columns.n)), 0
  for i = 0, columns.n - 1 do
    if state[i] == ok and (not value or value[i] == value[i]) then list[n], n = i, n + 1 end
  end
  if value then
    local goal = said.goal
    list = columns_of.sort(value, list, n, goal ~= nil and goal.better > 0 and goal.is_plain)
  end
  for k = 0, n - 1 do
    if #out == most then return out end
    if not taken[trial[list[k]]] then out[#out + 1] = columns:row(list[k]) end
  end
  for i = 0, columns.n - 1 do -- those without a value
    if #out == most then return out end
    if value and state[i] == ok and value[i] ~= value[i] and not taken[trial[i]] then
      out[#out + 1] = columns:row(i)
    end
  end
  return out
end

local FAILED = [[/* first failures */ SELECT t.id AS trial, ]] .. schema.STATE .. [[ AS state,
    a.message AS reason, c.params FROM main.trial t JOIN main.config c ON c.id = t.config_id
  LEFT JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' AND t.state IN (%s) ORDER BY t.ord LIMIT %d]]

function Packed:failed(states, most)
  local names = {}
  for name in pairs(states) do names[#names + 1] = ("'%s'"):format(name) end
  table.sort(names)
  local rows = self.st.db:look(FAILED:format(table.concat(names, ','), most), self.sweep.id)
  for _, row in ipairs(rows) do
    for name, value in pairs(require('ridge.store.canonical').decode(row.params)) do
      row[name] = value
    end
    row.params = nil
  end
  return rows
end

-- Points of a list of numbers, one of each of m stretches where there are more; drawn by a
-- generator of its own, so that the same page has the same points.
local function thinned(list, n, m, seed)
  if n <= m then return n, list end
  local out, state = ffi.new('int32_t[?]', m), seed
  for k = 0, m - 1 do
    state = state * 16807 % 2147483647
    local at = math.floor((k + state / 2147483647) * n / m)
    out[k] = list[math.min(at, n - 1)]
  end
  return m, out
end

local function rows_at(columns, list, n)
  local rows = {}
  for k = 0, n - 1 do rows[k + 1] = columns:row(list[k]) end
  return rows
end

-- Those that are as the best point is in all but two parameters of numbers: a map of them.
local function beside(self, said)
  local columns, first = self.columns, said.found and said.found.set[1]
  local free = {}
  for _, effect in ipairs(said.effects or {}) do
    local numbers = true
    for _, v in ipairs(columns.head.params[effect.name] or {}) do
      numbers = numbers and type(v) == 'number'
    end
    if numbers and #free < 2 then free[#free + 1] = effect.name end
  end
  if not first or #free < 2 then return nil end
  local fixed, words = {}, {}
  for name in pairs(columns.head.params) do
    if name ~= free[1] and name ~= free[2] then
      local codes, values = columns:codes(name)
      for code, v in ipairs(values) do
        if v == first.row[name] then fixed[#fixed + 1] = { codes = codes, code = code - 1 } end
      end
      if #values > 1 then words[name] = first.row[name] end
    end
  end
  local list, n = ffi.new('int32_t[?]', columns.n), 0
  for i = 0, columns.n - 1 do
    local same = true
    for k = 1, #fixed do
      if fixed[k].codes[i] ~= fixed[k].code then same = false break end
    end
    if same then list[n], n = i, n + 1 end
  end
  return list, n, space.label(words)
end

-- What is drawn by its place would be full of holes in a draw.
local PLACES = { map = true, slices = true, efficiency = true, uncertainty = true }

--- The rows of a picture and which they are, in words.
---@param kind string
---@param said table of ridge.report.answer
---@return table[] rows
---@return string words
function Packed:drawn(kind, said)
  local columns = self.columns
  local key = PLACES[kind] and 'places' or 'draw'
  if not self.kept[key] then
    local list, n, label
    if key == 'places' then list, n, label = beside(self, said) end
    if not list then
      list, n = ffi.new('int32_t[?]', columns.n), columns.n
      for i = 0, n - 1 do list[i] = i end
    end
    local m, kept = thinned(list, n, label and M.DRAWN or M.SAMPLE, 21)
    local words = ('%d of %s'):format(m, plain.count(columns.n, 'point'))
    if label and label ~= '' then words = ('%s: %s, as the best has'):format(words, label) end
    if m < n then words = words .. (label and ', of these' or ':') .. ' drawn at random' end
    self.kept[key] = { rows = rows_at(columns, kept, m), words = words }
  end
  return self.kept[key].rows, self.kept[key].words
end

-- -- Which ----------------------------------------------------------------------------------------

--- The points of a sweep.
---@param st table
---@param sweep table id, name
---@param wanted string|nil what is best, as of ridge.best's `for`
---@return table source n
function M.of(st, sweep, wanted)
  local columns = columns_of.of(st, sweep)
  if columns and columns.n > M.DRAWN then
    local source = setmetatable({ st = st, sweep = sweep, columns = columns, n = columns.n,
      kept = {} }, Packed)
    if not wanted then return source end
    local known, goal = pcall(best.goal, wanted, results.directions(st, sweep.id), columns, '')
    if known and front.answers(columns, goal.tree) then return source end
  end
  local rows = results.rows(st, sweep.id)
  return setmetatable({ rows = rows, n = #rows }, Rows)
end

return M
