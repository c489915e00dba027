-- SPDX-License-Identifier: MIT
--- What layers with a known range share: the scale of their input, a bias that is counted in whole
--- numbers, and bytes that stay bytes for the layer behind.

local in_no_grad = require('ridge.tensor.grad').no_grad
local make = require 'ridge.tensor.make'
local int8 = require 'ridge.quant.int8'
local scheme = require 'ridge.quant.scheme'

local M = {}

local MOST = 2 ^ 31 - 1
local NOTHING = 2 ^ -10 -- of the largest weight: what is next to nothing

-- A bias in steps of both scales.
local function steps_of(bias, scale, x_scale)
  return (bias / (scale:to 'f64' * x_scale)):round()
end

-- Scales with which a bias of many steps has room. A row whose weights are nothing, or next to
-- nothing beside those of other rows (a channel that died), takes a coarser one: its products
-- together are off by less than 255 n / 2 room of its bias. nil where that were more than 2^-8, or
-- where other rows would have to take them too.
local function coarser(weight, bias, scale, x_scale, room)
  local n = weight.count / weight:size(1)
  if not (room > 0) or scale.count == 1 and weight:abs():max():item() > 0 then return nil end
  local least = (bias:abs() / (x_scale * room * (1 - 2 ^ -20))):to 'f32'
  if scale.count == 1 then least = least:max():reshape(1) end
  local rows = weight:detach():reshape(weight:size(1), -1):abs():max(2)
  local coarse = least:gt(scale)
  local function any(most) return rows:gt(most):logical_and(coarse):any():item() == 1 end
  if any(rows:max() * NOTHING) or 255 * n / (2 * room) > 2 ^ -8 and any(0) then return nil end
  return least:maximum(scale)
end

--- A weight, its scales, an input's scale and a bias, as buffers of a layer; the bias is in units
--- of both scales, so that it is added to sums of whole numbers.
---@param self table layer
---@param from table float layer
---@param opts table per, name, lo, hi (range of the input), dtype ('u8' or 'i8')
---@return string|nil why the layer cannot be one
function M.fill(self, from, opts)
  local weight, scale = int8.of_weight(from.weight, opts.per, opts.name)
  local x_scale, x_zero = scheme.of(opts.lo, opts.hi, opts.dtype)
  local bias = from.bias and in_no_grad(function() return from.bias:detach():to 'f64' end)
  -- the sums take their part of i32: each product is at most 255 * 128, as the product has it
  local room = MOST - 255 * 128 * (weight.count / weight:size(1))
  local whole = bias and in_no_grad(steps_of, bias, scale, x_scale)
  if bias and not (whole:abs():max():item() <= room) then
    local least = in_no_grad(coarser, from.weight, bias, scale, x_scale, room)
    if least then
      weight, scale = int8.of_weight(from.weight, opts.per, opts.name, least)
      whole = in_no_grad(steps_of, bias, scale, x_scale)
    end
  end
  self.x_zero, self.x_dtype = x_zero, opts.dtype
  local own = from.weight.dtype
  self.answers = (own == 'bf16' or own == 'f16') and own or 'f32'
  self:buffer('weight', weight)
  self:buffer('weight_scale', scale)
  self:buffer('x_scale', make.full(x_scale, 1, { device = weight.device }))
  self:buffer('x_zero_point', make.full(x_zero, 1, { device = weight.device, dtype = opts.dtype }))
  if not bias then
    self:without('bias')
    return nil
  end
  local most = whole:abs():max():item()
  if not (most <= room) then
    return ('its bias is %.3g steps of the scales of input and weight, and sums in i32 have room '
      .. 'for %.3g'):format(most, math.max(room, 0))
  end
  self:buffer('bias', whole:to 'i32')
  return nil
end

--- Let a layer give bytes for those behind it.
---@param self table layer
---@param kind table dtype, zero, scale of what they take
function M.hand_on(self, kind)
  self.out = { dtype = kind.dtype, zero = kind.zero }
  self:buffer('y_scale', kind.scale:clone())
end

--- How often numbers change between f32 and bytes in a call.
---@param self table layer
---@return integer
function M.conversions(self)
  return (self.fed and 0 or 1) + (self.out and 0 or 1)
end

return M
