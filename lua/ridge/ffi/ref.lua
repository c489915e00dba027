-- SPDX-License-Identifier: MIT
--- The tensor handle: one place makes handles, so that one place counts them.
--
-- The finalizer is a C function: it cannot raise, and it empties the handle, so that an early
-- release and a late collection together do no harm.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'

local M = {}

--- The metatype's table; ridge.tensor fills it before the first tensor exists.
M.meta = { __gc = (package.loaded['ridge.host'] or {}).drop or C.rg_ref_drop }

local ctype

--- Freeze the metatype; called once by ridge.tensor.
function M.finish()
  ctype = ffi.metatype('rg_ref', M.meta)
  M.ctype = ctype
end

--- Take over a new reference in a handle.
---@param t cdata rg_tensor pointer
---@return Tensor
function M.wrap(t)
  t._handles = t._handles + 1
  return ctype(t)
end

--- Is this value a tensor handle?
---@param value any
---@return boolean
function M.is(value)
  return ffi.istype(ctype, value)
end

-- What released handles held, so that errors can say it.
local released = setmetatable({}, { __mode = 'k' })

--- Empty a handle before it is collected.
---@param value Tensor
---@param text string what it holds
function M.release(value, text)
  released[value] = text
  C.rg_ref_drop(value)
end

--- Raise unless value is a tensor that still has one behind it: reading a field through an empty
-- handle would end the process.
---@param value any
---@param what string the function asking, for the error
---@return Tensor value
function M.need(value, what)
  if not M.is(value) then
    blame.raise(('%s: a tensor is expected, got %s'):format(what, blame.show(value)), 'EARG', what)
  end
  if value._t == nil then
    local text = released[value]
    blame.raise(('%s: the tensor %swas released'):format(what, text and text .. ' ' or ''),
      'ERELEASED', what)
  end
  return value
end

--- A place for a C function to put a new tensor.
M.slot = ffi.new('rg_tensor *[6]')

return M
