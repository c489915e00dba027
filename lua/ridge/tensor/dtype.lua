-- SPDX-License-Identifier: MIT
--- Element types and devices by name, and how a tensor of a type is read and written from Lua.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'

local M = {}

local KIND = { [C.RG_KIND_FLOAT] = 'float', [C.RG_KIND_HALF] = 'float',
  [C.RG_KIND_STORED] = 'stored', [C.RG_KIND_WHOLE] = 'whole', [C.RG_KIND_LOGIC] = 'bool' }

-- All that is known here of a type comes from C's table of them (RG_DTYPE_LIST).
local by_name, names, ORDER = {}, {}, {}

--- Kinds of types by their names: 'float', 'whole', 'bool', or 'stored' (kept and converted, but
--- not computed with).
M.kind = {}

--- Bytes that an element takes, by the type's name.
M.bytes = {}

--- What an element is in C, by the type's name: 'uint16_t'.
M.stored = {}

--- Types whose numbers are stored and not computed with, as the 8-bit floats of the OCP standard.
M.only_stored = {}

for code = 0, C.RG_DTYPE_COUNT - 1 do
  local name = ffi.string(C.rg_dtype_name(code))
  by_name[name], names[code], ORDER[code + 1] = code, name, name
  M.kind[name] = KIND[C.rg_dtype_kind(code)]
  M.bytes[name] = tonumber(C.rg_dtype_bytes(code))
  M.stored[name] = ffi.string(C.rg_dtype_stored(code))
  M.only_stored[name] = M.kind[name] == 'stored' or nil
end

--- The names of all types.
M.names = ORDER

--- The C code of a type name.
---@param name string one of M.names
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

--- The best device there is: the first GPU, else the CPU.  Where there is no driver that is known
--- in less than a millisecond, and nothing is printed.
---@return number
function M.best()
  if C.rg_device_open(1) ~= 0 then return 0 end
  call.opened(1)
  return 1
end

--- What the names of GPUs begin with: 'cuda', or 'sim' where RIDGE_GPU names the simulator.
---@return string
function M.prefix()
  return ffi.string(C.rg_device_prefix())
end

--- The device number of 'cpu', 'auto' (the first GPU where there is one) or 'cuda:N' ('sim:N'
--- of a simulated GPU), which is
--- opened where it was not.
---@param name string|nil the CPU when left out
---@param what string the function asking, for the error
---@return number
function M.device(name, what)
  if name == nil or name == 'cpu' then return 0 end
  if name == 'auto' then return M.best() end
  local prefix, index
  if type(name) == 'string' then prefix, index = name:match '^(%l+):?(%d*)$' end
  if not prefix or prefix ~= M.prefix() then
    blame.raise(("%s: there is no device %s; known: 'cpu', '%s:0' ..."):format(what,
      blame.show(name), M.prefix()), 'EDEVICE')
  end
  local number = (tonumber(index) or 0) + 1
  if number >= C.RG_DEVICE_COUNT or C.rg_device_open(number) ~= 0 then
    local why = number >= C.RG_DEVICE_COUNT and ('devices end at %s:%d'):format(prefix,
      C.RG_DEVICE_COUNT - 2)
      or ffi.string(C.rg_error_message())
    blame.raise(('%s: there is no device %s: %s'):format(what, name, (why:gsub('^%l+:%d+: ', ''))),
      'EDEVICE')
  end
  call.opened(number)
  return number
end

--- Is this the name of a device?
---@param name any
---@return boolean
function M.is_device(name)
  return type(name) == 'string' and (name == 'cpu' or name == 'auto'
    or name:find '^%l+:%d+$' ~= nil or name:find '^%l+$' ~= nil and name == M.prefix())
end

return M
