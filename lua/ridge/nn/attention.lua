-- SPDX-License-Identifier: MIT
--- Multi-head attention (Vaswani et al., 2017), and the transformer block around it.
---
--- xFormers (F93) is a package for PyTorch: what it is taken for there, attention in memory that
--- grows with the length, is attention by tiles here, and nothing is to be integrated.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local options = require 'ridge.options'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'
local parameter = require 'ridge.nn.parameter'
local activation = require 'ridge.nn.activation'
local feature = require 'ridge.nn.feature_attention'
local base = require 'ridge.nn.layer'
local linear = require 'ridge.nn.dense'
local norm = require 'ridge.nn.norm'

local M = {}

local SEED = base.SEED

-- Seeds of parts: each its own where one is given.
local function seeds(seed)
  local n = 0
  return function()
    n = n + 1
    return seed and seed + n or nil
  end
end

-- -- Of tensors ---------------------------------------------------------------------------------

local given_t, heads_t = ffi.typeof 'rg_attention_options', ffi.typeof 'rg_heads_options'
local OF = {
  scale = { 'number', min = -1e30, max = 1e30, doc = 'of the scores; 1 / sqrt(d) when left out' },
  causal = { 'boolean', default = false, doc = 'query i sees keys 1 .. i' },
  mask = { 'any', doc = 'which blocks of scores there are, a bool each; the others cost nothing' },
  block = { 'integer', default = 64, min = 1, max = 2 ^ 30, doc = 'side of a block of the mask' },
  dropout = { 'number', default = 0, min = 0, max = 0.999, doc = 'of the weights' },
  generator = { 'table|cdata', doc = 'a random stream made by ridge.generator, for dropout' },
}

