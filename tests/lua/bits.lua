-- SPDX-License-Identifier: MIT
--- The bits of tensors, for specs that promise the same ones.

local ffi = require 'ffi'

local M = {}

--- Everything a tensor holds, row by row, with its type and shape: nan and -0 count as they are.
---@param x Tensor on the CPU
---@return string
function M.of(x)
  local whole = x:detach():contiguous()
  return ('%s[%s]'):format(x.dtype, table.concat(x.shape, ','))
    .. ffi.string(ffi.cast('const char *', whole._t._data), x.bytes)
end

--- The same of what a function returned.
---@param ... any tensors count; so do those in tables
---@return string[]
function M.all(...)
  local out = {}
  local function add(value)
    if type(value) == 'cdata' then
      out[#out + 1] = M.of(value)
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

return M
