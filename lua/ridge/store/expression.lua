-- SPDX-License-Identifier: MIT
--- The little language of filters and columns: `batch*width <= 2^20 and kind = 'linear'`.
--
-- Names, numbers (1.5ms is a time), strings in single or double quotes, comparisons (= == <> !=
-- ~= < <= > >=), and, or, not, + - * / ^, brackets, and the functions min, max, log2, abs. Nothing
-- else: there are no calls of anything, so a filter typed on the command line can never be SQL or
-- Lua. It is parsed once, and then either becomes SQL with bound values or is evaluated over a Lua
-- table.

local blame = require 'ridge.blame'
local near = require 'ridge.near'

local M = {}

-- Functions of a row, with the least and the largest number of their arguments.
local FUNCTIONS = { min = { 2, math.huge }, max = { 2, math.huge }, log2 = { 1, 1 },
  abs = { 1, 1 } }

-- -- Words -----------------------------------------------------------

local OPERATORS = { '==', '~=', '!=', '<>', '<=', '>=', '=', '<', '>', '+', '-', '*', '/', '^',
  '(', ')', ',' }
local SAME = { ['=='] = '=', ['!='] = '~=', ['<>'] = '~=' }
-- Times are in nanoseconds; a number right before one of these is one: fwd < 1ms.
local NANOSECONDS = { ns = 1, us = 1e3, ms = 1e6, s = 1e9 }
local MICRO = { ['\194\181s'] = true, ['\206\188s'] = true } -- the sign, and the Greek letter
local WORDS = { ['and'] = true, ['or'] = true, ['not'] = true }

local function fail(text, at, message)
  -- behind a list the place needs a stop before it
  blame.raise(("%s%s at character %d of '%s'"):format(message, message:find(';', 1, true) and ','
    or '', at, text), 'EARG')
end

