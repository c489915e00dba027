-- SPDX-License-Identifier: MIT
--- Normalisation over the last axis, and vectors that are looked up by number.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local base = require('ridge.nn.layer').base
local options = require 'ridge.options'

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

local RMS = { eps = EPS, affine = AFFINE }

--- Normalisation by the root of the mean square alone (Zhang and Sennrich, 2019).
-- >> ridge.nn.RMSNorm(4)(ridge.randn(2, 4))
M.RMSNorm = normal('nn.RMSNorm', function(self, n, opts)
  make(self, 'nn.RMSNorm', n, options.check(RMS, opts, 'nn.RMSNorm'), true)
end)

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
