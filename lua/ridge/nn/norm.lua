-- SPDX-License-Identifier: MIT
--- Normalisation over the last axis, and vectors that are looked up by number.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local base = require('ridge.nn.layer').base
local blame = require 'ridge.blame'
local make_tensor = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'

local M = {}

local given = ffi.new('rg_norm_options')

local EPS = { 'number', default = 1e-5, min = 0, max = 1e300, doc = 'added to the variance' }
local AFFINE = { 'boolean', default = true, doc = 'a weight for each element' }

local function make(self, what, n, opts, rms)
  base.sizes(what, n)
  given.eps, given.rms = opts.eps, rms and 1 or 0
  given.weight, given.bias = opts.affine and 1 or 0, opts.affine and opts.bias and 1 or 0
  call.check(C.rg_norm_layer(n, given, base.slot))
  self.eps = opts.eps
  base.adopt(self)
end

local function text(self)
  return ('%s(%d, eps %g)'):format(getmetatable(self).__name, self:facts().n_in, self.eps)
end

-- The class and what it keeps beside the core's layer.
local function normal(name, init)
  local Norm = class(name, base.Layer)
  Norm.init = init
  Norm.__tostring = text
  function Norm:clone()
    local copy = base.Layer.clone(self)
    copy.eps = self.eps
    return copy
  end
  return Norm
end

local LAYER = { eps = EPS, affine = AFFINE,
  bias = { 'boolean', default = true, doc = 'and a bias' } }

--- Layer normalisation (Ba et al., 2016): rows with mean 0 and variance 1.
-- >> ridge.nn.LayerNorm(4)(ridge.randn(2, 4))
M.LayerNorm = normal('nn.LayerNorm', function(self, n, opts)
  make(self, 'nn.LayerNorm', n, options.check(LAYER, opts, 'nn.LayerNorm'), false)
end)
M.LayerNorm.__doc = 'LayerNorm(n, {eps = 1e-5, affine = true, bias = true}): rows of the last axis '
  .. 'with mean 0 and variance 1 (Ba et al., 2016), times a weight, plus a bias.'

local RMS = { eps = EPS, affine = AFFINE }

--- Normalisation by the root of the mean square alone (Zhang and Sennrich, 2019).
-- >> ridge.nn.RMSNorm(4)(ridge.randn(2, 4))
M.RMSNorm = normal('nn.RMSNorm', function(self, n, opts)
  make(self, 'nn.RMSNorm', n, options.check(RMS, opts, 'nn.RMSNorm'), true)
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
  local weight, bias = call.pointer(self.weight), call.pointer(self.bias)
  call.settle()
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
---@param opts table|nil {seed =}
-- >> ridge.nn.Embedding(10, 3, {seed = 1})(ridge.tensor({0, 9}, {dtype = 'i64'})).shape
function Embedding:init(rows, n, opts)
  base.sizes('nn.Embedding', rows, n)
  opts = options.check(EMBEDDING, opts, 'nn.Embedding')
  call.check(C.rg_embedding_layer(rows, n, base.seed_of(opts.seed), base.slot))
  base.adopt(self)
end

M.Embedding = Embedding

return M
