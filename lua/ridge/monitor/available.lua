-- SPDX-License-Identifier: MIT
--- Is something there that can be used, and if not, why (F158)?

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local device = require 'ridge.device'
local dtype = require 'ridge.tensor.dtype'

local M = {}

local LEVELS = { 'avx2', 'avx512', 'avx512_bf16', 'amx' }
local LIBRARIES = { cudnn = true, nvrtc = true }

local function reason() return (ffi.string(C.rg_error_message()):gsub('^%l+:%d+: ', '')) end

-- A level of instructions that this machine runs.
local function level(name)
  for i = 0, C.rg_machine_facts().isa_level do
    if ffi.string(C.rg_isa_name(i)) == name then return true end
  end
  return false, ('this processor has no %s: it runs %s at most'):format(name,
    ffi.string(C.rg_isa_name(C.rg_machine_facts().isa_level)))
end

local function library(name)
  local ok, why = device.available()
  if not ok then return false, why end
  local l = device.libraries('auto', true)
  if l[name] then return true end
  return false, l.why[name] or ('no call of %s can be made'):format(name)
end

local function gpu(number)
  if C.rg_device_open(number) ~= 0 then return false, reason() end
  call.opened(number)
  return true
end

local function names()
  local list = { 'cpu', dtype.prefix(), dtype.prefix() .. ':0', 'cudnn', 'nvrtc' }
  for _, name in ipairs(LEVELS) do list[#list + 1] = name end
  return list
end

--- Can it be used?
---@param what string 'cuda', 'cuda:1', 'cudnn', 'nvrtc', 'cpu'; or instructions: 'avx2', 'avx512',
---  'avx512_bf16', 'amx'
---@return boolean
---@return string|nil why not
-- >> ridge.available 'cuda'
function M.available(what)
  if type(what) ~= 'string' then
    blame.raise(('available: a name is expected, got %s'):format(blame.show(what)), 'EARG')
  end
  if what == 'cpu' then return true end
  if what == 'cuda' or what == dtype.prefix() then return device.available() end
  if LIBRARIES[what] then return library(what) end
  for _, name in ipairs(LEVELS) do
    if what == name then return level(what) end
  end
  local prefix, index = what:match '^(%a+):(%d+)$'
  if prefix and (prefix == 'cuda' or prefix == dtype.prefix()) then
    if tonumber(index) + 1 < C.RG_DEVICE_COUNT then return gpu(tonumber(index) + 1) end
    return false, ('devices are numbered up to %d'):format(C.RG_DEVICE_COUNT - 2)
  end
  local known = names()
  local near = blame.near(what, known)
  blame.raise(('available: %s is nothing that is known%s; known: %s'):format(blame.show(what),
    near and (" (did you mean '%s'?)"):format(near) or '', table.concat(known, ', ')), 'EARG')
end

return M
