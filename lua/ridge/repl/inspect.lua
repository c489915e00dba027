-- SPDX-License-Identifier: MIT
--- Any Lua value as text: tables with sorted keys, limits of depth, width and items, and marks
--- where a table contains itself. Tables are read raw; only __tostring is ever called.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local colour = require 'ridge.show.colour'
local lexer = require 'ridge.repl.lexer'
local plain = require 'ridge.plain'
local shown = require 'ridge.show.value'

local M = {}

---@class ridge.repl.InspectOptions
---@field depth? integer tables inside tables, 4 if not given
---@field items? integer entries shown of one table, 100 if not given
---@field width? integer columns of a line, 80 if not given
---@field bare? boolean a string at the top is shown as it is

local STRING_LIMIT = 400 -- bytes shown of a string inside a table
local SORT_LIMIT = 10000 -- keys beyond which they stay in the table's own order

local ESCAPES = { ['\n'] = '\\n', ['\t'] = '\\t', ['\r'] = '\\r', ['\\'] = '\\\\', ["'"] = "\\'" }

local function quoted(text, limit)
  local cut = limit and #text > limit
  local body = (cut and text:sub(1, limit) or text):gsub("[%c\\']", function(c)
    return ESCAPES[c] or ('\\%d'):format(c:byte())
  end)
  local painted = colour.paint('string', "'" .. plain.line(body) .. "'")
  return cut and painted .. colour.paint('dim', (' ...%d bytes'):format(#text)) or painted
end

local function a_function(value)
  local info = debug.getinfo(guard.original(value), 'S')
  if info.what == 'C' then return colour.paint('other', tostring(value)) end
  local place = info.source:match '^[@=](.*)' or 'text'
  return colour.paint('other', ('function: %s:%d'):format(place, info.linedefined))
end

--- What the value's own __tostring says, or nil if it has none or that fails. Of a value that is
--- asked for by itself an error of ridge's is raised: a tensor's numbers may be what is wrong.
local function own_text(value, depth)
  local meta = debug.getmetatable(value)
  if type(meta) == 'table' and type(value) ~= 'cdata' and rawget(meta, '__tostring') == nil then
    return nil
  end
  local ok, text = pcall(tostring, value)
  if not ok and depth == 0 and blame.is_error(text) then error(text, 0) end
  return ok and type(text) == 'string' and text or nil
end

--- A value that is no table and no string.
local function scalar(value, depth)
  local kind = type(value)
  if kind == 'number' then return colour.paint('number', tostring(value)) end
  if kind == 'nil' or kind == 'boolean' then return colour.paint('constant', tostring(value)) end
  if kind == 'function' then return a_function(value) end
  return own_text(value, depth) or ('<%s>'):format(kind)
end

local ORDER = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local x, y = ORDER[type(a)] or 4, ORDER[type(b)] or 4
  if x ~= y then return x < y end
  if x <= 2 then return a < b end
  return tostring(a) < tostring(b)
end

--- The keys of a table behind its list part, in order, and the length of the list part.
local function keys_of(value)
  local n = 0
  while rawget(value, n + 1) ~= nil do n = n + 1 end
  local keys = {}
  for key in next, value do
    local in_list = type(key) == 'number' and key >= 1 and key <= n and key % 1 == 0
    if not in_list then keys[#keys + 1] = key end
  end
  if #keys <= SORT_LIMIT then table.sort(keys, before) end
  return keys, n
end

local show -- for tables inside tables

local function key_text(key, state)
  if type(key) == 'string' and key:find '^[%a_][%w_]*$' and not lexer.KEYWORDS[key] then
    return colour.paint('key', key)
  end
  if type(key) == 'table' then return '[' .. tostring(key) .. ']' end
  return '[' .. show(key, state, state.depth) .. ']'
end

--- The entries of a table as texts.
local function entries_of(value, state, depth)
  local keys, n = keys_of(value)
  local texts, limit = {}, state.items
  for i = 1, math.min(n, limit) do texts[i] = show(rawget(value, i), state, depth + 1) end
  for i = 1, math.min(#keys, limit - #texts) do
    local key = keys[i]
    local text = show(rawget(value, key), state, depth + 1)
    texts[#texts + 1] = key_text(key, state) .. ' = ' .. text
  end
  local left = n + #keys - #texts
  if left > 0 then texts[#texts + 1] = colour.paint('dim', ('... %d more'):format(left)) end
  return texts
end

local function a_table(value, state, depth)
  if state.open[value] then return colour.paint('dim', '<cycle>') end
  if next(value) == nil then return '{}' end
  if depth >= state.depth then return colour.paint('dim', '{...}') end
  state.open[value] = true
  local texts = entries_of(value, state, depth)
  state.open[value] = nil
  local line = '{ ' .. table.concat(texts, ', ') .. ' }'
  if not line:find('\n', 1, true) and colour.width(line) + 2 * depth <= state.width then
    return line
  end
  local indent = ('  '):rep(depth + 1)
  return '{\n' .. indent .. table.concat(texts, ',\n' .. indent)
    .. ',\n' .. ('  '):rep(depth) .. '}'
end

function show(value, state, depth)
  local kind = type(value)
  if kind == 'string' then
    if depth == 0 and state.bare then return value end
    return quoted(value, depth > 0 and STRING_LIMIT or nil)
  end
  if kind == 'table' then
    local own = depth > 0 and shown.line(value) or depth == 0 and shown.box(value, state.width)
    if own then return own end
    local text = debug.getmetatable(value) and own_text(value, depth)
    if not text then return a_table(value, state, depth) end
    return depth > 0 and text:match '([^\n]*)\n*$' or text
  end
  local text = scalar(value, depth)
  if depth > 0 and kind == 'cdata' then return text:match '([^\n]*)\n*$' end -- a tensor's footer
  return text
end

--- A value as text, without a newline at the end.
---@param value any what to show
---@param opts? ridge.repl.InspectOptions limits
---@return string text
-- >> inspect.value { 1, 2, name = 'x' }   --> { 1, 2, name = 'x' }
function M.value(value, opts)
  opts = opts or {}
  local state = {
    depth = opts.depth or 4, items = opts.items or 100, width = opts.width or 80,
    bare = opts.bare, open = {},
  }
  return show(value, state, 0)
end

return M
