-- SPDX-License-Identifier: MIT
--- Numbers as bytes with scales and zero points, and back.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local dtype = require 'ridge.tensor.dtype'
local run = require 'ridge.tensor.run'

local M = {}

local need = ref.need
local quantize, dequantize = run.of 'quantize', run.of 'dequantize'
local quantize_rows = run.of 'quantize_rows'

local RANGE = { i8 = { -128, 127 }, u8 = { 0, 255 } }
local AXIS = { 'integer', doc = 'whose places have scales of their own; with group, along which' }
local GROUP = { 'integer', min = 1, doc = 'neighbours along the axis that share a scale' }
local TO = { axis = AXIS, group = GROUP,
  type = { 'string', default = 'i8', choices = { 'i8', 'u8' }, doc = 'of the result' } }
local FROM = { axis = AXIS, group = GROUP,
  type = { 'string', default = 'f32', choices = { 'f32', 'bf16', 'f16' }, doc = 'of the result' } }

local function zero_of(zero, x, name, what)
  if type(zero) ~= 'number' then return zero ~= nil and need(zero, what) or nil end
  local range = RANGE[name]
  if not range or zero ~= math.floor(zero) or zero < range[1] or zero > range[2] then
    blame.raise(('%s: a zero of %s beside %s'):format(what, blame.show(zero), name), 'EARG', what)
  end
  return make.full(zero, 1, { device = x.device, dtype = name })
end

-- Call a record: scales that are no one number belong to rows where neither an axis nor a group is
-- named.
local function call(record, x, scale, zero, opts, what)
  local shape = x.shape
  local axis = opts.axis or -1
  if axis == 0 or axis > math.max(#shape, 1) or axis < -math.max(#shape, 1) then
    blame.raise(('%s: there is no axis %d in %s'):format(what, axis, x:describe()), 'EAXIS', what)
  end
  local group = opts.group or 0
  if group == 0 and not opts.axis and scale.count ~= 1 and #shape > 0 then
    group = math.max(1, shape[#shape])
  end
  if #shape == 0 then x = x:reshape(1) end
  local y = record({ x, scale, zero }, { axis = axis < 0 and axis or axis - 1, group = group,
    dtype = dtype.code(opts.type, what) })
  return #shape == 0 and y:reshape {} or y
end

--- round(x / scale) + zero as bytes, ties to even, cut to what the type holds; computed in f32.
--- nan becomes the zero point, infinity the end of the range.  No gradient goes through it.
---@param x Tensor of floats
---@param scale Tensor|number f32: one number; one for each row, [...] or [... x 1]; with axis, one
---  for each place on it, [n]; with group, x's shape with ceil(n / group) on the axis (the last
---  unless named)
---@param zero Tensor|number|nil what stands for 0, of the result's type and with the shape of scale
---  or one number; 0 when left out
---@param opts table|nil {type = 'i8', axis = nil, group = nil}
---@return Tensor of x's shape
-- >> ridge.quantize(ridge.tensor { -1, 0, 0.5, 9 }, 0.1, 100, { type = 'u8' })
function M.quantize(x, scale, zero, opts)
  need(x, 'quantize')
  scale = run.number(scale, x, 'quantize')
  opts = options.check(TO, opts, 'quantize')
  zero = zero_of(zero, x, opts.type, 'quantize')
  return call(quantize, x, scale, zero, opts, 'quantize')
end

--- (q - zero) scale: what bytes stand for, or sums in i32, which have no zero point.
---@param q Tensor i8, u8 or i32
---@param scale Tensor|number as for ridge.quantize
---@param zero Tensor|number|nil of the type of q
---@param opts table|nil {type = 'f32', axis = nil, group = nil}
---@return Tensor of q's shape
-- >> ridge.dequantize(ridge.tensor({ 90, 100, 105 }, { dtype = 'u8' }), 0.1, 100)
function M.dequantize(q, scale, zero, opts)
  need(q, 'dequantize')
  scale = run.number(scale, q, 'dequantize')
  opts = options.check(FROM, opts, 'dequantize')
  zero = zero_of(zero, q, q.dtype, 'dequantize')
  return call(dequantize, q, scale, zero, opts, 'dequantize')
end

--- Rows (the last axis) as bytes from -127 to 127, each with a scale of its own: its largest
--- magnitude over 127, 0 for a row of zeros.  A row with nan or infinity has nan or infinity as its
--- scale, which makes nan of all that is computed with it.  No gradient goes through it.
---@param x Tensor of floats, with one axis or more
---@return Tensor q i8, of x's shape
---@return Tensor scale f32 [... x 1]
-- >> q, scale = ridge.quantize_rows(ridge.tensor { { 1, -2 }, { 0.5, 0 } })
function M.quantize_rows(x)
  need(x, 'quantize_rows')
  return quantize_rows { x }
end

return M
