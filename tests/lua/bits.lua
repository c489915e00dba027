-- SPDX-License-Identifier: MIT
--- The bits of tensors, for specs that promise the same ones.

local ffi = require 'ffi'

local M = {}

--- Everything a tensor holds, row by row, with its type and shape: nan and -0 count as they are.
---@param x Tensor
---@return string
function M.of(x)
  local whole = x:detach():contiguous():to 'cpu'
  return ('%s[%s]'):format(x.dtype, table.concat(x.shape, ','))
    .. ffi.string(ffi.cast('const char *', whole._t._data), x.bytes)
end

--- The tensors in what a function returned.
---@param ... any tensors count; so do those in tables, in the order of their keys' texts
---@return Tensor[]
function M.tensors(...)
  local out = {}
  local function add(value)
    if type(value) == 'cdata' then
      out[#out + 1] = value
    elseif type(value) == 'table' then
      local keys = {}
      for key in pairs(value) do keys[#keys + 1] = key end
      table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
      for _, key in ipairs(keys) do add(value[key]) end
    end
  end
  for i = 1, select('#', ...) do add((select(i, ...))) end
  return out
end

--- Their bits.
---@param ... any as `tensors` takes it
---@return string[]
function M.all(...)
  local out = M.tensors(...)
  for i, x in ipairs(out) do out[i] = M.of(x) end
  return out
end

-- Of each kind of float the bytes of an element, and the bits of its exponent in the two highest.
local FLOATS = { f16 = { 2, 0x7c, 0 }, bf16 = { 2, 0x7f, 0x80 }, f32 = { 4, 0x7f, 0x80 },
  f64 = { 8, 0x7f, 0xf0 } }

--- A text of `of` in which every nan has the same bits: what a kernel writes there besides is
--- nobody's promise, and multiplying by 1 may change it.
---@param text string
---@return string
function M.settled(text)
  local dtype, head = text:match '^(%w+)%[[%d,]*%]()'
  local kind = FLOATS[dtype]
  if not kind then return text end
  local bytes = kind[1]
  return text:sub(1, head - 1) .. text:sub(head):gsub(('.'):rep(bytes), function(element)
    local high, low = element:byte(bytes), element:byte(bytes - 1)
    local rest = element:sub(1, bytes - 2):find '[^%z]' ~= nil
    local is_nan = bit.band(high, kind[2]) == kind[2] and bit.band(low, kind[3]) == kind[3]
      and (bit.band(high, 0x7f - kind[2]) ~= 0 or bit.band(low, 0xff - kind[3]) ~= 0 or rest)
    return is_nan and ('n'):rep(bytes) or element
  end)
end

--- All texts in lists, and in those in them from 0 or 1 on, one behind the other.
---@param list table
---@return string[]
function M.flat(list)
  local out = {}
  local function add(value)
    if type(value) ~= 'table' then
      out[#out + 1] = value
      return
    end
    for i = value[0] and 0 or 1, #value do add(value[i]) end
  end
  add(list)
  return out
end

return M
