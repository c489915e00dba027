-- SPDX-License-Identifier: MIT
--- Views and indexing: x[i], x[{i, {a, b}}], narrow, transpose, view ...  Nothing here copies.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ops = require 'ridge.tensor.ops'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local slot, wrap, need = ref.slot, ref.wrap, ref.need
local index_t = ffi.typeof 'int64_t[8]'
local FIRST = ffi.new('int64_t[8]') -- the index of the first element
local order_t = ffi.typeof 'int32_t[8]'

--- Position i (from 1, or negative from the end) of an axis, as C counts it.
local function position(x, axis, i, what)
  local size = tonumber(x._t._shape[axis])
  if type(i) ~= 'number' or i ~= math.floor(i) then
    blame.raise(('%s: a position is a whole number, got %s'):format(what, blame.show(i)), 'EAXIS')
  end
  local at = i < 0 and size + i or i - 1
  if i == 0 or at < 0 or at >= size then
    blame.raise(('%s: position %s is outside axis %d of size %d%s'):format(what, blame.show(i),
      axis + 1, size, i == 0 and ' (positions count from 1)' or ''), 'EAXIS')
  end
  return at
end

local function sizes_of(what, ...)
  local first = ...
  return type(first) == 'table' and options.list(first, what) or { ... }
end

