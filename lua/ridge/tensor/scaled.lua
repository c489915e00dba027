-- SPDX-License-Identifier: MIT
--- Products of 8-bit factors with the scales that they stand for.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local schema = require 'ridge.tensor.schema'
local settings = require 'ridge.tensor.settings'

local M = {}

local need, slot = ref.need, ref.slot

local SETTINGS = settings.of(schema.of 'scaled_linear', {
  as = { act = 'activation' },
  rules = { bias = { 'any', doc = 'one number for each row of w' },
    dtype = { choices = { 'f32', 'bf16', 'f16' } } },
})
local args = {} -- what C is given, by its names

-- A number becomes a tensor where x is.
local function scale_of(scale, x)
  if type(scale) == 'number' then
    return make.full(scale, 1, { device = x.device })
  end
  return need(scale, 'scaled_linear')
end

--- act((x w') x_scale w_scale + bias) of factors of 8 bits.  Sums of i8 are exact, in i32; all
--- else is computed in f32, but for sums of 8-bit floats by cublasLt: its tensor cores keep about
--- 13 bits of them (ridge.backend { vendor = false } adds them up in f32).  No gradient goes
--- through it.
---@param x Tensor [... x n_in] of i8, f8e4m3 or f8e5m2
---@param w Tensor [n_out x n_in]; i8 beside i8, with n_in at most 131071; else f8e4m3 or f8e5m2
---@param x_scale Tensor|number f32, one number or one for each row of x: [...] or [... x 1]
---@param w_scale Tensor|number f32, one number or one for each row of w: [n_out] or [n_out x 1]
---@param opts table|nil {bias = Tensor, activation = 'none', dtype = 'f32'}
---@return Tensor [... x n_out]
-- >> x = ridge.randn(2, 4); s = x:abs():max(-1, true) / 127; w = ridge.ones(3, 4, {dtype = 'i8'})
-- >> ridge.scaled_linear((x / s):round():to 'i8', w, s, 1)
function M.scaled_linear(x, w, x_scale, w_scale, opts)
  need(x, 'scaled_linear')
  need(w, 'scaled_linear')
  x_scale, w_scale = scale_of(x_scale, x), scale_of(w_scale, x)
  opts = options.check(SETTINGS.spec, opts, 'scaled_linear')
  local b = opts.bias ~= nil and need(opts.bias, 'scaled_linear')._t or nil
  SETTINGS.write(args, opts, 'scaled_linear')
  local act, code = args.act, args.dtype
  call.settle()
  local st = C.rg_scaled_linear(x._t, w._t, x_scale._t, w_scale._t, b, act, code, slot)
  if st ~= 0 then
    call.again(st, C.rg_scaled_linear, x._t, w._t, x_scale._t, w_scale._t, b, act, code, slot)
  end
  return ref.wrap(slot[0])
end

return M
