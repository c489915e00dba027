-- SPDX-License-Identifier: MIT
--- Attention by random features (Choromanski et al., Rethinking Attention with Performers, 2021):
--- exp(q k') is the mean of products of features, so softmax(q k') v takes time and memory as the
--- length, not as its square. What comes out is an estimate.

local C = require 'ridge.ffi.lib'
local base = require 'ridge.nn.layer'
local call = require 'ridge.ffi.call'
local options = require 'ridge.options'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'

local M = {}

--- The core's numbers of the kernels.
M.KERNEL = { softmax = C.RG_FEATURES_SOFTMAX, relu = C.RG_FEATURES_RELU }

--- Directions of random features: blocks of orthogonal rows, as long as normal rows are.
---@param features number how many
---@param size number numbers in a row, those of a head
---@param seed number|nil
---@return Tensor omega [features x size]
-- >> ridge.nn.random_features(8, 4, 1).shape
function M.random_features(features, size, seed)
  base.sizes('nn.random_features', features, size)
  local generator = seed and random.generator(seed) or nil
  local stream = random.pointer(generator, 'nn.random_features')
  call.settle()
  call.run('nn.random_features', C.rg_random_features, features, size, stream, ref.slot)
  return ref.wrap(ref.slot[0])
end

local SPEC = {
  kernel = { 'string', default = 'softmax', choices = { 'softmax', 'relu' },
    doc = 'what the features are of' },
  causal = { 'boolean', default = false, doc = 'no place sees those behind it' },
}

--- Attention by random features: the estimate phi(q) (phi(k)' v) / (phi(q) sum(phi(k))).
---@param q Tensor [... x n x d]
---@param k Tensor [... x m x d]; n as m if causal
---@param v Tensor [... x m x e]
---@param omega Tensor [features x d], of random_features
---@param opts table|nil {kernel = 'softmax', causal = false}
---@return Tensor y [... x n x e]
-- >> local q = ridge.randn(2, 5, 4)
-- >> return ridge.nn.feature_attention(q, q, q, ridge.nn.random_features(8, 4)).shape
function M.feature_attention(q, k, v, omega, opts)
  local what = 'nn.feature_attention'
  for _, x in ipairs { q, k, v, omega } do ref.need(x, what) end
  opts = options.check(SPEC, opts, what)
  local causal = opts.causal and 1 or 0
  call.settle()
  call.run(what, C.rg_feature_attention, q._t, k._t, v._t, omega._t, M.KERNEL[opts.kernel], causal,
    ref.slot)
  return ref.wrap(ref.slot[0])
end

return M
