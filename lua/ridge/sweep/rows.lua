-- SPDX-License-Identifier: MIT
--- Rows of a sweep as a value: a list that can be filtered, grouped, sorted and printed.
--
-- >> sw:results():where{ kind = 'linear', batch = { ge = 64 } }:group 'width'
-- >>   :agg{ t = 'median fwd', best = 'max fwd.gflops' }:sort '-best':head(10)
--
-- Each step makes a new list and leaves the old one alone; printing one shows its first rows.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local color = require 'ridge.plot.color'
local expression = require 'ridge.store.expression'
local format = require 'ridge.store.format'
local query = require 'ridge.store.query'
local unlike = require 'ridge.sweep.unlike'
local plain = require 'ridge.plain'
local terminal = require 'ridge.plot.terminal'
local showing = require 'ridge.show.value'

local M = {}

local SHOWN = 20

local Rows = {}
Rows.__index = Rows

-- What only says how a row came about stands behind the rest.
local LAST = { trial = 1, state = 2, grade = 3, flags = 4, reason = 5 }
local HIDDEN = { role = true, rep = true, tries = true, began = true, implied_by = true }

--- Make a list of rows a value.
---@param list table rows
---@param columns table|nil names, in the order in which they are printed
---@param times table<string, boolean>|nil which of them are times; found out by their names else
---@return table rows
function M.new(list, columns, times)
  local rows = setmetatable({}, Rows)
  for i, row in ipairs(list) do rows[i] = row end
  rawset(rows, 'columns', columns)
  rawset(rows, 'times', times)
  return rows
end

--- Are these rows of a sweep?
---@param value any
---@return boolean
function M.is(value) return getmetatable(value) == Rows end

local function names_of(rows)
  local seen, names = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row) do
      if not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names, function(a, b)
    local x, y = LAST[a] or 0, LAST[b] or 0
    if x ~= y then return x < y end
    return a < b
  end)
  return names
end

-- Which columns are times, in ns: as in tables of the shell.
local function times_of(rows)
  if rows.times then return rows.times end
  local names, known, times = names_of(rows), {}, {}
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(names) do times[name] = query.is_time(name, known) or nil end
  return times
end

local function need(rows, name, what)
  name = name:gsub('%.', '_')
  for _, row in ipairs(rows) do
    if row[name] ~= nil then return name end
  end
  if #rows == 0 then return name end
  local names = names_of(rows)
  local near = blame.near(name, names)
  blame.raise(('%s: no row has %s%s; there are %s'):format(what, name,
    near and (" (did you mean '%s'?)"):format(near) or '', table.concat(names, ', ')), 'EARG', what)
end

-- Filters ------------------------------------------------------------------------------------

local COMPARE = {
  eq = function(a, b) return a == b end, ne = function(a, b) return a ~= b end,
  lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
  gt = function(a, b) return a > b end, ge = function(a, b) return a >= b end,
}

-- Which of Lua's types a column has.
local function types_of(rows, name)
  local seen = {}
  for _, row in ipairs(rows) do
    if row[name] ~= nil then seen[type(row[name])] = true end
  end
  return seen
end

-- A condition that no row can fulfil, because all have text where it has a number or the like.
local function check_wanted(rows, name, wanted)
  local seen, values = types_of(rows, name), type(wanted) == 'table' and wanted or { wanted }
  if next(seen) == nil then return end
  for _, value in pairs(values) do
    if not seen[type(value)] then
      blame.raise(('where: %s is a %s, and %s a %s: they cannot be compared'):format(name,
        (next(seen)), blame.show(value), type(value)), 'EARG', 'where')
    end
  end
end

local function fits(value, wanted)
  if type(wanted) ~= 'table' then return value == wanted end
  if wanted[1] ~= nil then -- one of several
    for _, each in ipairs(wanted) do if value == each then return true end end
    return false
  end
  for how, limit in pairs(wanted) do
    local compare = COMPARE[how]
    if not compare then
      blame.raise(("where: '%s' is none of eq, ne, lt, le, gt, ge"):format(tostring(how)), 'EARG',
        'where')
    end
    if type(value) ~= type(limit) or not compare(value, limit) then return false end
  end
  return true
end

