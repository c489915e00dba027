-- SPDX-License-Identifier: MIT
--- The largest of each window, of numbers or of bytes: rounding keeps the order, so that pooling
--- bytes gives the bytes of what pooling gives.

local C = require 'ridge.ffi.lib'
local class = require('ridge.class').class
local image = require 'ridge.tensor.image'
local ref = require 'ridge.ffi.ref'
local scaled_pool2d = require('ridge.tensor.bytes').scaled_pool2d
local Module = require 'ridge.nn.module'

local M = {}

local Pool = class('quant.MaxPool2d', Module)

--- Can it pool bytes? Padding is below all numbers, and there is no byte for that.
---@param from table nn.MaxPool2d
---@return boolean
function M.fits(from)
  local o = from.options
  return o.pad_low[0] == 0 and o.pad_low[1] == 0 and o.pad_high[0] == 0 and o.pad_high[1] == 0
end

--- Made by quant.static of a pooling that stands between layers that hand bytes on.
---@param from table nn.MaxPool2d
function Pool:init(from)
  Module.init(self)
  self.training, self.options = false, from.options
  self.rows, self.columns = from.rows, from.columns
  local rows, columns = tonumber(from.options.stride[0]), tonumber(from.options.stride[1])
  self.bytes = {
    stride = { rows > 0 and rows or self.rows, columns > 0 and columns or self.columns },
    layout = from.options.layout == C.RG_NHWC and 'nhwc' or 'nchw' }
end

--- Pool.
---@param x Tensor [n x c x rows x columns] of floats, i8 or u8
---@return Tensor
function Pool:forward(x)
  ref.need(x, 'quant.MaxPool2d')
  if x.dtype ~= 'i8' and x.dtype ~= 'u8' then return image.pool(x, 'max_pool2d', self.options) end
  return scaled_pool2d(x, { self.rows, self.columns }, self.bytes)
end

function Pool:__tostring()
  return ('quant.MaxPool2d(%dx%d, of bytes)'):format(self.rows, self.columns)
end

M.MaxPool2d = Pool

return M
