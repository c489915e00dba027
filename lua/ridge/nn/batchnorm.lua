-- SPDX-License-Identifier: MIT
--- Batch normalisation (Ioffe and Szegedy, 2015).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local recompute = require 'ridge.tensor.recompute'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local base = require 'ridge.nn.layer'
local Module = require 'ridge.nn.module'

local M = {}

--- By module: f(module, x), which normalises batches while training instead, over more than x; nil
--- of it leaves that to the module. A copy of the module is another one.
M.together = setmetatable({}, { __mode = 'k' })

local given_t = ffi.typeof 'rg_batch_norm_options'

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
  else
    self:without('weight', 'bias')
  end
  self:buffer('running_mean', make.zeros(n))
  self:buffer('running_var', make.ones(n))
end

--- Normalise.
---@param x Tensor [n x c], [n x c x ...] or, with layout = 'nhwc', [n x ... x c]
---@return Tensor
function BatchNorm:forward(x)
  ref.need(x, 'nn.BatchNorm')
  local others = self.training and M.together[self]
  local y = others and others(self, x)
  if y then return y end
  call.settle()
  local given = given_t()
  given.eps, given.momentum, given.axis = self.eps, self.momentum, self.layout == 'nhwc' and -1 or 1
  given.batch = self.training and 1 or 0
  given.keep = self.training and not recompute.again and 1 or 0 -- once a step
  -- not tried again when memory runs out: the batch may be in the running mean already
  local st = C.rg_batch_norm(x._t, self.weight and self.weight._t, self.bias and self.bias._t,
    self.running_mean._t, self.running_var._t, given, ref.slot)
  if st ~= 0 then call.fail(st, 'nn.BatchNorm') end
  return ref.wrap(ref.slot[0])
end

--- Axes that means of a batch are taken over, the shape of a number for each channel, and how many
--- elements each is of; nil where the layer refuses the batch.
---@param norm table
---@param x Tensor
---@return number[]|nil axes
---@return number[]|nil shape
---@return number|nil count
function M.axes(norm, x)
  local shape = x:size()
  local channels = norm.layout == 'nhwc' and #shape or 2
  if #shape < 2 or shape[channels] ~= norm.n then return nil end
  local axes, flat, count = {}, {}, 1
  for i, size in ipairs(shape) do
    flat[i] = i == channels and size or 1
    if i ~= channels then
      axes[#axes + 1], count = i, count * size
    end
  end
  return axes, flat, count
end

function BatchNorm:__tostring()
  return ('nn.BatchNorm(%d, eps %g)'):format(self.n, self.eps)
end

M.BatchNorm = BatchNorm

return M