--- The rows for which a condition holds.
-- >> rows:where 'batch >= 64 and kind = "linear"'
---@param condition table|string|function column to a value, to a list of values, or to
---  { ge = 64, lt = 512 }; a text in the language of filters; or a function of a row
---@return table rows
function Rows:where(condition)
  local holds = condition
  if type(condition) == 'string' then
    local tree = expression.parse(condition)
    local kinds = {}
    expression.names(tree, function(name)
      need(self, name, 'where')
      kinds[name] = expression.kind(types_of(self, name))
    end)
    expression.check_kinds(tree, kinds, true)
    holds = function(row) return expression.holds(tree, row) end
  elseif type(condition) == 'table' then
    for name, wanted in pairs(condition) do
      check_wanted(self, need(self, name, 'where'), wanted)
    end
    holds = function(row)
      for name, wanted in pairs(condition) do
        if not fits(row[name:gsub('%.', '_')], wanted) then return false end
      end
      return true
    end
  elseif type(condition) ~= 'function' then
    blame.raise(('where: a table, a text or a function is expected, got %s'):format(
      blame.show(condition)), 'EARG', 'where')
  end
  local out = {}
  for _, row in ipairs(self) do if holds(row) then out[#out + 1] = row end end
  return M.new(out, self.columns, self.times)
end

--- Sorted by a column; the largest first with a minus in front. What has no value comes last.
---@param column string 'fwd', '-fwd.gflops'
---@return table rows
function Rows:sort(column)
  local down = column:sub(1, 1) == '-'
  local name = need(self, down and column:sub(2) or column, 'sort')
  local place, out = {}, {}
  for i, row in ipairs(self) do place[row], out[i] = i, row end
  table.sort(out, function(a, b)
    local x, y = a[name], b[name]
    if x == nil or y == nil then
      if (x == nil) ~= (y == nil) then return y == nil end
      return place[a] < place[b]
    end
    if type(x) ~= type(y) then x, y = tostring(x), tostring(y) end
    if x ~= y then
      if type(x) == 'boolean' then x, y = tostring(x), tostring(y) end
      if down then return x > y end
      return x < y
    end
    return place[a] < place[b]
  end)
  return M.new(out, self.columns, self.times)
end

--- The first rows.
---@param n integer|nil 10 when left out
---@return table rows
function Rows:head(n)
  n = math.min(options.count(n, 'rows:head', 'how many') or 10, #self)
  local out = {}
  for i = 1, n do out[i] = self[i] end
  return M.new(out, self.columns, self.times)
end

-- Groups -------------------------------------------------------------------------------------

local Groups = {}
Groups.__index = Groups

--- Rows that agree in some columns belong together; `agg` says what becomes of them.
---@param ... string columns
---@return table groups
function Rows:group(...)
  local names = { ... }
  for i, name in ipairs(names) do names[i] = need(self, name, 'group') end
  return setmetatable({ rows = self, by = names }, Groups)
end

local function numbers_of(rows, name)
  local out = {}
  for _, row in ipairs(rows) do
    local v = row[name]
    if type(v) == 'number' and v == v then out[#out + 1] = v end
  end
  return out
end

--- One row a group. A number of rows of unlike machines is refused; how many they are is none.
-- >> rows:group 'width':agg{ t = 'median fwd', n = 'count fwd' }
---@param wanted table name to an aggregate and a column: 'median fwd', 'max fwd.gflops'
---@return table rows
function Groups:agg(wanted)
  local order, by_key, titles = {}, {}, {}
  for _, row in ipairs(self.rows) do
    local key = {}
    for i, name in ipairs(self.by) do key[i] = tostring(row[name]) end
    key = table.concat(key, '\0')
    if not by_key[key] then
      by_key[key] = { rows = {}, first = row }
      order[#order + 1] = by_key[key]
    end
    table.insert(by_key[key].rows, row)
  end
  for name in pairs(wanted) do titles[#titles + 1] = name end
  table.sort(titles)
  local out, columns, times = {}, { unpack(self.by) }, {}
  local known = times_of(self.rows)
  for _, name in ipairs(self.by) do times[name] = known[name] end
  for _, title in ipairs(titles) do columns[#columns + 1] = title end
  for i, group in ipairs(order) do
    out[i] = {}
    for _, name in ipairs(self.by) do out[i][name] = group.first[name] end
    for _, title in ipairs(titles) do
      local how, name = tostring(wanted[title]):match '^%s*(%S+)%s+(%S+)%s*$'
      if not how then
        blame.raise(("agg: '%s' is not like 'median fwd'"):format(tostring(wanted[title])), 'EARG',
          'agg')
      end
      name = need(self.rows, name, 'agg')
      times[title] = how ~= 'count' and known[name] or nil
      if how ~= 'count' then unlike.check(group.rows, 'agg', unlike.GROUP) end
      out[i][title] = query.aggregate(how, numbers_of(group.rows, name))
    end
  end
  return M.new(out, columns, times)
end

--- The aggregates of all rows, as one row.
---@param wanted table as of groups
---@return table rows
function Rows:agg(wanted) return self:group():agg(wanted) end

-- Printing -----------------------------------------------------------------------------------

-- What is kept of a phase beside its median and interval, in names of more than one part.
local SMALL = { '_by_pass$', '_cold_%w+$', '_quiet_%w+$', '_ratio_%w+$', '_left_out$',
  '_between_minutes$' }

local function is_small(name, row)
  for _, pattern in ipairs(SMALL) do
    local at = name:find(pattern)
    if at and row and row[name:sub(1, at - 1)] ~= nil then return true end
  end
  return false
end

local function found_of(rows, n)
  local titles, lines = rows.columns or names_of(rows), {}
  local kept, units, times = {}, {}, times_of(rows)
  for _, name in ipairs(titles) do
    local is_detail = not rows.columns and (HIDDEN[name] or is_small(name, rows[1])
      or name:find '_%w+$' and rows[1] and rows[1][name:match '^(.*)_%w+$'] ~= nil
        and not name:find '_gflops$' and not name:find '_l[o]$' and not name:find '_hi$')
    if not is_detail then kept[#kept + 1] = name end
  end
  for i = 1, math.min(n, #rows) do
    lines[i] = {}
    for k, name in ipairs(kept) do lines[i][k] = rows[i][name] end
  end
  for k, name in ipairs(kept) do units[k] = times[name] and 'ns' or nil end
  return { titles = kept, units = units, lines = lines }
end

local function box(rows)
  if #rows == 0 then return 'no rows' end
  local text = format.text(found_of(rows, SHOWN), 'table'):gsub('\n$', '')
  if #rows > SHOWN then text = ('%s\n... %d rows more'):format(text, #rows - SHOWN) end
  return text
end

showing.ways(Rows, { line = function(rows) return plain.count(#rows, 'row') end, box = box,
  lines = SHOWN + 2 })

local function distinct(rows, name)
  local seen, out = {}, {}
  for _, row in ipairs(rows) do
    local v = row[name]
    if v ~= nil and not seen[v] then seen[v], out[#out + 1] = true, v end
  end
  table.sort(out, function(a, b)
    if type(a) ~= type(b) or type(a) == 'boolean' then return tostring(a) < tostring(b) end
    return a < b
  end)
  return out
end

local Pivot = {}
Pivot.__index = Pivot

local PIVOT = {
  rows = { 'string', required = true, doc = 'the column whose values go down' },
  cols = { 'string', required = true, doc = 'the column whose values go across' },
  cell = { 'string', required = true, doc = 'the column in the cells' },
  agg = { 'string', default = 'median', doc = 'what becomes of several rows in a cell' },
}

--- Two columns against each other, a third in the cells.
-- >> print(sw:results():pivot{ rows = 'width', cols = 'batch', cell = 'fwd.gflops' })
---@param opt table rows, cols, cell; agg: what becomes of several rows in a cell ('median')
---@return table pivot rows and cols (values), cells[i][j]; prints as a coloured table
function Rows:pivot(opt)
  opt = options.check(PIVOT, opt, 'pivot')
  local down, across = need(self, opt.rows, 'pivot'), need(self, opt.cols, 'pivot')
  local cell = need(self, opt.cell, 'pivot')
  if not (unlike.named(down) or unlike.named(across)) then
    unlike.check(self, 'pivot', unlike.GROUP)
  end
  local pivot = setmetatable({ rows = distinct(self, down), cols = distinct(self, across),
    down = down, across = across, cell = cell, cells = {} }, Pivot)
  for i, a in ipairs(pivot.rows) do
    pivot.cells[i] = {}
    for j, b in ipairs(pivot.cols) do
      local list = numbers_of(self:where { [down] = a, [across] = b }, cell)
      pivot.cells[i][j] = query.aggregate(opt.agg, list)
    end
  end
  return pivot
end

--- The table as text.
---@param depth string|nil colours: 'true', '256' or 'none' (ridge.plot.terminal.depth)
---@return string text
function Pivot:text(depth)
  local least, most = math.huge, -math.huge
  for _, line in ipairs(self.cells) do
    for j = 1, #self.cols do
      if line[j] and line[j] > 0 then
        least, most = math.min(least, line[j]), math.max(most, line[j])
      end
    end
  end
  local out = { ('%10s'):format(self.down) }
  for _, v in ipairs(self.cols) do out[#out + 1] = (' %9s'):format(tostring(v)) end
  local lines = { table.concat(out) .. '  ' .. self.across }
  for i, v in ipairs(self.rows) do
    local parts = { ('%10s'):format(tostring(v)) }
    for j = 1, #self.cols do
      local x = self.cells[i][j]
      local text = (' %9s'):format(x and ('%.4g'):format(x) or '-')
      local at = x and x > 0 and most > least and math.log(x / least) / math.log(most / least)
      parts[#parts + 1] = at and terminal.tint(text, color.magnitude(at, 'dark'), depth or 'none')
        or text
    end
    lines[#lines + 1] = table.concat(parts)
  end
  return table.concat(lines, '\n')
end

function Pivot:__tostring()
  local host = package.loaded['ridge.host']
  return self:text(terminal.depth(host ~= nil and host.is_terminal(1)))
end
Pivot.__tostring = guard.text(Pivot.__tostring)

guard.all(Rows)
guard.all(Groups)
guard.all(Pivot)

return M
