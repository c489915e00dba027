-- SPDX-License-Identifier: MIT
--- Sums and pooling of bytes with the scales that they stand for, so that bytes stay bytes from
--- layer to layer.

local image = require 'ridge.tensor.image'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local dtype = require 'ridge.tensor.dtype'
local run = require 'ridge.tensor.run'
local schema = require 'ridge.tensor.schema'

local M = {}

local need = ref.need
local scaled_add, scaled_pool2d = run.of 'scaled_add', run.of 'scaled_pool2d'

local ADD = {
  activation = { 'string', default = 'none', choices = schema.ACT_NAMES,
    doc = 'applied to the sum' },
  dtype = { 'string', default = 'f32', choices = { 'f32', 'bf16', 'f16', 'i8', 'u8' },
    doc = 'of the result' },
  y_scale = { 'any', doc = 'what a byte of the result stands for, f32, one number' },
  a_zero = { 'integer', default = 0, doc = 'the byte of a that stands for 0' },
  b_zero = { 'integer', default = 0, doc = 'that of b' },
  y_zero = { 'integer', default = 0, doc = 'that of a result of bytes' },
}

--- act((a - a_zero) a_scale + (b - b_zero) b_scale) of bytes of one shape, computed in f32; with
--- dtype 'i8' or 'u8' bytes again, round(y (1 / y_scale)) + y_zero, saturated.  With b and b_scale
--- nil it is a with another scale, for parts that are joined.  No gradient goes through it, and
--- GPUs have none of it yet.
---@param a Tensor i8 or u8
---@param b Tensor|nil i8 or u8, of a's shape
---@param a_scale Tensor|number f32, one number
---@param b_scale Tensor|number|nil f32, one number
---@param opts table|nil {dtype = 'f32', y_scale = Tensor|number, activation = 'none', a_zero = 0,
---  b_zero = 0, y_zero = 0}
---@return Tensor of a's shape
-- >> a = ridge.full(10, 3, { dtype = 'i8' })
-- >> ridge.scaled_add(a, a, 0.5, 1, { dtype = 'u8', y_scale = 0.25 })
function M.scaled_add(a, b, a_scale, b_scale, opts)
  need(a, 'scaled_add')
  opts = options.check(ADD, opts, 'scaled_add')
  local function scale(given) return given ~= nil and run.number(given, a, 'scaled_add') or nil end
  return scaled_add({ a, run.number(a_scale, a, 'scaled_add'), b, scale(b_scale),
    scale(opts.y_scale) }, { act = schema.ACT[opts.activation],
    dtype = dtype.code(opts.dtype, 'scaled_add'), a_zero = opts.a_zero, b_zero = opts.b_zero,
    y_zero = opts.y_zero })
end

local POOL = {
  average = { 'boolean', default = false, doc = 'the average of a window; else the largest' },
  x_zero = { 'integer', default = 0, doc = 'the byte that padding is in averages' },
}
for name, rule in pairs(image.AVG_POOL) do POOL[name] = rule end

local function pair(of) return { tonumber(of[0]), tonumber(of[1]) } end

--- The largest byte of each window, or the average, ties to even: the scale and the zero point
--- stay.  No gradient goes through it, and GPUs have none of it yet.
---@param x Tensor [n x c x h x w] of i8 or u8, channels last with layout = 'nhwc'
---@param size number|table of the window: one number, or {rows, columns}
---@param opts table|nil {average = false, x_zero = 0, stride = size, padding = 0, skip_padding =
---  false, layout = 'nchw'}
---@return Tensor
-- >> ridge.scaled_pool2d(ridge.ones(1, 1, 4, 4, { dtype = 'u8' }), 2, { average = true }).shape
function M.scaled_pool2d(x, size, opts)
  need(x, 'scaled_pool2d')
  opts = options.check(POOL, opts, 'scaled_pool2d')
  local o = image.pool_options(size, opts, 'scaled_pool2d')
  local stride = pair(o.stride)
  if stride[1] == 0 and stride[2] == 0 then stride = pair(o.size) end
  return scaled_pool2d({ x }, { size = pair(o.size), stride = stride, pad_low = pair(o.pad_low),
    pad_high = pair(o.pad_high), layout = o.layout, skip_pad = o.skip_pad,
    average = opts.average and 1 or 0, x_zero = opts.x_zero })
end

return M
