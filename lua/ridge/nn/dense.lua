-- SPDX-License-Identifier: MIT
--- Dense and low-rank linear layers.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local base = require 'ridge.nn.layer'

local M = {}

local slot = ref.slot
local Layer = base.Layer

-- -- Dense --------------------------------------------------------------------------------------

local Linear = class('nn.Linear', Layer)
local LINEAR = { bias = base.BIAS, seed = base.SEED, activation = base.ACTIVATION,
  dropout = base.DROPOUT }

Linear.is_dense_like = true

local function set(self, n_in, n_out, activation, p)
  self.n_in, self.n_out = n_in, n_out
  self.activation, self.act, self.p = activation, base.ACT[activation], p
end

--- A dense layer, y = dropout(act(x W' + b)) in one pass; weight and bias begin uniform in
--- +-1/sqrt(n_in).
---@param n_in number
---@param n_out number
---@param opts table|nil {bias = true, seed =, activation = 'none', dropout = 0}
-- >> ridge.nn.Linear(8, 4)(ridge.ones(2, 8)).shape
function Linear:init(n_in, n_out, opts)
  Layer.init(self)
  base.sizes('nn.Linear', n_in, n_out)
  opts = options.check(LINEAR, opts, 'nn.Linear')
  set(self, n_in, n_out, opts.activation, opts.dropout)
  local draws = base.draws(base.seed_of(opts.seed))
  self:param('weight', draws:uniform(1 / math.sqrt(n_in), n_out, n_in))
  self:may('bias', opts.bias and draws:uniform(1 / math.sqrt(n_in), n_out))
  self:settle()
end

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out]
function Linear:forward(x)
  if not ref.is(x) then ref.need(x, 'nn.Linear') end
  call.settle()
  local tensors = self._tensors
  local weight, bias = tensors.weight or self.weight, tensors.bias
  if not bias and self._wrapped then bias = self.bias end
  local b = nil
  if bias then b = bias._t end
  local st
  if self.p > 0 and self.training then
    st = C.rg_linear_dropout(x._t, weight._t, b, self.act, self.p, nil, slot)
    if st ~= 0 then
      ref.need(x, 'nn.Linear')
      call.again(st, C.rg_linear_dropout, x._t, weight._t, b, self.act, self.p, nil, slot)
    end
  else
    st = C.rg_linear(x._t, weight._t, b, self.act, slot)
    if st ~= 0 then
      ref.need(x, 'nn.Linear')
      call.again(st, C.rg_linear, x._t, weight._t, b, self.act, slot)
    end
  end
  return ref.wrap(slot[0])
end

M.Linear = Linear

-- -- Low rank -----------------------------------------------------------------------------------

local LowRankLinear = class('nn.LowRankLinear', Layer)
local LOWRANK = { rank = { 'integer', required = true, min = 1, doc = 'inner size k' },
                  bias = base.BIAS, seed = base.SEED, activation = base.ACTIVATION }
local LOWRANK_FROM = { rank = LOWRANK.rank }

LowRankLinear.is_dense_like = true

--- A layer of rank k, y = act((x A) B + b): the equal-bytes rival of a sketch with 2TR = k.
---
--- A begins uniform in +-1/sqrt(n_in), B in +-sqrt(3 / rank): x A has a third of the variance of x,
--- and y then has that of a dense layer's.
---@param n_in number
---@param n_out number
---@param opts table {rank =, bias = true, seed =, activation = 'none'}
function LowRankLinear:init(n_in, n_out, opts)
  Layer.init(self)
  base.sizes('nn.LowRankLinear', n_in, n_out)
  opts = options.check(LOWRANK, opts, 'nn.LowRankLinear')
  set(self, n_in, n_out, opts.activation, 0)
  self.rank = opts.rank
  local draws = base.draws(base.seed_of(opts.seed))
  self:param('A', draws:uniform(1 / math.sqrt(n_in), n_in, opts.rank))
  self:param('B', draws:uniform(math.sqrt(3 / opts.rank), opts.rank, n_out))
  self:may('bias', opts.bias and draws:uniform(1 / math.sqrt(n_in), n_out))
  self:settle()
end

--- Raise unless it is a dense layer.
---@param dense any
---@param what string
function M.need_dense(dense, what)
  if type(dense) ~= 'table' or getmetatable(dense) ~= Linear then
    blame.raise(('%s: a dense layer (nn.Linear) is expected'):format(what))
  end
end

--- The best layer of a rank for a dense one, by its singular value decomposition.
--- It is worked out on the CPU, as every layer is made there, and goes to where the dense one is.
---@param dense table nn.Linear
---@param opts table {rank =}
---@return table nn.LowRankLinear
function LowRankLinear.from(dense, opts)
  M.need_dense(dense, 'nn.LowRankLinear.from')
  opts = options.check(LOWRANK_FROM, opts, 'nn.LowRankLinear.from')
  local weight, bias = dense.weight:detach():to 'cpu', dense.bias
  local self = setmetatable({}, LowRankLinear)
  Layer.init(self)
  set(self, dense.n_in, dense.n_out, dense.activation, 0)
  self.rank = opts.rank
  call.settle()
  local made = ref.slots()
  call.run('nn.LowRankLinear.from', C.rg_lowrank_factors, weight._t, opts.rank, made, made + 1)
  local a, b = ref.wrap(made[0]), ref.wrap(made[1])
  self:param('A', a)
  self:param('B', b)
  self:may('bias', bias and bias:detach():to('cpu'):clone())
  return self:beside(dense)
end

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out]
function LowRankLinear:forward(x)
  if not ref.is(x) then ref.need(x, 'nn.LowRankLinear') end
  call.settle()
  local tensors = self._tensors
  local a, b, bias = tensors.A or self.A, tensors.B or self.B, tensors.bias
  if not bias and self._wrapped then bias = self.bias end
  local pointer = nil
  if bias then pointer = bias._t end
  local st = C.rg_lowrank_linear(x._t, a._t, b._t, pointer, self.act, slot)
  if st ~= 0 then
    ref.need(x, 'nn.LowRankLinear')
    call.again(st, C.rg_lowrank_linear, x._t, a._t, b._t, pointer, self.act, slot)
  end
  return ref.wrap(slot[0])
end

--- Counts of the weights, for facts.
---@param f table
function LowRankLinear:measure(f)
  f.low_rank = self.rank
  f.stored_count = self.rank * (self.n_in + self.n_out)
  f.trainable_count = f.stored_count
end

--- The matrix the layer multiplies by, (A B)'.
---@return Tensor [n_out x n_in]
function LowRankLinear:effective_weight()
  return self.B:t():matmul(self.A:t())
end

M.LowRankLinear = LowRankLinear

return M