docs.view = 'view(sizes...): the same elements in another shape; -1 is worked out'
--- The same elements in another shape, without copying.
---@param x Tensor
---@param ... number sizes; one may be -1
---@return Tensor
function methods.view(x, ...)
  need(x, 'view')
  local ndim, shape = make.shape(sizes_of('view', ...), 'view', true)
  local st = C.rg_view(x._t, shape, ndim, slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

docs.reshape = 'reshape(sizes...): as view, copying first where the strides need it'
--- Another shape; copies only where the strides do not allow a view.
---@param x Tensor
---@param ... number sizes; one may be -1
---@return Tensor
function methods.reshape(x, ...)
  need(x, 'reshape')
  call.settle()
  local ndim, shape = make.shape(sizes_of('reshape', ...), 'reshape', true)
  local st = C.rg_reshape(x._t, shape, ndim, slot)
  if st ~= 0 then call.again(st, C.rg_reshape, x._t, shape, ndim, slot) end
  return wrap(slot[0])
end

docs.transpose = 'transpose(a, b): two axes exchanged'
--- Two axes exchanged; the last two when left out.
---@param x Tensor
---@param a number|nil
---@param b number|nil
---@return Tensor
function methods.transpose(x, a, b, extra)
  if extra ~= nil then surplus('transpose', 'a, b', extra) end
  need(x, 'transpose')
  local st = C.rg_transpose(x._t, ops.axis(a or -2, 'transpose'), ops.axis(b or -1, 'transpose'),
    slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

docs.t = 't(): the transpose of a matrix'
--- The transpose of a matrix.
---@param x Tensor [M x N]
---@return Tensor [N x M]
function methods.t(x, extra)
  if extra ~= nil then surplus('t', '', extra) end
  return methods.transpose(x, -2, -1)
end

docs.permute = 'permute(axes...): axes in another order'
--- Axes in another order.
---@param x Tensor
---@param ... number every axis once
---@return Tensor
function methods.permute(x, ...)
  need(x, 'permute')
  local axes = sizes_of('permute', ...)
  if #axes > 8 then blame.raise('permute: too many axes', 'EAXIS') end
  local order = order_t()
  for i, axis in ipairs(axes) do order[i - 1] = ops.axis(axis, 'permute') end
  local st = C.rg_permute(x._t, order, #axes, slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

docs.narrow = 'narrow(axis, start, length, step): a range of one axis'
--- A range of one axis.
---@param x Tensor
---@param axis number
---@param start number first position, from 1
---@param length number
---@param step number|nil 1 when left out
---@return Tensor
function methods.narrow(x, axis, start, length, step, extra)
  if extra ~= nil then surplus('narrow', 'axis, start, length, step', extra) end
  need(x, 'narrow')
  step = step or 1
  for name, value in pairs { start = start or false, length = length or false, step = step } do
    if type(value) ~= 'number' or value ~= math.floor(value) or math.abs(value) > 2 ^ 53 then
      blame.raise(('narrow: %s is a whole number, got %s'):format(name, blame.show(value)), 'EAXIS',
        'narrow')
    end
  end
  if start < 1 then
    blame.raise(('narrow: start counts from 1, got %d'):format(start), 'EAXIS', 'narrow')
  end
  local st = C.rg_narrow(x._t, ops.axis(axis, 'narrow'), start - 1, length, step, slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

local function select_at(x, axis, i, what)
  need(x, what)
  axis = ops.axis(axis, what)
  if axis < 0 then axis = axis + x._t._ndim end
  if axis < 0 or axis >= x._t._ndim then
    blame.raise(('%s: there is no such axis in %s'):format(what, x:describe()), 'EAXIS', what)
  end
  local st = C.rg_select(x._t, axis, position(x, axis, i, what), slot)
  if st ~= 0 then call.fail(st, what) end
  return wrap(slot[0])
end

docs.select = 'select(axis, position): one position of an axis, which goes away'
--- One position of an axis, which goes away.
---@param x Tensor
---@param axis number
---@param i number position, from 1; negative from the end
---@return Tensor
function methods.select(x, axis, i, extra)
  if extra ~= nil then surplus('select', 'axis, i', extra) end
  return select_at(x, axis, i, 'select')
end

docs.expand = 'expand(sizes...): axes of size 1 repeated without copying'
--- Axes of size 1 repeated without copying.
---@param x Tensor
---@param ... number sizes
---@return Tensor
function methods.expand(x, ...)
  need(x, 'expand')
  local ndim, shape = make.shape(sizes_of('expand', ...), 'expand', true)
  local st = C.rg_expand(x._t, shape, ndim, slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

docs.unsqueeze = 'unsqueeze(axis): an axis of size 1 put in'
--- An axis of size 1 put in.
---@param x Tensor
---@param axis number
---@return Tensor
function methods.unsqueeze(x, axis, extra)
  if extra ~= nil then surplus('unsqueeze', 'axis', extra) end
  need(x, 'unsqueeze')
  local st = C.rg_unsqueeze(x._t, ops.axis(axis, 'unsqueeze'), slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

docs.squeeze = 'squeeze(axis): an axis of size 1 taken out'
--- An axis of size 1 taken out.
---@param x Tensor
---@param axis number
---@return Tensor
function methods.squeeze(x, axis, extra)
  if extra ~= nil then surplus('squeeze', 'axis', extra) end
  need(x, 'squeeze')
  local st = C.rg_squeeze(x._t, ops.axis(axis, 'squeeze'), slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

-- -- x[i], x[{i, {a, b}}] -----------------------------------------------------------------

-- A part that is nil ends the list, and a name is no part: both would be passed over.
local function check_parts(key, parts)
  for name in pairs(key) do
    if type(name) ~= 'number' then
      blame.raise(('x[{...}]: %s is no part; parts stand without names'):format(blame.show(name)),
        'EAXIS')
    elseif name > parts then
      blame.raise(('x[{...}]: part %d is nil; {} is all of an axis'):format(parts + 1), 'EAXIS')
    end
  end
end

--- What x[key] looks at: a number selects on the first axis; a list has, for each axis, a position,
--- a range {first, last, step}, or {} for all of it.
---@param x Tensor
---@param key number|table
---@return Tensor
function M.index(x, key)
  if type(key) == 'number' then
    if x._t._ndim == 0 then blame.raise('x[i]: a scalar has no positions; use :item()', 'EAXIS') end
    return select_at(x, 1, key, 'x[i]')
  end
  local view, axis, parts = x, 1, 0
  for n, part in ipairs(key) do
    parts = n
    if axis > view._t._ndim then
      blame.raise(('x[{...}]: %d parts for %s'):format(#key, x:describe()), 'EAXIS')
    end
    if type(part) == 'number' then
      view = select_at(view, axis, part, 'x[{...}]')
    elseif type(part) == 'table' then
      if #part > 0 then
        local first = position(view, axis - 1, part[1], 'x[{...}]')
        local last = position(view, axis - 1, part[2] or part[1], 'x[{...}]')
        local step = part[3] or 1
        if #part > 3 then
          blame.raise(('x[{...}]: a range is {first, last, step}, got %d numbers'):format(#part),
            'EAXIS')
        end
        if type(step) ~= 'number' or step ~= math.floor(step) or step < 1 or step > 2 ^ 53 then
          blame.raise(('x[{...}]: the step of axis %d is a whole number from 1, got %s'):format(n,
            blame.show(step)), 'EAXIS')
        elseif last < first then
          blame.raise(('x[{...}]: the range {%s, %s} of axis %d goes backwards'):format(part[1],
            part[2], n), 'EAXIS')
        end
        view = methods.narrow(view, axis, first + 1, math.floor((last - first) / step) + 1, step)
      end
      axis = axis + 1
    else
      blame.raise(('x[{...}]: part %d is %s; a position or a range {first, last} is expected')
        :format(n, type(part)), 'EAXIS')
    end
  end
  if parts < x._t._ndim then check_parts(key, parts) end
  return view
end

-- -- One element --------------------------------------------------------------------------

docs.get = 'get(i, j, ...): one element as a number'
--- One element as a number.
---@param x Tensor
---@param ... number a position for each axis, from 1
---@return number
function methods.get(x, ...)
  need(x, 'get')
  local n = select('#', ...)
  if n ~= x._t._ndim then
    blame.raise(('get: %d positions for %s'):format(n, x:describe()), 'EAXIS', 'get')
  end
  local index = index_t()
  for axis = 0, n - 1 do
    index[axis] = position(x, axis, (select(axis + 1, ...)), 'get')
  end
  local value = ffi.new('double[1]')
  call.check(C.rg_tensor_get(x._t, index, n, value))
  return value[0]
end

docs.item = 'item(): the only element, as a number'
--- The only element of a tensor with one, as a number.
---@param x Tensor
---@return number
function methods.item(x, extra)
  if extra ~= nil then surplus('item', '', extra) end
  need(x, 'item')
  if x._t._count ~= 1 then
    blame.raise(('item: %s does not have one element'):format(x:describe()), 'ESHAPE', 'item')
  end
  local value = ffi.new('double[1]')
  call.check(C.rg_tensor_get(x._t, FIRST, x._t._ndim, value))
  return value[0]
end

return M
