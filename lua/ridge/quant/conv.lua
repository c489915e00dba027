-- SPDX-License-Identifier: MIT
--- A convolution in whole numbers of 8 bits.

local class = require('ridge.class').class
local ref = require 'ridge.ffi.ref'
local base = require 'ridge.quant.layer'
local fixed = require 'ridge.quant.fixed'
local products = require 'ridge.quant.products'

local M = {}

local Conv2d = class('quant.Conv2d', base.Layer)

-- Sizes of a convolution as scaled_conv2d takes them.
local function settings_of(from)
  local o = from.options
  local function n(x) return tonumber(x) end
  return { stride = { n(o.stride[0]), n(o.stride[1]) },
    dilation = { n(o.dilation[0]), n(o.dilation[1]) },
    padding = { n(o.pad_low[0]), n(o.pad_low[1]), n(o.pad_high[0]), n(o.pad_high[1]) },
    groups = math.max(1, n(o.groups)), layout = from.layout }
end

--- A convolution with weights in i8 and a known range of what comes in. Made by quant.static of a
--- layer that is there.
---@param from table nn.Conv2d
---@param opts table per, name, lo, hi, dtype
function Conv2d:init(from, opts)
  base.Layer.init(self)
  self.n_in, self.n_out, self.activation = from.n_in, from.n_out, from.activation
  self.kernel, self.layout = from.kernel, from.layout
  self.conv = settings_of(from)
  self.why = fixed.fill(self, from, opts)
end

--- Convolve.
---@param x Tensor [n x c_in x rows x columns], channels last with layout = 'nhwc'; or its bytes, as
---  the layer before gives them
---@return Tensor
function Conv2d:forward(x)
  ref.need(x, 'quant.Conv2d')
  self:no_gradient(x)
  return products.convolve(self, base.bytes_of(self, x), base.answer(self, x))
end

Conv2d.conversions = fixed.conversions

--- Counts of the weights, for facts.
---@param f table
function Conv2d:measure(f)
  f.stored_count = self.weight.count
  f.trainable_count = 0
end

function Conv2d:__tostring()
  return ('quant.Conv2d(%d -> %d, %dx%d%s, i8, %s%s)'):format(self.n_in, self.n_out,
    self.kernel[1], self.kernel[2], self.activation ~= 'none' and ', ' .. self.activation or '',
    self.weight_scale.count == 1 and 'one scale' or 'a scale for each output',
    base.range_text(self))
end

M.Conv2d = Conv2d

return M