--- Scaled dot-product attention, softmax(scale q k') v, a tile at a time: memory grows with the
--- length (Dao et al., FlashAttention, 2022), forward and back, with dropout too: the weights that
--- it drops are those which x:dropout(p) drops of the matrix of all weights [... x n x m].
---@param q Tensor [... x n x d]
---@param k Tensor [... x m x d], leading axes as those of q
---@param v Tensor [... x m x e]
---@param opts table|nil {scale = 1 / sqrt(d), causal = false, mask = Tensor, block = 64,
---  dropout = 0, generator =}; the mask, bool [n / block x m / block] rounded up, says which blocks
---  of scores there are; FLOPs that are counted are those of all blocks
---@return Tensor y [... x n x e]
-- >> local q = ridge.randn(2, 5, 4); return ridge.nn.attention(q, q, q, {causal = true}).shape
function M.attention(q, k, v, opts)
  ref.need(q, 'nn.attention')
  ref.need(k, 'nn.attention')
  ref.need(v, 'nn.attention')
  opts = options.check(OF, opts, 'nn.attention')
  if opts.mask ~= nil then ref.need(opts.mask, 'nn.attention: the mask') end
  local from = random.pointer(opts.generator, 'nn.attention')
  call.settle()
  local given = given_t()
  given.scale, given.causal, given.block = opts.scale or 0, opts.causal and 1 or 0, opts.block
  local mask, p = opts.mask and opts.mask._t, opts.dropout
  local st
  if p > 0 then
    st = C.rg_attention_dropout(q._t, k._t, v._t, mask, given, p, from, ref.slot)
  else
    st = C.rg_attention(q._t, k._t, v._t, mask, given, ref.slot)
  end
  if st ~= 0 then call.fail(st) end
  return ref.wrap(ref.slot[0])
end

-- -- Attention ----------------------------------------------------------------------------------

local Attention = class('nn.MultiHeadAttention', Module)
local ATTENTION = {
  heads = { 'integer', default = 1, min = 1, doc = 'that attend side by side' },
  causal = { 'boolean', default = false, doc = 'no place sees those behind it' },
  bias = { 'boolean', default = true, doc = 'of both layers' },
  dropout = { 'number', default = 0, min = 0, max = 0.999, doc = 'of the weights, while training' },
  kind = { 'string', default = 'tiles', choices = { 'tiles', 'matrix', 'features' },
    doc = 'a tile of weights at a time, all of them, or an estimate by random features' },
  mask = OF.mask, block = OF.block,
  features = { 'integer', default = 64, min = 1, max = 2 ^ 20, doc = 'random ones of a head' },
  kernel = { 'string', default = 'softmax', choices = { 'softmax', 'relu' },
    doc = 'what the random features are of' },
  seed = SEED,
}

local KIND = { tiles = C.RG_HEADS_TILES, matrix = C.RG_HEADS_MATRIX,
  features = C.RG_HEADS_FEATURES }

-- What the kinds cannot do.
local function check_kind(opts)
  if opts.mask ~= nil then ref.need(opts.mask, 'nn.MultiHeadAttention: the mask') end
  if opts.mask ~= nil and opts.kind ~= 'tiles' then
    blame.raise(("nn.MultiHeadAttention: a mask of blocks goes with kind = 'tiles', not '%s'")
      :format(opts.kind), 'EARG')
  end
  if opts.dropout > 0 and opts.kind == 'features' then
    blame.raise('nn.MultiHeadAttention: random features have no weights to drop; they and dropout '
      .. 'exclude each other', 'EARG')
  end
end

--- Attention of a sequence to itself: softmax(q k' / sqrt(size of a head)) v in each head.
---
--- kind 'tiles' takes memory as the length (nn.attention), 'matrix' as its square, 'features' takes
--- time as the length as well and is an estimate (nn.feature_attention). Dropout of the weights
--- drops the same ones by tiles and by the matrix, and random features have none.
---@param n number size of a place's vector, a multiple of the heads
---@param opts table|nil {heads = 1, causal = false, bias = true, dropout = 0, kind = 'tiles',
---  mask = Tensor, block = 64, features = 64, kernel = 'softmax', seed =}
-- >> ridge.nn.MultiHeadAttention(8, {heads = 2, causal = true})(ridge.randn(2, 5, 8)).shape
function Attention:init(n, opts)
  Module.init(self)
  opts = options.check(ATTENTION, opts, 'nn.MultiHeadAttention')
  base.sizes('nn.MultiHeadAttention', n)
  if n % opts.heads ~= 0 then
    blame.raise(('nn.MultiHeadAttention: %d numbers do not fall into %d heads'):format(n,
      opts.heads), 'EARG')
  end
  check_kind(opts)
  local seed = seeds(opts.seed)
  self.n, self.heads, self.causal, self.p = n, opts.heads, opts.causal, opts.dropout
  self.kind, self.mask = opts.kind, opts.mask
  self.of = heads_t({ heads = opts.heads, kind = KIND[opts.kind],
    causal = opts.causal and 1 or 0, block = opts.block, kernel = feature.KERNEL[opts.kernel] })
  self.qkv = self:child('qkv', linear.Linear(n, 3 * n, { bias = opts.bias, seed = seed() }))
  self.out = self:child('out', linear.Linear(n, n, { bias = opts.bias, seed = seed() }))
  if opts.kind == 'features' then
    self.omega = self:buffer('omega', feature.random_features(opts.features, n / opts.heads,
      seed()))
  end
end

--- Attend.
---@param x Tensor [batch x length x n]
---@return Tensor [batch x length x n]
function Attention:forward(x)
  ref.need(x, 'nn.MultiHeadAttention')
  local shape = x:size()
  if #shape ~= 3 or shape[3] ~= self.n then
    blame.raise(('nn.MultiHeadAttention: x is %s, wanted [batch, length, %d]'):format(x:describe(),
      self.n), 'ESHAPE')
  end
  local all = self.qkv(x)
  call.settle()
  local o = heads_t(self.of)
  o.p, o.kind = self.training and self.p or 0, KIND[self.kind]
  local mask, omega = call.pointer(self.mask), call.pointer(self.omega)
  call.run('nn.MultiHeadAttention', C.rg_heads, all._t, mask, omega, o, ref.slot)
  return self.out(ref.wrap(ref.slot[0]))
end

--- Convert or move it, the mask of blocks included.
---@param name string 'f32', 'f64', 'bf16', 'f16', 'cpu' or 'cuda:0'
---@param made table|nil as for every module
---@return table self
function Attention:to(name, made)
  made = parameter.made(made)
  if self.mask and dtype.is_device(name) then
    self.mask = self.mask:to(name)
    C.rg_scope_keep(self.mask._t)
  end
  return Module.to(self, name, made)
end

function Attention:__tostring()
  return ('nn.MultiHeadAttention(%d, %d heads%s%s)'):format(self.n, self.heads,
    self.causal and ', causal' or '', self.kind ~= 'tiles' and ', by ' .. self.kind or '')
end

M.MultiHeadAttention = Attention

-- -- Block --------------------------------------------------------------------------------------

local Block = class('nn.TransformerBlock', Module)
local BLOCK = {
  heads = ATTENTION.heads, causal = ATTENTION.causal, dropout = ATTENTION.dropout, seed = SEED,
  kind = ATTENTION.kind, mask = OF.mask, block = OF.block, features = ATTENTION.features,
  kernel = ATTENTION.kernel,
  hidden = { 'integer', min = 1, doc = 'inner size of the feed-forward part; 4 n when left out' },
  eps = { 'number', default = 1e-5, min = 0, max = 1e300, doc = 'of the normalisations' },
}

--- A block with normalisation first (Xiong et al., 2020): x + attention(norm(x)), then
--- x + down(gelu(up(norm(x)))).
---@param n number size of a place's vector
---@param opts table|nil {heads = 1, causal = false, hidden = 4 * n, dropout = 0, eps = 1e-5,
---  seed =}, and kind, mask, block, features and kernel of nn.MultiHeadAttention
-- >> ridge.nn.TransformerBlock(8, {heads = 2, causal = true})(ridge.randn(1, 3, 8)).shape
function Block:init(n, opts)
  Module.init(self)
  opts = options.check(BLOCK, opts, 'nn.TransformerBlock')
  base.sizes('nn.TransformerBlock', n)
  local seed = seeds(opts.seed and opts.seed * 2 ^ 10 % 2 ^ 52)
  local hidden = opts.hidden or 4 * n
  self.norm1 = self:child('norm1', norm.LayerNorm(n, { eps = opts.eps }))
  self.attention = self:child('attention', Attention(n, { heads = opts.heads, causal = opts.causal,
    dropout = opts.dropout, kind = opts.kind, mask = opts.mask, block = opts.block,
    features = opts.features, kernel = opts.kernel,
    seed = opts.seed and seed() * 2 % 2 ^ 52 }))
  self.norm2 = self:child('norm2', norm.LayerNorm(n, { eps = opts.eps }))
  self.up = self:child('up', linear.Linear(n, hidden, { seed = seed() }))
  self.down = self:child('down', linear.Linear(hidden, n, { seed = seed() }))
  self.drop = self:child('drop', activation.Dropout(opts.dropout))
end

--- Apply it.
---@param x Tensor [batch x length x n]
---@return Tensor [batch x length x n]
function Block:forward(x)
  x = x + self.drop(self.attention(self.norm1(x)))
  -- not fused: the gradient of gelu reads what went into it, which would be computed again
  return x + self.drop(self.down(self.up(self.norm2(x)):gelu()))
end

M.TransformerBlock = Block

return M