local function operator_at(text, at)
  for _, op in ipairs(OPERATORS) do
    if text:sub(at, at + #op - 1) == op then return op end
  end
end

local function tokens_of(text)
  local tokens, at = {}, 1
  local function add(kind, value, length)
    tokens[#tokens + 1] = { kind = kind, value = value, at = at }
    at = at + length
  end
  while at <= #text do
    local space = text:match('^%s+', at)
    local number = text:match('^%d+%.?%d*[eE][+-]?%d+', at) or text:match('^%d+%.?%d*', at)
      or text:match('^%.%d+', at)
    local name = text:match('^[%a_][%w_]*', at)
    local quote = text:match('^[\'"]', at)
    if space then
      at = at + #space
    elseif number then
      local suffix = text:match('^%a+%f[^%w_]', at + #number)
      local unit = NANOSECONDS[suffix]
      add('number', tonumber(number) * (unit or 1), #number + (unit and #suffix or 0))
    elseif name then
      -- fwd.gflops is fwd_gflops
      local field = text:match('^%.[%a_][%w_]*', at + #name) or ''
      local whole = name .. field:gsub('%.', '_')
      add(WORDS[name:lower()] and name:lower() or 'name', whole, #name + #field)
    elseif quote then
      local stop = text:find(quote, at + 1, true)
      if not stop then fail(text, at, 'a string is not closed') end
      add('string', text:sub(at + 1, stop - 1), stop - at + 1)
    else
      local op = operator_at(text, at)
      if not op then -- a letter of several bytes is said whole
        local letter = text:match('^[\194-\244][\128-\191]+', at) or text:sub(at, at)
        fail(text, at, ("'%s' is not understood%s"):format(letter,
          MICRO[text:sub(at, at + 2)] and '; microseconds are us' or ''))
      end
      add(SAME[op] or op, op, #op)
    end
  end
  tokens[#tokens + 1] = { kind = 'end', value = 'the end', at = #text + 1 }
  return tokens
end

-- -- Parsing -----------------------------------------------------------

-- Binding powers, as in Lua; comparisons do not chain.
local POWER = { ['or'] = 1, ['and'] = 2, ['='] = 4, ['~='] = 4, ['<'] = 4, ['<='] = 4, ['>'] = 4,
  ['>='] = 4, ['+'] = 5, ['-'] = 5, ['*'] = 6, ['/'] = 6, ['^'] = 8 }
local UNARY = { ['not'] = 3, ['-'] = 7 }
local DEEPEST, LONGEST = 100, 5000 -- brackets inside one another; operations in a row

local function parser(text)
  local p = { text = text, tokens = tokens_of(text), i = 1, depth = 0 }

  function p:peek() return self.tokens[self.i] end

  function p:take(kind)
    local token = self:peek()
    if kind and token.kind ~= kind then
      fail(text, token.at, ("'%s' is expected instead of %s"):format(kind,
        token.kind == 'end' and 'the end' or ("'%s'"):format(token.value)))
    end
    self.i = self.i + 1
    return token
  end

  return p
end

local expression

local function call(p, name)
  if not FUNCTIONS[name.value] and not p.aggregates[name.value] then
    local known = {}
    for f in pairs(FUNCTIONS) do known[#known + 1] = f end
    for f in pairs(p.aggregates) do known[#known + 1] = not FUNCTIONS[f] and f or nil end
    table.sort(known)
    fail(p.text, name.at, ("there is no function %s%s; known: %s"):format(name.value,
      near.hint(name.value, known), table.concat(known, ', ')))
  end
  p:take '('
  local arguments = {}
  if p:peek().kind ~= ')' then
    repeat arguments[#arguments + 1] = expression(p, 0) until p:peek().kind ~= ',' or not p:take ','
  end
  p:take ')'
  local n, range = #arguments, FUNCTIONS[name.value]
  if not (range and n >= range[1] and n <= range[2] or p.aggregates[name.value] and n <= 1) then
    fail(p.text, name.at, ('%s takes %s, not %d'):format(name.value,
      range and range[2] > 1 and 'two values or more' or 'one value', n))
  end
  return { kind = 'call', name = name.value, at = name.at, unpack(arguments) }
end

local function primary(p)
  local token = p:take()
  if token.kind == 'number' or token.kind == 'string' then
    return { kind = 'value', value = token.value }
  elseif token.kind == 'name' then
    local lower = token.value:lower()
    if lower == 'true' or lower == 'false' then
      return { kind = 'value', value = lower == 'true' }
    end
    if p:peek().kind == '(' then return call(p, token) end
    return { kind = 'name', name = token.value, at = token.at }
  elseif token.kind == '(' then
    local inner = expression(p, 0)
    p:take ')'
    return inner
  elseif UNARY[token.kind] then
    return { kind = 'unary', op = token.kind, expression(p, UNARY[token.kind]) }
  end
  fail(p.text, token.at, ('a name, a number or a string is expected instead of %s'):format(
    token.kind == 'end' and 'the end' or ("'%s'"):format(token.value)))
end

function expression(p, least)
  p.depth = p.depth + 1
  if p.depth > DEEPEST then fail(p.text, p:peek().at, 'too many brackets inside one another') end
  local left = primary(p)
  while true do
    local op = p:peek().kind
    local power = POWER[op]
    if not power or power <= least then break end
    p:take()
    -- a power binds to its right: 2^3^2 is 2^9
    local right = expression(p, op == '^' and power - 1 or power)
    local length = math.max(left.length or 0, right.length or 0) + 1
    if length > LONGEST then
      fail(p.text, p:peek().at, ('more than %d operations in a row'):format(LONGEST))
    end
    left = { kind = 'binary', op = op, length = length, left, right }
  end
  p.depth = p.depth - 1
  return left
end

--- Parse an expression.
---@param text string
---@param aggregates table|nil set of further function names: median, count ...
---@return table tree for `sql`, `evaluate` and `names`
-- Raises EARG with the place of what is not understood.
-- >> expression.parse "batch >= 64 and kind = 'linear'"
function M.parse(text, aggregates)
  if type(text) ~= 'string' then
    blame.raise(('an expression is a text, got %s'):format(type(text)), 'EARG')
  end
  local p = parser(text)
  p.aggregates = aggregates or {}
  local tree = expression(p, 0)
  local rest, before = p:peek(), p.tokens[p.i - 1]
  if rest.kind ~= 'end' then
    local is_unit = rest.kind == 'name' and before and before.kind == 'number'
    fail(text, rest.at, ("'%s' is too much%s"):format(rest.value, is_unit
      and '; units of time stand right behind a number: 1ns, 1us, 1ms, 1s' or ''))
  end
  tree.text = text
  return tree
end

--- Call f with each name of a tree and its node.
---@param tree table
---@param f function
function M.names(tree, f)
  if tree.kind == 'name' then f(tree.name, tree) end
  for _, child in ipairs(tree) do M.names(child, f) end
end

--- Raise where an aggregate is part of a tree: it is of a group, and stands alone.
---@param tree table
---@param text string what was parsed
function M.check_rows(tree, text)
  local range = tree.kind == 'call' and FUNCTIONS[tree.name]
  if tree.kind == 'call' and not (range and #tree >= range[1]) then
    fail(text, tree.at, tree.name .. ' is of a group and cannot be part of something else')
  end
  for _, child in ipairs(tree) do M.check_rows(child, text) end
end

--- Raise unless every name of a tree is known.
---@param tree table
---@param known table set of names
---@param what string for the error: 'the sweep widths'
function M.check(tree, known, what)
  M.names(tree, function(name)
    if not known[name] then
      local list = {}
      for each in pairs(known) do list[#list + 1] = each end
      table.sort(list)
      blame.raise(('%s has no %s%s'):format(what, name, near.hint(name, list)), 'EARG')
    end
  end)
end

-- -- Kinds -----------------------------------------------------------

-- Text beside a number is a slip of the fingers: `dtype > 3` holds nowhere in Lua and everywhere in
-- SQL. true and false are numbers, as they are where they are stored.

local COMPARES = { ['='] = true, ['~='] = true, ['<'] = true, ['<='] = true, ['>'] = true,
  ['>='] = true }

local function said(tree, kind)
  if tree.kind == 'name' then return ('%s is %s'):format(tree.name, kind) end
  if type(tree.value) == 'string' then
    local bare = tonumber(tree.value) and '; a number stands without quotes' or ''
    return ("'%s' is text%s"):format(tree.value, bare)
  end
  if tree.kind == 'value' then return ('%s is %s'):format(tostring(tree.value), kind) end
  return ('the other side is %s'):format(kind)
end

local function kind_of(tree, kinds)
  if tree.kind == 'value' then return type(tree.value) == 'string' and 'text' or 'a number' end
  if tree.kind == 'name' then return kinds[tree.name] end
  local list = {}
  for i, child in ipairs(tree) do list[i] = kind_of(child, kinds) or 'unknown' end
  if tree.kind == 'binary' and COMPARES[tree.op] then
    local a, b = list[1], list[2]
    if a ~= 'unknown' and b ~= 'unknown' and a ~= b then
      blame.raise(('%s and %s: they cannot be compared'):format(said(tree[1], a),
        said(tree[2], b)), 'EARG')
    end
    return 'a number'
  end
  for i, child in ipairs(tree) do
    if list[i] == 'text' then
      blame.raise(("%s, and '%s' is of numbers"):format(said(child, 'text'),
        tree.op or tree.name), 'EARG')
    end
  end
  return 'a number'
end

--- Raise where an expression takes text for a number or a number for text.
---@param tree table
---@param kinds table name to 'text' or 'a number'; what is of both or of none is absent
---@param is_condition boolean|nil the whole is to be true or false
function M.check_kinds(tree, kinds, is_condition)
  if kind_of(tree, kinds) == 'text' and is_condition then
    blame.raise(('%s, and no condition'):format(said(tree, 'text')), 'EARG')
  end
end

--- The kind of a column from the values it has; nil where they are of both or none.
---@param seen table|nil set of Lua's types
---@return string|nil
function M.kind(seen)
  local number = seen and (seen.number or seen.boolean)
  if seen and seen.string and not number then return 'text' end
  return number and not seen.string and 'a number' or nil
end

-- -- SQL -----------------------------------------------------------

local SQL = { ['~='] = '<>', ['and'] = 'AND', ['or'] = 'OR' }

local sql

-- A chain of `and` or of `or`, in brackets by halves: the parser of SQLite takes 100 of them inside
-- each other.
local function chain(tree, values)
  local links, at = {}, tree
  while at.kind == 'binary' and at.op == tree.op do
    links[#links + 1] = at[2]
    at = at[1]
  end
  links[#links + 1] = at
  local parts = {}
  for i = #links, 1, -1 do parts[#parts + 1] = sql(links[i], values) end
  local function halves(first, last)
    if first == last then return parts[first] end
    local middle = first + math.floor((last - first) / 2)
    return ('(%s %s %s)'):format(halves(first, middle), SQL[tree.op], halves(middle + 1, last))
  end
  return halves(1, #parts)
end

function sql(tree, values)
  if tree.kind == 'value' then
    values[#values + 1] = tree.value
    return '?'
  elseif tree.kind == 'name' then
    return '"' .. tree.name .. '"' -- letters, digits and _ only
  elseif tree.kind == 'unary' then
    return ('(%s %s)'):format(tree.op == 'not' and 'NOT' or '-', sql(tree[1], values))
  elseif tree.kind == 'binary' then
    if tree.op == 'and' or tree.op == 'or' then return chain(tree, values) end
    local a, b = sql(tree[1], values), sql(tree[2], values)
    if tree.op == '^' then return ('power(%s, %s)'):format(a, b) end
    if tree.op == '/' then return ('(1.0 * %s / %s)'):format(a, b) end
    return ('(%s %s %s)'):format(a, SQL[tree.op] or tree.op, b)
  end
  local arguments = {}
  for i, child in ipairs(tree) do arguments[i] = sql(child, values) end
  return ('%s(%s)'):format(tree.name, table.concat(arguments, ', '))
end

--- A tree as SQL and the values to bind, in order.
---@param tree table
---@return string text
---@return table values
function M.sql(tree)
  local values = {}
  return sql(tree, values), values
end

-- -- Lua -----------------------------------------------------------

local function truth(v) return v ~= nil and v ~= false and v ~= 0 end

local function comparable(a, b) return type(a) == type(b) end

-- As SQL has it.
local function number_of(v)
  if type(v) == 'boolean' then return v and 1 or 0 end
  return v
end

local BINARY = {
  ['='] = function(a, b) return a == b end, ['~='] = function(a, b) return a ~= b end,
  ['<'] = function(a, b) return comparable(a, b) and a < b end,
  ['<='] = function(a, b) return comparable(a, b) and a <= b end,
  ['>'] = function(a, b) return comparable(a, b) and a > b end,
  ['>='] = function(a, b) return comparable(a, b) and a >= b end,
}
local ARITHMETIC = {
  ['+'] = function(a, b) return a + b end, ['-'] = function(a, b) return a - b end,
  ['*'] = function(a, b) return a * b end, ['/'] = function(a, b) return a / b end,
  ['^'] = function(a, b) return a ^ b end,
}
local CALLS = {
  min = math.min, max = math.max, abs = math.abs,
  log2 = function(x) return math.log(x) / math.log(2) end,
}

local function evaluate(tree, row)
  if tree.kind == 'value' then return tree.value end
  if tree.kind == 'name' then return row[tree.name] end
  if tree.kind == 'unary' then
    local v = evaluate(tree[1], row)
    if tree.op == 'not' then return not truth(v) end
    return type(v) == 'number' and -v or nil
  end
  if tree.kind == 'binary' then
    local a, b = evaluate(tree[1], row), evaluate(tree[2], row)
    if tree.op == 'and' then return truth(a) and truth(b) end
    if tree.op == 'or' then return truth(a) or truth(b) end
    a, b = number_of(a), number_of(b)
    if BINARY[tree.op] then return a ~= nil and b ~= nil and BINARY[tree.op](a, b) end
    if type(a) ~= 'number' or type(b) ~= 'number' then return nil end
    return ARITHMETIC[tree.op](a, b)
  end
  local values = {}
  for i, child in ipairs(tree) do
    values[i] = evaluate(child, row)
    if type(values[i]) ~= 'number' then return nil end
  end
  return #values > 0 and CALLS[tree.name](unpack(values)) or nil
end

--- The value of a tree over a row; what is absent makes comparisons false and sums absent.
---@param tree table
---@param row table values by name
---@return any value
-- >> expression.evaluate(expression.parse '2 * k', { k = 3 })
function M.evaluate(tree, row)
  return evaluate(tree, row)
end

--- Does a row fulfil a condition?
---@param tree table
---@param row table
---@return boolean
function M.holds(tree, row)
  return truth(evaluate(tree, row))
end

return M
