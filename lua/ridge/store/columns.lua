-- SPDX-License-Identifier: MIT
--- The points of a packed sweep as columns: numbers and codes by FFI, rows only of those that are
--- shown.

local expression = require 'ridge.store.expression'
local ffi = require 'ffi'
local pack = require 'ridge.store.pack'

local M = {}

local NAN = 0 / 0

local Columns = {}
Columns.__index = Columns

local function set_of(list)
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

--- The columns of a sweep; nil where it has no pack that is as its rows are.
---@param st table
---@param sweep table id
---@return table|nil columns n, head, any, finite (sets of names)
function M.of(st, sweep)
  local head = pack.head(st, sweep.id)
  if not head then return nil end
  return setmetatable({ st = st, sweep = sweep, head = head, n = head.n, any = set_of(head.any),
    finite = set_of(head.finite), kept = {} }, Columns)
end

-- Doubles as they are stored; of all the bits that are no number, one: others would be read as
-- something else than a number.
local function doubles(bytes, n)
  local data = ffi.new('double[?]', math.max(1, n))
  ffi.copy(data, bytes, 8 * n)
  local word = ffi.cast('uint32_t *', data)
  for i = 0, n - 1 do
    local high = word[2 * i + 1]
    if high % 0x80000000 >= 0x7ff00000 and (high % 0x100000 ~= 0 or word[2 * i] ~= 0) then
      data[i] = NAN
    end
  end
  return data
end

--- A stored column of numbers; nan: absent.
---@param name string
---@return ffi.cdata*|nil data double[n]; nil where the pack has none of that name
function Columns:stored(name)
  if self.kept[name] == nil then
    local bytes = pack.column(self.st, self.sweep.id, name, 8, self.n)
    self.kept[name] = bytes and doubles(bytes, self.n) or false
  end
  return self.kept[name] or nil
end

local WORDS = { state = true, grade = true, flags = true }

--- A column of few values: its codes from 0 on, -1 for what is absent, and the values.
---@param name string a parameter, state, grade or flags
---@return ffi.cdata*|nil codes int32_t[n]
---@return table|nil values
function Columns:codes(name)
  local values = WORDS[name] and self.head[name] or self.head.params[name]
  if not values then return nil end
  local key = 'c ' .. name
  if not self.kept[key] then
    local bytes = pack.column(self.st, self.sweep.id, name, 4, self.n)
    if not bytes then return nil end
    local codes = ffi.new('int32_t[?]', math.max(1, self.n))
    ffi.copy(codes, bytes, 4 * self.n)
    for i = 0, self.n - 1 do
      if codes[i] < -1 or codes[i] >= #values then codes[i] = -1 end
    end
    self.kept[key] = codes
  end
  return self.kept[key], values
end

--- Is a column here, so that nothing else has to be read for it?
---@param name string
---@return boolean
function Columns:has(name)
  local metric = self.head.metrics[name]
  if metric then return not metric.nan end -- a row tells nan from what is absent
  if name == 'trial' or WORDS[name] or self.head.params[name] then return true end
  local phase = name:gsub('_lo$', ''):gsub('_hi$', ''):gsub('_between_minutes$', '')
  return self.head.phases[name] ~= nil or self.head.phases[phase] ~= nil
end

