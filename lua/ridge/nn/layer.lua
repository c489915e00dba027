-- SPDX-License-Identifier: MIT
--- What layers of one operation have in common: how parameters begin, what a layer is and takes.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local place = require 'ridge.tensor.place'
local schema = require 'ridge.tensor.schema'
local Module = require 'ridge.nn.module'
local parameter = require 'ridge.nn.parameter'
require 'ridge.tensor' -- parameters are tensors, whoever comes first

local M = {}

local slot = ref.slot

-- -- Options ------------------------------------------------------------------------------------

M.ACT = schema.ACT -- numbers of activations by their names

M.BIAS = { 'boolean', default = true, doc = 'add a bias' }
M.SEED = { 'integer', min = 0, max = 2 ^ 53,
           doc = 'of the draws; one from the default stream when left out' }
M.ACTIVATION = { 'string', default = 'none',
                 choices = schema.ACT_NAMES,
                 doc = 'what follows, in the same pass' }
M.DROPOUT = { 'number', default = 0, min = 0, max = 0.999999,
              doc = 'while training, in the same pass' }

--- The seed to use: the given one, or a number drawn from the default stream, which is recorded
--- there.
---@param given number|nil
---@return number
function M.seed_of(given)
  if given then return given end
  local x = ffi.new('rg_tensor *[1]')
  local one = ffi.new('int64_t[1]', 1)
  call.check(C.rg_empty(C.RG_I64, 0, one, 1, x))
  local st = C.rg_randint_(x[0], 0, 2 ^ 31, nil)
  local value = ffi.new('double[1]')
  local zero = ffi.new('int64_t[1]', 0)
  if st == 0 then st = C.rg_tensor_get(x[0], zero, 1, value) end
  C.rg_tensor_release(x[0])
  call.check(st)
  return value[0]
end

--- Raise unless all are sizes.
---@param what string the layer
---@param ... number
function M.sizes(what, ...)
  for i = 1, select('#', ...) do
    local n = select(i, ...)
    if type(n) ~= 'number' or n ~= math.floor(n) or n < 1 or n > 2 ^ 40 then
      blame.raise(('%s: size %d is %s; sizes are whole numbers from 1'):format(what, i,
        blame.show(n)))
    end
  end
end

-- -- How parameters begin -----------------------------------------------------------------------

local Draws = {}
Draws.__index = Draws

--- A stream of draws from a seed, for tensors in f32 on the CPU; the default stream is not touched.
---@param seed number
---@return table draws uniform, normal
function M.draws(seed)
  local made = ffi.new('rg_generator *[1]')
  call.check(C.rg_generator_new(seed, made))
  return setmetatable({ stream = ffi.gc(made[0], C.rg_generator_release) }, Draws)
end

local function empty(...)
  local n = select('#', ...)
  call.settle()
  call.run(nil, C.rg_empty, C.RG_F32, C.RG_CPU, ffi.new('int64_t[?]', n, ...), n, slot)
  return ref.wrap(slot[0])
end

--- Uniform in +-bound.
---@param bound number
---@param ... number sizes
---@return Tensor
function Draws:uniform(bound, ...)
  local x = empty(...)
  call.check(C.rg_uniform_(x._t, -bound, bound, self.stream))
  return x
end

--- Normal.
---@param ... number sizes
---@return Tensor
function Draws:normal(...)
  local x = empty(...)
  call.check(C.rg_normal_(x._t, 0, 1, self.stream))
  return x
end

--- The same number everywhere.
---@param value number
---@param ... number sizes
---@return Tensor
function M.filled(value, ...)
  local x = empty(...)
  call.check(C.rg_fill_(x._t, value))
  return x
end

-- -- The class ----------------------------------------------------------------------------------

local Layer = class('nn.Layer', Module)
Layer.marks_weights = true -- packed and cast copies are kept until a parameter is written to

--- A parameter, or the word that there is none; the optional ones come as false or nil.
---@param name string
---@param tensor Tensor|false|nil
function Layer:may(name, tensor)
  if tensor then
    self:param(name, tensor)
  else
    self:without(name)
  end
end

--- Layers are made on the CPU, and go to the default device.
---@return table self
function Layer:settle()
  local device = place.default()
  return device == 0 and self or self:to(ffi.string(C.rg_device_name(device)))
end

--- What was made from another layer is where that is, and in its mode.
---@param other table
---@return table self
function Layer:beside(other)
  local device = other.params[1].tensor.device
  if device ~= 'cpu' then self:to(device) end
  return other.training and self or self:eval()
end

-- Bytes of the packed copies there are of the weights.
local function packed_bytes(self)
  local bytes, seen = 0, {}
  for _, p in ipairs(self.params) do
    local key = tonumber(ffi.cast('intptr_t', ffi.cast('void *', p.tensor._t._storage)))
    if not seen[key] and p.name ~= 'bias' then
      seen[key] = true
      bytes = bytes + tonumber(C.rg_tensor_packed_bytes(p.tensor._t))
    end
  end
  return bytes
end

--- What the layer is: n_in, n_out, num_terms, low_rank, form, trainable_count, stored_count,
--- stored_bytes, packed_bytes, flops_per_row, exceeds_dense, dtype, activation.
---@return table
function Layer:facts()
  local first, bias = self.params[1], parameter.entry(self, 'bias')
  local n_bias, bias_bytes = bias and bias.tensor.count or 0, bias and bias.tensor.bytes or 0
  local f = { n_in = self.n_in, n_out = self.n_out, num_terms = 0, low_rank = 0, form = 'none',
    dtype = first and first.tensor.dtype or 'f32', activation = self.activation or 'none',
    packed_bytes = packed_bytes(self), stored_bytes = 0 }
  for _, p in ipairs(self.params) do f.stored_bytes = f.stored_bytes + p.tensor.bytes end
  self:measure(f)
  f.flops_per_row = f.flops_per_row or 2 * f.stored_count
  f.trainable_count, f.stored_count = f.trainable_count + n_bias, f.stored_count + n_bias
  local each = first and first.tensor.bytes / first.tensor.count or 4
  f.exceeds_dense = self.is_dense_like == true
    and f.stored_bytes - bias_bytes > self.n_in * self.n_out * each
  return f
end

--- Counts of the weights, for facts; the bias is counted there.
---@param f table
function Layer:measure(f)
  local weight = parameter.entry(self, 'weight')
  f.stored_count = weight and weight.tensor.count or 0
  f.trainable_count = f.stored_count
end

--- The matrix the layer multiplies by, [n_out x n_in]; for a sketch the effective one.
---@return Tensor
function Layer:effective_weight()
  if not self.weight then
    blame.raise(getmetatable(self).__name .. ': this normalisation has no weight', 'EARG')
  end
  return self.weight:clone()
end

--- The layer as it is now, on another device, for one pass: gradients go back to its parameters.
---@param device string
---@return table
function Layer:replica(device)
  return (require('ridge.nn.copy').replica(self, device))
end

function Layer:__tostring()
  local f = self:facts()
  local parts = { ('%d -> %d'):format(f.n_in, f.n_out) }
  if f.num_terms > 0 then
    parts[2] = ('num_terms %d, low_rank %d, signs %s'):format(f.num_terms, f.low_rank, f.form)
  elseif f.low_rank > 0 then
    parts[2] = ('rank %d'):format(f.low_rank)
  end
  if f.activation ~= 'none' then parts[#parts + 1] = f.activation end
  parts[#parts + 1] = ('%s, %d parameters'):format(f.dtype, f.trainable_count)
  return ('%s(%s)'):format(getmetatable(self).__name, table.concat(parts, ', '))
end

M.Layer = Layer

return M
