-- SPDX-License-Identifier: MIT
--- A checksum of what a setup made: types, shapes and first values of the tensors in its context.
--
-- Passes of a point are observations of the same work. A setup that draws other data each time
-- measures something else in each, and nobody would see it.

local canonical = require 'ridge.store.canonical'
local no_grad = require('ridge.tensor.grad').no_grad
local sha256 = require 'ridge.store.sha256'

local M = {}

-- Values of a tensor that are looked at, tensors, and tables within tables.
local VALUES, MOST, DEPTH = 8, 64, 4

local function first_values(x)
  if x.count == 0 then return '' end
  while #x:size() > 1 do x = x:narrow(1, 1, 1):reshape(unpack(x:size(), 2)) end
  local is_list = #x:size() == 1
  if is_list then x = x:narrow(1, 1, math.min(VALUES, x:size(1))) end
  x = x:to 'cpu'
  local list = is_list and x:tolist() or { x:item() }
  for i, v in ipairs(list) do
    local finite = type(v) == 'number' and v - v == 0
    list[i] = finite and canonical.number(v) or v ~= v and 'nan' or tostring(v) -- nan has a sign
  end
  return table.concat(list, ',')
end

local function describe(x)
  if x._t == nil then return 'released' end
  return x:describe() .. ' ' .. no_grad(first_values, x)
end

local function sorted_keys(t)
  local keys = {}
  for key in next, t do
    if type(key) == 'string' or type(key) == 'number' then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == 'number'
  end)
  return keys
end

local function walk(value, path, depth, seen, out)
  if #out >= MOST then return end
  local tensor = package.loaded['ridge.tensor']
  if tensor and tensor.is(value) then
    out[#out + 1] = path .. ' ' .. describe(value)
  elseif type(value) == 'table' and depth < DEPTH and not seen[value] then
    seen[value] = true
    for _, key in ipairs(sorted_keys(value)) do
      -- results of a graph's plan hold nothing before its first run
      if not (key == 'results' and rawget(value, 'emitted')) then
        walk(rawget(value, key), path .. '.' .. tostring(key), depth + 1, seen, out)
      end
    end
  end
end

--- The checksum of a context; nil where there is no tensor in it.
-- >> inputs.checksum{ x = ridge.ones(2) }
---@param context any what a setup returned
---@return string|nil checksum
function M.checksum(context)
  local out = {}
  walk(context, 'c', 0, {}, out)
  if #out == 0 then return nil end
  return sha256.hex(canonical.address(table.concat(out, '\n')))
end

return M
