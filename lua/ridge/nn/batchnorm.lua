-- SPDX-License-Identifier: MIT
--- Batch normalisation (Ioffe and Szegedy, 2015), made of operations.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local grad = require 'ridge.tensor.grad'
local recompute = require 'ridge.tensor.recompute'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local base = require('ridge.nn.layer').base
local Module = require 'ridge.nn.module'

local M = {}

local BatchNorm = class('nn.BatchNorm', Module)
local SPEC = {
  eps = { 'number', default = 1e-5, min = 0, max = 1e300, doc = 'added to the variance' },
  momentum = { 'number', default = 0.1, min = 0, max = 1,
    doc = 'how much of a batch goes into the running mean and variance' },
  affine = { 'boolean', default = true, doc = 'a weight and a bias for each channel' },
  layout = { 'string', default = 'nchw', choices = { 'nchw', 'nhwc' },
    doc = 'channels second or last' },
}

--- Each channel with mean 0 and variance 1: of the batch while training, of what training saw in
--- evaluation mode.
---@param n number channels
---@param opts table|nil {eps = 1e-5, momentum = 0.1, affine = true, layout = 'nchw'}
-- >> ridge.nn.BatchNorm(3):train()(ridge.randn(4, 3, 5, 5)).shape
function BatchNorm:init(n, opts)
  Module.init(self)
  base.sizes('nn.BatchNorm', n)
  opts = options.check(SPEC, opts, 'nn.BatchNorm')
  self.n, self.eps, self.momentum, self.layout = n, opts.eps, opts.momentum, opts.layout
  if opts.affine then
    self:param('weight', make.ones(n))
    self:param('bias', make.zeros(n))
  end
  self:buffer('running_mean', make.zeros(n))
  self:buffer('running_var', make.ones(n))
end

-- The channels' axis, the others, and the shape of one number a channel beside x.
local function axes_of(self, x)
  local shape = x:size()
  local channel = self.layout == 'nhwc' and #shape or 2
  if #shape < 2 or shape[channel] ~= self.n then
    blame.raise(('nn.BatchNorm: x is %s, wanted %d channels on axis %d'):format(x:describe(),
      self.n, channel), 'ESHAPE')
  end
  local others, wide, count = {}, {}, 1
  for i, size in ipairs(shape) do
    wide[i] = i == channel and size or 1
    if i ~= channel then
      others[#others + 1] = i
      count = count * size
    end
  end
  return others, wide, count
end

-- The batch's mean and variance go into the running ones.
local function keep(self, mean, var, count)
  local m = self.momentum
  local function into(running, value, share)
    value = value:detach():reshape(self.n):to(running.dtype)
    running:mul_(1 - m):add_(value * share)
  end
  grad.no_grad(function()
    into(self.running_mean, mean, m)
    into(self.running_var, var, m * count / (count - 1))
  end)
end

--- Normalise.
---@param x Tensor [n x c], [n x c x ...] or, with layout = 'nhwc', [n x ... x c]
---@return Tensor
function BatchNorm:forward(x)
  ref.need(x, 'nn.BatchNorm')
  local others, wide, count = axes_of(self, x)
  local y
  if self.training then
    if count < 2 then
      blame.raise(('nn.BatchNorm: one value a channel in %s has no variance; train with more rows')
        :format(x:describe()), 'EARG')
    end
    local mean = x:mean(others, true)
    local centred = x - mean
    local var = centred:square():mean(others, true)
    if not recompute.again then keep(self, mean, var, count) end -- once a step
    y = centred * (var + self.eps):rsqrt()
  else
    y = (x - self.running_mean:reshape(unpack(wide)))
      * (self.running_var + self.eps):rsqrt():reshape(unpack(wide))
  end
  if not self.weight then return y end
  return y * self.weight:reshape(unpack(wide)) + self.bias:reshape(unpack(wide))
end

function BatchNorm:__tostring()
  return ('nn.BatchNorm(%d, eps %g)'):format(self.n, self.eps)
end

M.BatchNorm = BatchNorm

return M
