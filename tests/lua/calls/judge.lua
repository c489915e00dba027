-- SPDX-License-Identifier: MIT
--- What an error has to be, and what a call may leave behind.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local ridge = require 'ridge'
local values = dofile(arg[0]:match '^(.*/)' .. 'values.lua')

local M = { values = values }

-- What only LuaJIT or SQLite say, and nobody who knows what was called.
local RAW = { 'attempt to ', 'bad argument', 'stack overflow', 'table index is', 'cannot convert',
  'size of C type', 'not enough memory', 'cannot resume', 'invalid value %(', 'invalid option',
  'invalid order function', 'invalid capture', 'malformed pattern', 'has no member named',
  'loop in gettable', 'string slice too long', 'string length overflow', 'wrong number of',
  'unfinished ', 'SQL logic error', 'table overflow',
  'expected, got no value', 'out of range$', 'too many results to unpack', 'C stack',
  'number expected', 'string expected', 'table expected', 'declared in', 'userdata:',
  'function: 0x', 'table: 0x' }

--- What is wrong with an error, or nil.
---@param e any what was raised
---@param own boolean the operators of what was called are Lua's own: so are its words for them
---@return string|nil
function M.fault(e, own)
  if values.is_mine(e) then return nil end
  if type(e) == 'string' and e:find 'calls/fit%.lua:1: ' then return nil end
  if own and type(e) == 'string' and (e:find 'calls/%a+%.lua:%d+: attempt to '
    or e:find 'is not callable' or e:find 'table index is ') then return nil end
  if not blame.is_error(e) then return 'raw' end
  if type(e.message) ~= 'string' or #e.message == 0 then return 'without a sentence' end
  if e.message:find 'ridge/[%w_/]+%.lua' then return 'names a file of ridge' end
  for _, words in ipairs(RAW) do
    if e.message:find(words) then return 'says ' .. words end
  end
  if e.message:find('%c', 1) and e.message:find '[%z\1-\8\14-\31]' then return 'has escapes' end
  if not tostring(e.where):find 'calls/%a+%.lua:%d+$' then return 'blames ' .. tostring(e.where) end
  return nil
end

--- What is wrong with an error of a call whose arguments fit, or nil: that Lua raised it, and the
--- border only says that something does not fit.
---@param e any what was raised
---@return string|nil
function M.hidden(e)
  return blame.is_error(e) and e.cause and 'hides ' .. tostring(e.cause):gsub('0x%x+', '') or nil
end

--- What a call must leave as it was, as a text. Scopes that an error leaves open are ended by who
--- catches it.
---@return string
function M.state()
  local grad = C.rg_grad_mode(1)
  C.rg_grad_mode(grad)
  return ('capturing %d, autocast %d, gradients %d'):format(C.rg_capturing(), C.rg_autocast(), grad)
end

-- The elements that reading a tensor as lists makes, and the lists where it has none.
local function readable(x)
  local n = 1
  for _, size in ipairs(x:size()) do n = n * math.max(size, 1) end
  return n
end

--- Look at everything a result holds: an element that lies outside of its memory is found here.
---@param value any
---@param depth number
function M.read(value, depth)
  if ridge.is_tensor(value) then
    tostring(value)
    local ok, elements = pcall(readable, value)
    if ok and elements <= 2 ^ 16 then value:tolist() end
  elseif type(value) == 'table' and depth > 0 then
    if getmetatable(value) then tostring(value) end
    local n = 0
    for _, inner in next, value do
      n = n + 1
      if n > 12 then break end
      M.read(inner, depth - 1)
    end
  elseif type(value) == 'cdata' then
    tostring(value)
  end
end

return M