--- A column as numbers: nan where a value is absent or no number.
---@param name string
---@return ffi.cdata*|nil data nil where it holds something else than numbers, too
function Columns:numbers(name)
  local key = 'n ' .. name
  if self.kept[key] then return self.kept[key] end
  local codes, values = self:codes(name)
  if not codes then return self:stored(name) end
  local value = ffi.new('double[?]', math.max(1, #values))
  for i, v in ipairs(values) do
    if type(v) ~= 'number' then return nil end
    value[i - 1] = v
  end
  local data = ffi.new('double[?]', math.max(1, self.n))
  for i = 0, self.n - 1 do
    local code = codes[i]
    data[i] = code >= 0 and value[code] or NAN
  end
  self.kept[key] = data
  return data
end

--- One value.
---@param name string
---@param i integer from 0 on
---@return any value nil: absent
function Columns:value(name, i)
  local codes, values = self:codes(name)
  if codes then return values[codes[i] + 1] end
  local data = self:stored(name)
  if not data then return nil end
  local v = data[i]
  if v == v then return v end
  return nil
end

--- One point as a row: trial, state, grade, flags, parameters, phases with intervals, metrics.
---@param i integer from 0 on
---@return table row
function Columns:row(i)
  local row = { trial = self:value('trial', i), role = 'point' }
  for name in pairs(WORDS) do row[name] = self:value(name, i) end
  for name in pairs(self.head.params) do row[name] = self:value(name, i) end
  for name in pairs(self.head.phases) do
    for _, end_of in ipairs { '', '_lo', '_hi', '_between_minutes' } do
      row[name .. end_of] = self:value(name .. end_of, i)
    end
  end
  for name, metric in pairs(self.head.metrics) do
    row[name] = self:value(name, i)
    if metric.nan and row[name] == nil and row.state == 'ok' then row[name] = NAN end
  end
  return row
end

-- -- Expressions ----------------------------------------------------------------------------------

-- A tree as Lua over the columns, where it says the same as ridge.store.expression does row by row:
-- numbers, of which nan is what is absent, and conditions of comparisons. nil for all else.

local COMPARE = { ['<'] = '<', ['<='] = '<=', ['>'] = '>', ['>='] = '>=', ['='] = '==' }
local SUM = { ['+'] = true, ['-'] = true, ['*'] = true, ['/'] = true }

local number, condition

local function named(self, tree, from, given)
  local data = given[tree.name] or self:numbers(tree.name)
  if not data then return nil end
  for k, known in ipairs(from) do
    if known == data then return ('c%d[i]'):format(k) end
  end
  from[#from + 1] = data
  return ('c%d[i]'):format(#from)
end

function number(self, tree, from, given)
  if tree.kind == 'value' then
    if type(tree.value) ~= 'number' or tree.value ~= tree.value then return nil end
    local v = tree.value
    if v == math.huge or v == -math.huge then return nil end
    return ('(%.17g)'):format(v)
  elseif tree.kind == 'name' then
    return named(self, tree, from, given)
  elseif tree.kind == 'unary' and tree.op == '-' then
    local a = number(self, tree[1], from, given)
    return a and ('(-%s)'):format(a)
  elseif tree.kind == 'binary' and SUM[tree.op] then
    local a, b = number(self, tree[1], from, given), number(self, tree[2], from, given)
    return a and b and ('(%s %s %s)'):format(a, tree.op, b)
  end
  return nil
end

-- A word held against a column of words: which codes are it.
local function word(self, name, value, from)
  local codes, values = self:codes(name)
  if not codes then return nil end
  for _, v in ipairs(values) do
    if type(v) ~= 'string' then return nil end
  end
  from[#from + 1] = codes
  local at = -2 -- no code
  for i, v in ipairs(values) do
    if v == value then at = i - 1 end
  end
  return ('c%d[i]'):format(#from), at
end

function condition(self, tree, from, given)
  if tree.kind ~= 'binary' and not (tree.kind == 'unary' and tree.op == 'not') then return nil end
  if tree.kind == 'unary' then
    local a = condition(self, tree[1], from, given)
    return a and ('(not %s)'):format(a)
  elseif tree.op == 'and' or tree.op == 'or' then
    local a, b = condition(self, tree[1], from, given), condition(self, tree[2], from, given)
    return a and b and ('(%s %s %s)'):format(a, tree.op, b)
  end
  local left, right = tree[1], tree[2]
  if left.kind == 'value' and type(left.value) == 'string' then left, right = right, left end
  if left.kind == 'name' and right.kind == 'value' and type(right.value) == 'string' then
    if tree.op ~= '=' and tree.op ~= '~=' then return nil end
    local codes, at = word(self, left.name, right.value, from)
    if not codes then return nil end
    if tree.op == '=' then return ('(%s == %d)'):format(codes, at) end
    return ('(%s >= 0 and %s ~= %d)'):format(codes, codes, at)
  end
  if not COMPARE[tree.op] then return nil end
  local a, b = number(self, left, from, given), number(self, right, from, given)
  return a and b and ('(%s %s %s)'):format(a, COMPARE[tree.op], b)
end

local function compiled(text, from, body)
  local names = {}
  for k = 1, #from do names[k] = 'c' .. k end
  local source = ('local out, n%s = ...\nfor i = 0, n - 1 do %s end'):format(
    #names > 0 and ', ' .. table.concat(names, ', ') or '', body:format(text))
  return loadstring(source, '=columns')
end

local MOST = 40 -- columns of one expression, and levels of its tree: beyond, row by row

local function is_small(tree, depth)
  if depth > MOST then return false end
  for _, child in ipairs(tree) do
    if not is_small(child, depth + 1) then return false end
  end
  return true
end

-- Row by row, in one table that is filled again.
local function slowly(self, tree, given, set)
  local names, seen = {}, {}
  expression.names(tree, function(name)
    if not seen[name] then seen[name], names[#names + 1] = true, name end
  end)
  local row = {}
  for i = 0, self.n - 1 do
    for _, name in ipairs(names) do
      local other = given[name]
      if other then
        row[name] = other[i] == other[i] and other[i] or nil
      else
        row[name] = self:value(name, i)
      end
    end
    set(i, row)
  end
end

--- Does a pack have every column of an expression?
---@param tree table
---@return boolean
function Columns:knows(tree)
  local all = true
  expression.names(tree, function(name) all = all and self:has(name) and self.any[name] == true end)
  return all
end

--- The values of an expression: finite numbers, nan where it has none.
---@param tree table
---@param given table|nil doubles by name that stand for a column
---@return ffi.cdata* data double[n]
function Columns:evaluate(tree, given)
  given = given or {}
  local out, from = ffi.new('double[?]', math.max(1, self.n)), {}
  local text = is_small(tree, 1) and number(self, tree, from, given)
  if text and #from <= MOST then
    compiled(text, from, 'local v = %s; out[i] = v - v == 0 and v or 0 / 0')(out, self.n,
      unpack(from))
  else
    slowly(self, tree, given, function(i, row)
      local v = expression.evaluate(tree, row)
      out[i] = type(v) == 'number' and v - v == 0 and v or NAN
    end)
  end
  return out
end

--- Which points fulfil a condition.
---@param tree table
---@return ffi.cdata* mask uint8_t[n]
function Columns:holds(tree)
  local out, from = ffi.new('uint8_t[?]', math.max(1, self.n)), {}
  local text = is_small(tree, 1) and condition(self, tree, from, {})
  if text and #from <= MOST then
    compiled(text, from, 'out[i] = %s and 1 or 0')(out, self.n, unpack(from))
  else
    slowly(self, tree, {}, function(i, row) out[i] = expression.holds(tree, row) and 1 or 0 end)
  end
  return out
end

-- -- Order ----------------------------------------------------------------------------------------

--- Numbers of points by their values, rising or falling; those of one value in their own order.
---@param data ffi.cdata* double[], no nan among those that are named
---@param list ffi.cdata* int32_t[n]: the points, changed
---@param n integer
---@param falling boolean
---@return ffi.cdata* list
function M.sort(data, list, n, falling)
  local other = ffi.new('int32_t[?]', math.max(1, n))
  local words = ffi.cast('uint32_t *', data)
  local counts = ffi.new 'int32_t[65537]'
  local bit = require 'bit'
  local flip = falling and 0xffff or 0
  for pass = 0, 3 do -- sixteen bits each, the lowest first
    local half, shift = pass >= 2 and 1 or 0, pass % 2 * 16
    ffi.fill(counts, ffi.sizeof(counts))
    local function key(i)
      local negative = bit.arshift(bit.tobit(words[2 * i + 1]), 31) -- all ones below zero
      local w = bit.tobit(words[2 * i + half])
      w = bit.bxor(w, half == 1 and bit.bor(negative, bit.tobit(0x80000000)) or negative)
      return bit.bxor(bit.band(bit.rshift(w, shift), 0xffff), flip)
    end
    for k = 0, n - 1 do
      local at = key(list[k]) + 1
      counts[at] = counts[at] + 1
    end
    for k = 1, 65536 do counts[k] = counts[k] + counts[k - 1] end
    for k = 0, n - 1 do
      local at = key(list[k])
      other[counts[at]] = list[k]
      counts[at] = counts[at] + 1
    end
    list, other = other, list
  end
  return list
end

return M
