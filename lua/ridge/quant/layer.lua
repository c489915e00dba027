-- SPDX-License-Identifier: MIT
--- What quantized layers have in common: they are in evaluation mode, no gradient goes through
--- them, and what they hold stays what it is.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local base = require 'ridge.nn.layer'
local parameter = require 'ridge.nn.parameter'
local products = require 'ridge.quant.products'
local recording = require('ridge.tensor.grad').recording

local M = {}

local Layer = class('quant.Layer', base.Layer)

--- A layer without parameters, in evaluation mode.
function Layer:init()
  base.Layer.init(self)
  self.training = false
end

--- Quantized layers stay in evaluation mode.
function Layer:_refuse_training()
  blame.raise(('%s: a quantized layer is not trained: quant.prepare(net) trains with rounding, '
    .. 'and quant.convert makes the quantized net of that'):format(getmetatable(self).__name),
    'EARG')
end

--- Move to a device. Bytes and scales keep their types; with a float type nothing changes, because
--- a layer answers in the type that it is asked in.
---@param name string 'cpu' or 'cuda:0', or a float type
---@param made table|nil what was converted already
---@return table self
function Layer:to(name, made)
  if dtype.is_device(name) then return base.Layer.to(self, name, made) end
  dtype.code(name, getmetatable(self).__name .. ':to')
  parameter.made(made)
  return self
end

--- Raise where a gradient would have to come back through the layer.
---@param x Tensor
function Layer:no_gradient(x)
  if C.rg_requires_grad(x._t) == 1 and recording() then
    blame.raise(('%s: no gradient goes through rounding to whole numbers: call it in '
      .. 'ridge.inference, or train with quant.prepare(net)'):format(getmetatable(self).__name),
      'EARG')
  end
end

local ANSWER = { bf16 = 'bf16', f16 = 'f16' }

--- The type that a layer answers in: that of x, or for bytes that of the weight it was made of.
---@param self table layer
---@param x Tensor
---@return string
function M.answer(self, x)
  return ANSWER[x.dtype] or x.dtype == self.x_dtype and self.answers or 'f32'
end

--- What comes into a layer of a known range, as bytes.
---@param self table layer
---@param x Tensor numbers, or bytes that the layer before gave
---@return Tensor
function M.bytes_of(self, x)
  -- bytes of anybody else are no numbers in units of x_scale
  if self.fed and x.dtype == self.x_dtype then return x end
  return products.quantize(self, x)
end

--- What a known range adds to a layer's text.
---@param self table layer
---@return string
function M.range_text(self)
  if not self.x_dtype then return '' end
  return (', input %s with zero at %d%s'):format(self.x_dtype, self.x_zero,
    self.out and ', bytes on' or '')
end

M.Layer = Layer

return M
