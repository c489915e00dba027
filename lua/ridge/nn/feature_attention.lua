-- SPDX-License-Identifier: MIT
--- Attention by random features (Choromanski et al., Rethinking Attention with Performers, 2021):
--- exp(q k') is the mean of products of features, so softmax(q k') v takes time and memory as the
--- length, not as its square. What comes out is an estimate.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'

local M = {}

local CHUNK = 128 -- places that see each other by a masked product; what is before them is one sum
local EPS = { softmax = 1e-5, relu = 1e-5 } -- added to each feature, so that no sum is 0

-- Rows that are orthogonal to each other, uniform among all such: the left singular vectors of a
-- normal matrix.
local function orthogonal(n, generator)
  local u = make.randn(n, n, { generator = generator }):svd()
  return u
end

--- Directions of random features: blocks of orthogonal rows, as long as normal rows are.
---@param features number how many
---@param size number numbers in a row, those of a head
---@param seed number|nil
---@return Tensor omega [features x size]
-- >> ridge.nn.random_features(8, 4, 1).shape
function M.random_features(features, size, seed)
  local generator = seed and random.generator(seed) or nil
  local blocks = {}
  for first = 1, features, size do
    local rows = math.min(size, features - first + 1)
    local lengths = make.randn(rows, size, { generator = generator }):norm(2, 2, true)
    blocks[#blocks + 1] = orthogonal(size, generator):narrow(1, 1, rows) * lengths
  end
  return ops.concat(blocks, 1)
end

-- -- Features -----------------------------------------------------------------------------------

local KERNEL = {}

-- exp(omega x - |x|^2 / 2), which no common factor changes: the largest exponent is taken off, for
-- a query its own, for keys that of the sequence.
function KERNEL.softmax(x, omega, axes)
  x = x * (x.shape[#x.shape] ^ -0.25)
  local z = x:matmul(omega:t())
  local most = z:detach():max(axes, true)
  local squares = (x * x):sum(-1, true) * 0.5
  return ((z - squares - most):exp() + EPS.softmax) * (omega.shape[1] ^ -0.5)
end

function KERNEL.relu(x, omega)
  return (x:matmul(omega:t()) * (omega.shape[1] ^ -0.5)):relu() + EPS.relu
end

-- -- Sums ---------------------------------------------------------------------------------------

local function lower(n, like)
  local mask = make.zeros(n, n)
  for i = 1, n do mask:narrow(1, i, 1):narrow(2, 1, i):fill_(1) end
  return mask:to(like.dtype)
end

-- Place i gets sum over j <= i of (q_i k_j') v_j: within a chunk by a masked product, before it by
-- one matrix of sums, so that time grows with the length.
local function causal_sums(q, k, v)
  local length, axis = q.shape[#q.shape - 1], #q.shape - 1
  local before
  local out = {}
  local mask = lower(math.min(CHUNK, length), q)
  for first = 1, length, CHUNK do
    local n = math.min(CHUNK, length - first + 1)
    local function part(x) return x:narrow(axis, first, n) end
    local qs, ks, vs = part(q), part(k), part(v)
    local scores = qs:matmul(ks:transpose(axis, axis + 1))
    local here = (scores * mask:narrow(1, 1, n):narrow(2, 1, n)):matmul(vs)
    if before then here = here + qs:matmul(before) end
    out[#out + 1] = here
    if first + n <= length then
      local sum = ks:transpose(axis, axis + 1):matmul(vs)
      before = before and before + sum or sum
    end
  end
  return #out == 1 and out[1] or ops.concat(out, axis)
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
  local d, last = q.shape[#q.shape], #q.shape
  if last < 2 or #k.shape ~= last or #v.shape ~= last or k.shape[last] ~= d
    or k.shape[last - 1] ~= v.shape[last - 1] or #omega.shape ~= 2 or omega.shape[2] ~= d
    or opts.causal and q.shape[last - 1] ~= k.shape[last - 1] then
    blame.raise(('%s: q is %s, k %s, v %s, omega %s; wanted [..., n, d], [..., m, d], [..., m, e]'
      .. ', [features, d]%s'):format(what, q:describe(), k:describe(), v:describe(),
      omega:describe(), opts.causal and ' with n = m' or ''), 'ESHAPE', what)
  end
  local kernel = KERNEL[opts.kernel]
  local pq, pk = kernel(q, omega, -1), kernel(k, omega, { -2, -1 })
  -- a last column of ones makes the denominator beside the numerator
  local ones = v:detach():narrow(last, 1, 1) * 0 + 1
  local both = ops.concat({ v, ones }, last)
  local sums = opts.causal and causal_sums(pq, pk, both)
    or pq:matmul(pk:transpose(last - 1, last):matmul(both))
  local e = v.shape[last]
  return sums:narrow(last, 1, e) / sums:narrow(last, e + 1, 1)
end

return M
