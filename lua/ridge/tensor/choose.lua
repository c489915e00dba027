-- SPDX-License-Identifier: MIT
--- Choosing between tensors, element by element.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local elementwise = require 'ridge.tensor.elementwise'
local make = require 'ridge.tensor.make'
local ref = require 'ridge.ffi.ref'

local M = { methods = {}, docs = {} }

local slot, need, is = ref.slot, ref.need, ref.is

local RANGE = { i64 = { -2 ^ 63, 2 ^ 63 - 1024 }, i32 = { -2 ^ 31, 2 ^ 31 - 1 }, i8 = { -128, 127 },
  u8 = { 0, 255 } }

-- The type of a number beside a tensor: the tensor's, unless that is whole and does not hold it.
local function type_beside(value, x)
  local range = RANGE[x.dtype]
  if x.dtype == 'bool' then range = { 0, 1 } end
  if not range then return x.dtype end
  local whole = value == math.floor(value) and value >= range[1] and value <= range[2]
  return whole and x.dtype or value == math.floor(value) and math.abs(value) < 2 ^ 63 and 'i64'
    or 'f32'
end

local function operand(value, beside, cond, name)
  if is(value) then return need(value, name) end
  if type(value) ~= 'number' then elementwise.bad_operand(name, value) end
  return make.full(value, {}, { dtype = is(beside) and type_beside(value, beside) or 'f32',
    device = cond.device })
end

--- The element of x where a condition holds, else that of y. Shapes broadcast; no gradient goes to
--- what is not taken, whatever stands there.
---@param cond Tensor bool or u8: anything but 0 is true
---@param x Tensor|number
---@param y Tensor|number a number takes the type of the tensor beside it where that holds it
---@return Tensor
-- >> local x = ridge.tensor { -1, 0, 4 }
-- >> return ridge.where(x:gt(0), x, 0)
function M.where(cond, x, y)
  need(cond, 'where')
  local a, b = operand(x, y, cond, 'where'), operand(y, x, cond, 'where')
  call.settle()
  local st = C.rg_where(cond._t, a._t, b._t, slot)
  if st ~= 0 then call.again(st, C.rg_where, cond._t, a._t, b._t, slot) end
  return ref.wrap(slot[0])
end

local methods, docs = M.methods, M.docs

docs.where = 'where(cond, y): its elements where a condition holds, else those of y'
--- Its elements where a condition holds, else those of y.
---@param x Tensor
---@param cond Tensor bool or u8
---@param y Tensor|number
---@return Tensor
-- >> local x = ridge.tensor { -1, 0, 4 }
-- >> return x:where(x:gt(0), 0)
function methods.where(x, cond, y, extra)
  if extra ~= nil then elementwise.surplus('where', 'cond, y', extra) end
  return M.where(cond, need(x, 'where'), y)
end

return M
