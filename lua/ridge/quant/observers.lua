-- SPDX-License-Identifier: MIT
--- What looks at values while a net is calibrated, and what range it makes of them.

local blame = require 'ridge.blame'
local histogram = require 'ridge.quant.histogram'
local in_no_grad = require('ridge.tensor.grad').no_grad
local ranges = require 'ridge.quant.ranges'

local M = {}

--- Their names.
M.NAMES = { 'minmax', 'average', 'percentile', 'entropy', 'mse' }

local AVERAGE = 0.01 -- how much of a batch goes into the average, PyTorch's averaging_constant
local LIES = { percentile = true, entropy = true, mse = true }

local Observer = {}
Observer.__index = Observer

--- Observers of one layer's input. minmax takes the outermost of all batches; average moves its
--- range by 0.01 of the way to each batch's; the others choose from a histogram.
---@param kind string of NAMES
---@param opts table dtype, percentile
---@param name string the layer, for errors
---@return table observer
function M.new(kind, opts, name)
  return setmetatable({ kind = kind, dtype = opts.dtype, share = opts.percentile / 100, name = name,
    n = 0, h = LIES[kind] and histogram.new() or nil }, Observer)
end

--- Look at a tensor.
---@param x Tensor
function Observer:add(x)
  if x.count == 0 then return end
  in_no_grad(function()
    local lo, hi = x:min():item(), x:max():item()
    if not (lo > -math.huge and hi < math.huge) then -- nan wins in minimum and maximum
      blame.raise(('%s: what comes in has nan or inf in it, and no range (batch %d)'):format(
        self.name, self.n + 1), 'EARG')
    end
    self.lo, self.hi = math.min(self.lo or lo, lo), math.max(self.hi or hi, hi)
    if self.n == 0 then
      self.mean_lo, self.mean_hi = lo, hi
    else
      self.mean_lo = self.mean_lo + AVERAGE * (lo - self.mean_lo)
      self.mean_hi = self.mean_hi + AVERAGE * (hi - self.mean_hi)
    end
    if self.h then self.h:add(x, math.max(-lo, hi, 0)) end
    self.n = self.n + 1
  end)
end

--- The range of what was seen.
---@return number lo
---@return number hi
function Observer:range()
  if self.n == 0 then
    blame.raise(('%s: it never ran with the calibration data, so that nothing is known of what '
      .. 'comes in: name it in skip'):format(self.name), 'EARG')
  end
  if self.lo == self.hi then
    blame.raise(('%s: everything that came in is %g: a constant has no range; name it in skip')
      :format(self.name, self.lo), 'EARG')
  end
  if self.kind == 'minmax' then return self.lo, self.hi end
  if self.kind == 'average' then return self.mean_lo, self.mean_hi end
  if self.kind == 'percentile' then return ranges.percentile(self.h, self.share) end
  return ranges[self.kind](self.h, self.lo, self.hi, self.dtype)
end

return M
