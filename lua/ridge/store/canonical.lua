-- SPDX-License-Identifier: MIT
-- Canonical JSON and content addresses: equal values give equal text, whatever the order in which
-- a table was filled, so that identical things are one row in every database.
--
-- Keys are sorted by bytes, integers carry no fraction, other numbers are the shortest decimal that
-- reads back exactly; NaN and the infinities have no text. (RFC 8785 has the same idea with
-- ECMAScript's number format and UTF-16 order.)

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local sha256 = require 'ridge.store.sha256'

local M = {}

-- Hashed behind the text: a later change of the rules above changes every address visibly.
M.FORMAT = '\1'

-- Integers up to here are exact in a double and in SQLite's INTEGER.
local EXACT = 2 ^ 53
-- Doubles from here on are normal, so all their digits are.
local NORMAL = 2 ^ -1022

-- Stands for JSON's null inside tables, where nil would be absence.
M.null = setmetatable({}, { __tostring = function() return 'null' end })

-- Marks a table without elements as a list; an unmarked one is an object.
local LIST = {}

--- Mark a table as a list, so that it is written `[]` even when it is empty.
---@param t table
---@return table t the same table
function M.list(t) return setmetatable(t, LIST) end

-- Writing ------------------------------------------------------------------------------------

--- A number as canonical text.
-- >> canonical.number(0.1)
---@param x number finite
---@return string text the shortest that reads back as x
function M.number(x)
  if x ~= x or x == math.huge or x == -math.huge then
    blame.raise(('%s has no place in a stored value'):format(tostring(x)), 'EARG')
  end
  if x == math.floor(x) and x > -EXACT and x < EXACT then
    return x == 0 and '0' or ('%.0f'):format(x) -- not "-0"
  end
  -- A text of 15 digits or fewer comes back from a normal number (DBL_DIG), so it is the shortest.
  local text
  for digits = (x >= NORMAL or x <= -NORMAL) and 15 or 1, 17 do
    text = ('%.' .. digits .. 'g'):format(x)
    if tonumber(text) == x then break end
  end
  return (text:gsub('e%+?(%-?)0*(%d)', 'e%1%2'))
end

local ESCAPE = { ['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n',
  ['\r'] = '\\r', ['\t'] = '\\t' }

local function is_utf8(s)
  local i, n = 1, #s
  while i <= n do
    local c = s:byte(i)
    local more = c < 0x80 and 0 or c >= 0xC2 and c <= 0xDF and 1 or c >= 0xE0 and c <= 0xEF and 2
      or c >= 0xF0 and c <= 0xF4 and 3
    if not more then return false end
    for k = 1, more do
      local d = s:byte(i + k)
      if not d or d < 0x80 or d > 0xBF then return false end
      -- overlong forms, surrogates, above U+10FFFF
      if k == 1 and (c == 0xE0 and d < 0xA0 or c == 0xED and d > 0x9F or c == 0xF0 and d < 0x90
          or c == 0xF4 and d > 0x8F) then return false end
    end
    i = i + more + 1
  end
  return true
end

local function quote(s)
  if not is_utf8(s) then
    blame.raise(('the text %q is not UTF-8 and cannot be stored'):format(s:sub(1, 40)), 'EARG')
  end
  return '"' .. s:gsub('[%c"\\]', function(c)
    -- DEL is a control character for Lua and an ordinary one for JSON
    return ESCAPE[c] or c ~= '\127' and ('\\u%04x'):format(c:byte()) or c
  end) .. '"'
end

local function is_list(t)
  if getmetatable(t) == LIST then return true end
  local n = 0
  for key in pairs(t) do
    if type(key) ~= 'number' then return false end
    n = n + 1
  end
  return n > 0 and n == #t
end

local write

local function write_table(t, depth)
  if depth > 100 then blame.raise('a stored value is nested too deeply or in itself', 'EARG') end
  local out = {}
  if is_list(t) then
    for i = 1, #t do out[i] = write(t[i], depth) end
    return '[' .. table.concat(out, ',') .. ']'
  end
  local keys = {}
  for key in pairs(t) do
    if type(key) ~= 'string' then
      blame.raise(('the key %s of a stored table is neither text nor part of a list')
        :format(tostring(key)), 'EARG')
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for i, key in ipairs(keys) do out[i] = quote(key) .. ':' .. write(t[key], depth) end
  return '{' .. table.concat(out, ',') .. '}'
end

function write(value, depth)
  local kind = type(value)
  if kind == 'number' then return M.number(value) end
  if kind == 'string' then return quote(value) end
  if kind == 'boolean' then return tostring(value) end
  if value == M.null then return 'null' end
  if ffi.istype('int64_t', value) then return tostring(value):match '^%-?%d+' end
  if kind == 'table' then return write_table(value, depth + 1) end
  blame.raise(('a %s cannot be stored (numbers, text, booleans and tables of them can)')
    :format(kind), 'EARG')
end

--- A value as canonical JSON.
-- >> canonical.encode{ width = 64, kind = 'linear' }
---@param value any numbers, text, booleans, and tables of them
---@return string json
function M.encode(value) return write(value, 0) end

-- Reading ------------------------------------------------------------------------------------

local UNESCAPE = { ['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', f = '\f', n = '\n',
  r = '\r', t = '\t' }

local function bad(text, at)
  blame.raise(('not JSON at byte %d: %s'):format(at, text:sub(at, at + 20)), 'EFORMAT')
end

local function utf8(code)
  local char, floor = string.char, math.floor
  if code < 0x80 then return char(code) end
  if code < 0x800 then return char(0xC0 + floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then
    return char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
  end
  return char(0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64,
    0x80 + floor(code / 64) % 64, 0x80 + code % 64)
end

local function unescape(body, text, at)
  local out, from = {}, 1
  while true do
    local slash = body:find('\\', from, true)
    out[#out + 1] = body:sub(from, (slash or 0) - 1)
    if not slash then return table.concat(out) end
    local c = body:sub(slash + 1, slash + 1)
    from = slash + 2
    if c == 'u' then
      local code = tonumber(body:match('^%x%x%x%x', from) or bad(text, at), 16)
      local low = code >= 0xD800 and code < 0xDC00
        and body:match('^\\u([dD][c-fC-F]%x%x)', from + 4)
      if low then code = 0x10000 + (code - 0xD800) * 1024 + tonumber(low, 16) - 0xDC00 end
      out[#out + 1] = utf8(code)
      from = from + (low and 10 or 4)
    else
      out[#out + 1] = UNESCAPE[c] or bad(text, at)
    end
  end
end

local function read_string(text, at)
  local close = at
  repeat
    close = text:find('["\\]', close + 1) or bad(text, at)
    local escaped = text:byte(close) == 92
    if escaped then close = close + 1 end
  until not escaped
  local body = text:sub(at + 1, close - 1)
  if body:find('\\', 1, true) then body = unescape(body, text, at) end
  return body, close + 1
end

local read

local function skip(text, at) return text:find('[^ \t\r\n]', at) or #text + 1 end

local function read_list(text, at)
  local out = M.list {}
  at = skip(text, at + 1)
  if text:sub(at, at) == ']' then return out, at + 1 end
  while true do
    out[#out + 1], at = read(text, at)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == ']' then return out, at + 1 end
    if c ~= ',' then bad(text, at) end
    at = at + 1
  end
end

local function read_object(text, at)
  local out = {}
  at = skip(text, at + 1)
  if text:sub(at, at) == '}' then return out, at + 1 end
  while true do
    at = skip(text, at)
    if text:sub(at, at) ~= '"' then bad(text, at) end
    local key
    key, at = read_string(text, at)
    at = skip(text, at)
    if text:sub(at, at) ~= ':' then bad(text, at) end
    out[key], at = read(text, at + 1)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == '}' then return out, at + 1 end
    if c ~= ',' then bad(text, at) end
    at = at + 1
  end
end

local WORD = { ['true'] = true, ['false'] = false, null = M.null }

function read(text, at)
  at = skip(text, at)
  local c = text:sub(at, at)
  if c == '{' then return read_object(text, at) end
  if c == '[' then return read_list(text, at) end
  if c == '"' then return read_string(text, at) end
  local word = text:match('^%a+', at)
  if word and WORD[word] ~= nil then return WORD[word], at + #word end
  local number = text:match('^-?%d+%.?%d*[eE]?[+-]?%d*', at)
  local value = number and tonumber(number)
  if not value then bad(text, at) end
  return value, at + #number
end

--- Read JSON; null becomes `canonical.null`.
---@param text string
---@return any value
function M.decode(text)
  local value, at = read(text, 1)
  if skip(text, at) <= #text then bad(text, at) end
  return value
end

-- Addresses ----------------------------------------------------------------------------------

--- The content address of a text.
---@param text string
---@return string address 16 bytes: SHA-256 over the text and the format byte, cut
function M.address(text) return sha256.digest(text .. M.FORMAT):sub(1, 16) end

--- The content address of a value.
-- >> canonical.hash{ a = 1, b = 2 }
---@param value any what `encode` takes
---@return string address 16 bytes
function M.hash(value) return M.address(M.encode(value)) end

return M
