-- SPDX-License-Identifier: MIT
--- Values of a parameter as they are typed: `64`, `1,8,32`, `{relu,gelu}`, `1..10`,
-- `128..512+128`, `1..256*2`, `0..1/5`, `log:1e-4..1e-1/9`, `probe:64..4096`, `~1..100`,
-- `~log:1e-4..1e-1`. Numbers, words, true and false; nothing is run.

local blame = require 'ridge.blame'
local space = require 'ridge.sweep.space'

local M = {}

local function fail(text, why)
  blame.raise(("values '%s': %s; they are written 64 or 1,8,32 or {relu,gelu} or 1..10 or "
    .. '128..512+128 or 1..256*2 or 0..1/5 or log:1e-4..1e-1/9 or probe:64..4096 or '
    .. '~log:1e-4..1e-1'):format(text, why), 'EARG', 'sweep')
end

local function one(text, whole)
  local word = text:match '^%s*(.-)%s*$'
  if word == 'true' or word == 'false' then return word == 'true' end
  local number = tonumber(word)
  if number then return number end
  if not word:find '^[%a_][%w_.%-]*$' then
    fail(whole, word == '' and 'one is missing' or ("'%s' is neither a number nor a word")
      :format(word))
  end
  return word
end

-- a..b, a..b+s, a..b*r, a..b/n, with what stands before it; nil when it is none of them
local function range(text)
  local random, inner = text:match '^%s*(~?)%s*(.-)%s*$'
  local kind, ends = inner:match '^(%a+):(.*)$'
  kind = kind or ''
  local first, rest = (ends or inner):match '^%s*(.-)%s*%.%.%s*(.-)%s*$'
  if not first then return nil end
  local last, sign, step = rest:match '^([^*/]-[^eE*/])([+*/])(.+)$'
  first, last, step = tonumber(first), tonumber(last or rest), tonumber(step)
  if not first or not last or sign and not step then fail(text, 'a range has numbers only') end
  if kind ~= '' and kind ~= 'log' and kind ~= 'probe' then
    fail(text, ("'%s:' is none of log: and probe:"):format(kind))
  end
  if random ~= '' then
    if sign or kind == 'probe' then fail(text, 'a random range has two ends and no steps') end
    return space.random(first, last, { log = kind == 'log' })
  elseif kind == 'probe' then
    if sign then fail(text, 'probe: has two ends and no steps') end
    return space.probe(first, last)
  elseif kind == 'log' then
    if sign ~= '/' then fail(text, 'log: says how many values, as in log:1e-4..1e-1/9') end
    return space.logs(first, last, step)
  elseif sign == '/' then
    return space.between(first, last, step)
  elseif sign == '*' then
    return space.geom(first, last, step)
  end
  return space.range(first, last, step or 1)
end

--- The values that a text means.
-- >> require('ridge.sweep.written').values '1..256*2'
---@param text string
---@return table list
function M.values(text)
  local list = range(text)
  if list then return list end
  local inner, out = text:match '^%s*{(.*)}%s*$' or text, {}
  for item in (inner .. ','):gmatch '([^,]*),' do out[#out + 1] = one(item, text) end
  return space.any(out)
end

--- Parameters from `name=values`, in the order given.
---@param list table texts
---@return table values name to list
function M.parameters(list)
  local out = {}
  for _, text in ipairs(list) do
    local name, values = text:match '^%s*([%a_][%w_]*)%s*=%s*(.+)$'
    if not name then
      blame.raise(("'%s' is not like batch=1..256*2"):format(text), 'EARG', 'sweep')
    end
    if out[name] then blame.raise(("the parameter %s stands twice"):format(name), 'EARG') end
    out[name] = M.values(values)
  end
  return out
end

return M
