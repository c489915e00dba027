-- SPDX-License-Identifier: MIT
--- A dense layer of which only what is not 0 is kept: in compressed rows, in blocks of 16 outputs
--- and one input, or n of each m inputs.

local C = require 'ridge.ffi.lib'
local base = require 'ridge.nn.layer'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local grad = require 'ridge.tensor.grad'
local make = require 'ridge.tensor.make'
local ops = require 'ridge.tensor.ops'
local parameter = require 'ridge.nn.parameter'
local ref = require 'ridge.ffi.ref'
local sparse = require 'ridge.tensor.sparse'

local M = {}

local SparseLinear = class('prune.SparseLinear', base.Layer)

local BLOCK = { rows = 1, blocks = 16 }

-- Zeros behind what is there, so that whole blocks come out.
local function padded(x, n)
  if n == 0 then return x end
  local sizes = x:size()
  sizes[1] = n
  sizes[#sizes + 1] = { dtype = x.dtype, device = x.device }
  return ops.concat({ x, make.zeros(unpack(sizes)) }, 1)
end

--- A dense layer as what is not 0 in it. Made by prune.compact of a layer that is there.
---@param dense table nn.Linear
---@param format string 'rows', 'blocks' or 'n:m'
---@param pattern string|nil of n:m
function SparseLinear:init(dense, format, pattern)
  base.Layer.init(self)
  self.training = false
  self.n_in, self.n_out, self.activation = dense.n_in, dense.n_out, dense.activation
  self.format, self.pattern = format, pattern
  grad.no_grad(function()
    if format == 'n:m' then
      local w, b = sparse.sparse(dense.weight:detach(), { pattern = pattern }), dense.bias
      self:buffer('values', w.values) -- first: the type of a net is that of its first numbers
      self:buffer('index', w.index)
      if b then self:buffer('bias', b:detach():to('f32'):clone()) else self:without 'bias' end
      return
    end
    local more = -dense.n_out % BLOCK[format]
    local w = sparse.sparse(padded(dense.weight:detach():to 'f32', more),
      { block = BLOCK[format] })
    for _, name in ipairs { 'values', 'offset', 'column' } do self:buffer(name, w[name]) end
    local bias = dense.bias
    if bias then
      self:buffer('bias', padded(bias:detach():to 'f32', more):clone())
    else
      self:without('bias')
    end
  end)
end

local given, n_of_m = {}, {} -- options of the product; a weight with such a pattern

-- The weight as ridge.sparse_linear takes it.
local function weight_of(layer)
  local t = layer._tensors
  if layer.format ~= 'n:m' then return t end
  n_of_m.index, n_of_m.values = t.index, t.values
  n_of_m.rows, n_of_m.columns = layer.n_out, layer.n_in
  return n_of_m
end

local ANSWER = { bf16 = 'bf16', f16 = 'f16' }

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out], f32, or bf16 or f16 as x is
function SparseLinear:forward(x)
  ref.need(x, 'prune.SparseLinear')
  if C.rg_requires_grad(x._t) == 1 and grad.recording() then
    blame.raise('prune.SparseLinear: no gradient goes through a sparse product: train the net that '
      .. 'prune.compact was given, or call this one in ridge.inference', 'EARG')
  end
  if x.ndim == 0 or x:size(-1) ~= self.n_in then
    blame.raise(('prune.SparseLinear: x is %s, and its last axis is to have %d elements'):format(
      x:describe(), self.n_in), 'ESHAPE')
  end
  local t = self._tensors
  given.bias, given.activation, given.dtype = t.bias, self.activation, ANSWER[x.dtype] or 'f32'
  local y = sparse.sparse_linear(x, weight_of(self), given)
  return y:size(-1) == self.n_out and y or y:narrow(y.ndim, 1, self.n_out)
end

--- Sparse layers stay in evaluation mode.
function SparseLinear:_refuse_training() -- luacheck: no self
  blame.raise('prune.SparseLinear: a sparse layer is not trained: train the net that '
    .. 'prune.compact was given', 'EARG')
end

--- Move to a device. What is kept stays f32: a layer answers in the type that it is asked in.
---@param name string 'cpu' or 'cuda:0', or a float type
---@param made table|nil what was converted already
---@return table self
function SparseLinear:to(name, made)
  if dtype.is_device(name) then return base.Layer.to(self, name, made) end
  dtype.code(name, 'prune.SparseLinear:to')
  parameter.made(made)
  return self
end

--- Counts of the weights, for facts.
---@param f table
function SparseLinear:measure(f)
  f.stored_count = self._tensors.values.count
  f.trainable_count = 0
end

--- Why the numbers of a layer in n of m are not of its pattern, or nil.
---@return string|nil
function SparseLinear:unlike()
  if self.format == 'n:m' then return sparse.why_not(weight_of(self), self.pattern) end
end

--- The matrix the layer multiplies by, [n_out x n_in].
---@return Tensor
function SparseLinear:effective_weight()
  local t = self._tensors
  return sparse.dense({ index = t.index, offset = t.offset, column = t.column, values = t.values,
    rows = self.n_out, columns = self.n_in }):narrow(1, 1, self.n_out):contiguous()
end

function SparseLinear:__tostring()
  return ('prune.SparseLinear(%d -> %d%s, %d numbers for %d weights in %s)'):format(self.n_in,
    self.n_out, self.activation ~= 'none' and ', ' .. self.activation or '',
    self._tensors.values.count, self.n_in * self.n_out, self.pattern or self.format)
end

M.SparseLinear = SparseLinear

return M
