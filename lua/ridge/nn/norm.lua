-- SPDX-License-Identifier: MIT
--- Normalisation over the last axis, and vectors that are looked up by number.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local base = require 'ridge.nn.layer'
local blame = require 'ridge.blame'
local make_tensor = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'

local M = {}

local EPS = { 'number', default = 1e-5, min = 0, max = 1e300, doc = 'added to the variance' }
local AFFINE = { 'boolean', default = true, doc = 'a weight for each element' }

local Normal = class('nn.Norm', base.Layer)

function Normal:begin(n, opts, rms)
  base.Layer.init(self)
  base.sizes(getmetatable(self).__name, n)
  self.n_in, self.n_out, self.eps, self.rms = n, n, opts.eps, rms and 1 or 0
  self:may('weight', opts.affine and base.filled(1, n))
  self:may('bias', opts.affine and opts.bias and base.filled(0, n))
  self:settle()
end

function Normal:forward(x)
  if not ref.is(x) then ref.need(x, getmetatable(self).__name) end
  call.settle()
  local tensors = self._tensors
  local weight, bias = tensors.weight, tensors.bias
  if self._wrapped then weight, bias = self.weight, self.bias end
  local w, b = nil, nil
  if weight then w = weight._t end
  if bias then b = bias._t end
  local st = C.rg_layer_norm(x._t, w, b, self.eps, self.rms, ref.slot)
  if st ~= 0 then
    ref.need(x, getmetatable(self).__name)
    call.again(st, C.rg_layer_norm, x._t, w, b, self.eps, self.rms, ref.slot)
  end
  return ref.wrap(ref.slot[0])
end

function Normal:measure(f)
  base.Layer.measure(self, f)
  f.flops_per_row = 8 * self.n_in
end

function Normal:__tostring()
  return ('%s(%d, eps %g)'):format(getmetatable(self).__name, self.n_in, self.eps)
end

-- A class of them.
local function normal(name, init)
  local Norm = class(name, Normal)
  Norm.init = init
  return Norm
end

local LAYER = { eps = EPS, affine = AFFINE,
  bias = { 'boolean', default = true, doc = 'and a bias' } }

--- Layer normalisation (Ba et al., 2016): rows with mean 0 and variance 1.
-- >> ridge.nn.LayerNorm(4)(ridge.randn(2, 4))
M.LayerNorm = normal('nn.LayerNorm', function(self, n, opts)
  self:begin(n, options.check(LAYER, opts, 'nn.LayerNorm'), false)
end)
M.LayerNorm.__doc = 'LayerNorm(n, {eps = 1e-5, affine = true, bias = true}): rows of the last axis '
  .. 'with mean 0 and variance 1 (Ba et al., 2016), times a weight, plus a bias.'

local RMS = { eps = EPS, affine = AFFINE }

--- Normalisation by the root of the mean square alone (Zhang and Sennrich, 2019).
-- >> ridge.nn.RMSNorm(4)(ridge.randn(2, 4))
M.RMSNorm = normal('nn.RMSNorm', function(self, n, opts)
  self:begin(n, options.check(RMS, opts, 'nn.RMSNorm'), true)
end)
M.RMSNorm.__doc = 'RMSNorm(n, {eps = 1e-5, affine = true}): rows of the last axis by the root of '
  .. 'their mean square (Zhang and Sennrich, 2019), times a weight.'

-- -- Groups of channels ---------------------------------------------------------------------------

local GroupNorm = class('nn.GroupNorm', Module)
local GROUP = { eps = EPS, affine = AFFINE }

--- Group normalisation (Wu and He, 2018): the channels of an image fall into groups, each of which
--- gets mean 0 and variance 1 by itself.
---@param groups number
---@param n number channels, a multiple of the groups
---@param opts table|nil {eps = 1e-5, affine = true}
-- >> ridge.nn.GroupNorm(2, 4)(ridge.randn(3, 4, 5, 5)).shape
function GroupNorm:init(groups, n, opts)
  Module.init(self)
  base.sizes('nn.GroupNorm', groups, n)
  opts = options.check(GROUP, opts, 'nn.GroupNorm')
  if n % groups ~= 0 then
    blame.raise(('nn.GroupNorm: %d channels do not fall into %d groups'):format(n, groups))
  end
  self.groups, self.n, self.eps = groups, n, opts.eps
  if opts.affine then
    self:param('weight', make_tensor.ones(n))
    self:param('bias', make_tensor.zeros(n))
  else
    self:without('weight', 'bias')
  end
end

--- Normalise.
---@param x Tensor [batch x channels x ...]
---@return Tensor
function GroupNorm:forward(x)
  ref.need(x, 'nn.GroupNorm')
  local shape = x:size()
  if #shape < 2 or shape[2] ~= self.n then
    blame.raise(('nn.GroupNorm: x is %s, wanted %d channels on axis 2'):format(x:describe(),
      self.n), 'ESHAPE')
  end
  call.settle()
  local weight, bias = call.pointer(self.weight), call.pointer(self.bias)
  call.run('nn.GroupNorm', C.rg_group_norm, x._t, weight, bias, self.groups, self.eps, ref.slot)
  return ref.wrap(ref.slot[0])
end

function GroupNorm:__tostring()
  return ('nn.GroupNorm(%d groups of %d, eps %g)'):format(self.groups, self.n, self.eps)
end

M.GroupNorm = GroupNorm

-- -- Embedding ------------------------------------------------------------------------------------

local Embedding = class('nn.Embedding', base.Layer)
local EMBEDDING = { seed = base.SEED }

--- A table of vectors, looked up by number from 0.
---@param rows number how many there are
---@param n number size of each
---@param opts table|nil {seed =}; the numbers begin normal
-- >> ridge.nn.Embedding(10, 3, {seed = 1})(ridge.tensor({0, 9}, {dtype = 'i64'})).shape
function Embedding:init(rows, n, opts)
  base.Layer.init(self)
  base.sizes('nn.Embedding', rows, n)
  opts = options.check(EMBEDDING, opts, 'nn.Embedding')
  self.n_in, self.n_out = rows, n
  self:param('weight', base.draws(base.seed_of(opts.seed)):normal(rows, n))
  self:settle()
end

--- Look up.
---@param x Tensor [...] of an integer type
---@return Tensor [... x n]
function Embedding:forward(x)
  if not ref.is(x) then ref.need(x, 'nn.Embedding') end
  call.settle()
  local weight = self._tensors.weight or self.weight
  local st = C.rg_take(weight._t, x._t, ref.slot)
  if st ~= 0 then
    ref.need(x, 'nn.Embedding')
    call.again(st, C.rg_take, weight._t, x._t, ref.slot)
  end
  return ref.wrap(ref.slot[0])
end

--- Counts of the weights, for facts.
---@param f table
function Embedding:measure(f)
  base.Layer.measure(self, f)
  f.flops_per_row = 0
end

M.Embedding = Embedding

return M
