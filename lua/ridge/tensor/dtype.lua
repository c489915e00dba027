-- SPDX-License-Identifier: MIT
--- Element types and devices by name, and how a tensor of a type is read and written from Lua.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'

local M = {}

local by_name, names = {}, {}
for code = 0, C.RG_DTYPE_COUNT - 1 do
  local name = ffi.string(C.rg_dtype_name(code))
  by_name[name] = code
  names[code] = name
end
local ORDER = { 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool' }

--- The names of all types.
M.names = ORDER

--- The C code of a type name.
---@param name string 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8' or 'bool'
---@param what string the function asking, for the error
---@return number
function M.code(name, what)
  local code = by_name[name]
  if not code then
    local near = type(name) == 'string' and blame.near(name, ORDER)
    blame.raise(('%s: there is no element type %s%s; known: %s'):format(what,
      blame.show(name),
      near and (" (did you mean '%s'?)"):format(near) or '', table.concat(ORDER, ', ')), 'EDTYPE')
  end
  return code
end

--- The name of a type's C code.
---@param code number
---@return string
function M.name(code)
  return names[code]
end

--- The device number of 'cpu', 'auto' or 'cuda:N'.
---@param name string|nil
---@param what string the function asking, for the error
---@return number
function M.device(name, what)
  if name == nil or name == 'cpu' or name == 'auto' then return 0 end
  if type(name) == 'string' and name:match('^cuda:?%d*$') then
    blame.raise(('%s: there is no device %s: ridge has no CUDA backend yet'):format(what, name),
      'EDEVICE')
  end
  blame.raise(("%s: there is no device %s; known: 'cpu'"):format(what, blame.show(name)), 'EDEVICE')
end

return M
