-- SPDX-License-Identifier: MIT
--- Products of 8-bit factors with the scales that they stand for.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local image = require 'ridge.tensor.image'
local options = require 'ridge.options'
local run = require 'ridge.tensor.run'
local schema = require 'ridge.tensor.schema'
local settings = require 'ridge.tensor.settings'

local M = {}

local need, slot = ref.need, ref.slot

local RESULTS = { 'f32', 'bf16', 'f16', 'i8', 'u8' }
local Y_SCALE = { 'any', doc = 'what a byte of the result stands for, f32, one number' }

local SETTINGS = settings.of(schema.of 'scaled_linear', {
  as = { act = 'activation' },
  rules = { bias = { 'any', doc = 'one number a row of w: floats, or i32 added to the sums' },
    y_scale = Y_SCALE, dtype = { choices = RESULTS } },
})
local linear_t = ffi.typeof 'rg_scaled_linear_options'

--- act(((x - x_zero) w') x_scale w_scale + bias) of factors of 8 bits.  Sums of bytes are exact, in
--- i32, and the same on every CPU; all else is computed in f32, but for sums of 8-bit floats by
--- cublasLt: its tensor cores keep about 13 bits of them (ridge.backend { vendor = false } adds
--- them up in f32).  With dtype 'i8' or 'u8' the result is bytes as well: round(y (1 / y_scale)) +
--- y_zero, saturated.  x of floats, with x_scale nil, is quantized inside, as ridge.quantize_rows
--- does it.  GPUs have it for x of i8 and 8-bit floats, and results of floats.  No gradient goes
--- through it.
---@param x Tensor [... x n_in] of i8, u8, f8e4m3 or f8e5m2; of floats where x_scale is nil
---@param w Tensor [n_out x n_in]; i8 beside bytes and floats, with n_in at most 131071, or 65793
---  beside u8 or with an x_zero; else f8e4m3 or f8e5m2
---@param x_scale Tensor|number|nil f32, one number or one for each row of x: [...] or [... x 1]
---@param w_scale Tensor|number f32, one number or one for each row of w: [n_out] or [n_out x 1]
---@param opts table|nil {bias = Tensor, activation = 'none', x_zero = 0, dtype = 'f32', y_scale =
---  Tensor|number, y_zero = 0}; a bias of i32 is in units of x_scale w_scale and added to the sums
---@return Tensor [... x n_out]
-- >> x = ridge.randn(2, 4); s = x:abs():max(-1, true) / 127; w = ridge.ones(3, 4, {dtype = 'i8'})
-- >> ridge.scaled_linear((x / s):round():to 'i8', w, s, 1)
-- >> ridge.scaled_linear(x, w, nil, 1)
function M.scaled_linear(x, w, x_scale, w_scale, opts)
  need(x, 'scaled_linear')
  need(w, 'scaled_linear')
  x_scale = x_scale ~= nil and run.number(x_scale, x, 'scaled_linear') or nil
  w_scale = run.number(w_scale, x, 'scaled_linear')
  opts = options.check(SETTINGS.spec, opts, 'scaled_linear')
  if opts.bias ~= nil then need(opts.bias, 'scaled_linear') end
  local y_scale = opts.y_scale ~= nil and run.number(opts.y_scale, x, 'scaled_linear') or nil
  call.settle()
  local args = SETTINGS.write({}, opts, 'scaled_linear') -- what C is given, by its names
  local linear = linear_t()
  linear.act, linear.dtype = args.act, args.dtype
  linear.x_zero, linear.y_zero = args.x_zero, args.y_zero
  local b = opts.bias ~= nil and opts.bias._t or nil
  local x_t, y_t = x_scale and x_scale._t or nil, y_scale and y_scale._t or nil
  local st = C.rg_scaled_linear_with(x._t, w._t, x_t, w_scale._t, b, y_t, linear, slot)
  if st ~= 0 then
    call.again(st, C.rg_scaled_linear_with, x._t, w._t, x_t, w_scale._t, b, y_t, linear, slot)
  end
  return ref.wrap(slot[0])
end

-- -- Convolution --------------------------------------------------------------------------------

local CONV = settings.of(schema.of 'scaled_conv2d', {
  as = { stride = false, dilation = false, pad_low = false, pad_high = false, groups = false,
    layout = false, act = 'activation' },
  rules = { bias = { 'any', doc = 'one number for each channel of the result' },
    y_scale = Y_SCALE, activation = { doc = 'applied to the result' },
    dtype = { choices = RESULTS } },
})
local CONV_OPTIONS = {}
for _, spec in ipairs { image.CONV, CONV.spec } do
  for name, rule in pairs(spec) do CONV_OPTIONS[name] = rule end
end
local conv_t = ffi.typeof 'rg_scaled_conv2d_options'

--- Convolution of bytes: act(x_scale w_scale conv2d(x - x_zero, w) + bias), with exact sums; what
--- is around an image stands for 0.  With dtype 'i8' or 'u8' the result is bytes as well:
--- round(y (1 / y_scale)) + y_zero, saturated.  A bias of i32 is in units of x_scale w_scale and
--- added to the sums, on the CPU.  Channels last ('nhwc') are read where they lie, and
--- a weight (set_param) is packed once.  No gradient goes through it.
---@param x Tensor [n x c x h x w] of i8 or u8, channels last with layout = 'nhwc'
---@param w Tensor [o x c/groups x kh x kw] of i8
---@param x_scale Tensor|number f32, one number
---@param w_scale Tensor|number f32, one number or one for each channel of the result: [o]
---@param opts table|nil {bias = Tensor, activation = 'none', x_zero = 0, dtype = 'f32', y_scale =
---  Tensor|number, y_zero = 0, stride = 1, padding = 0, dilation = 1, groups = 1, layout = 'nchw'}
---@return Tensor
-- >> x = ridge.ones(1, 4, 4, 2, {dtype = 'u8'}); w = ridge.ones(3, 2, 3, 3, {dtype = 'i8'})
-- >> ridge.scaled_conv2d(x, w, 0.5, 1, { layout = 'nhwc', padding = 1 }).shape
function M.scaled_conv2d(x, w, x_scale, w_scale, opts)
  need(x, 'scaled_conv2d')
  need(w, 'scaled_conv2d')
  x_scale = run.number(x_scale, x, 'scaled_conv2d')
  w_scale = run.number(w_scale, x, 'scaled_conv2d')
  opts = options.check(CONV_OPTIONS, opts, 'scaled_conv2d')
  if opts.bias ~= nil then need(opts.bias, 'scaled_conv2d') end
  local y_scale = opts.y_scale ~= nil and run.number(opts.y_scale, x, 'scaled_conv2d') or nil
  call.settle()
  local shape, conv = w._t._ndim == 4 and w._t._shape or nil, conv_t()
  image.write_conv(conv.conv, opts, shape and tonumber(shape[2]) or 1,
    shape and tonumber(shape[3]) or 1, 'scaled_conv2d')
  local args = CONV.write({}, opts, 'scaled_conv2d')
  conv.conv.act = args.act
  conv.more.x_zero, conv.more.y_zero, conv.more.dtype = args.x_zero, args.y_zero, args.dtype
  local b = opts.bias ~= nil and opts.bias._t or nil
  local y_t = y_scale and y_scale._t or nil
  local st = C.rg_scaled_conv2d(x._t, w._t, x_scale._t, w_scale._t, b, y_t, conv, slot)
  if st ~= 0 then
    call.again(st, C.rg_scaled_conv2d, x._t, w._t, x_scale._t, w_scale._t, b, y_t, conv, slot)
  end
  return ref.wrap(slot[0])
end

return M
