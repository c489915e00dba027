-- SPDX-License-Identifier: MIT
--- Products with weights of a few bits, and packing such weights.

local C = require 'ridge.ffi.lib'
local arguments = require 'ridge.tensor.arguments'
local call = require 'ridge.ffi.call'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local dtype = require 'ridge.tensor.dtype'
local run = require 'ridge.tensor.run'
local schema = require 'ridge.tensor.schema'

local M = {}

local need, slot = ref.need, ref.slot
local pack_bits, unpack_bits = run.of 'pack_bits', run.of 'unpack_bits'
local LINEAR = schema.of 'packed_linear'
local index, n_in = LINEAR.index, #LINEAR.inputs
local arguments_of = arguments.of(LINEAR)

local SPEC = {
  bits = { 'integer', required = true, doc = 'of a weight: 2, 3, 4, 6 or 8' },
  group = { 'integer', default = 32, doc = 'weights that share a scale: 32, 64 or 128' },
  min = { 'any', doc = 'what code 0 stands for, f16 [n_out x n_in / group]' },
  bias = { 'any', doc = 'one number for each row of w' },
  activation = { 'string', default = 'none', choices = schema.ACT_NAMES,
    doc = 'applied to the result' },
  dtype = { 'string', default = 'f32', choices = { 'f32', 'bf16', 'f16' }, doc = 'of the result' },
  x_scale = { 'any', doc = 'of x of i8: f32, one number or one for each row' },
}

local BITS = { bits = { 'integer', required = true, doc = 'of a code: 2, 3, 4, 6 or 8' } }

--- Codes of a few bits side by side: 32 of them take 4 bytes a bit.  A code that does not fit is an
--- error.
---@param codes Tensor u8 [... x n], n in whole blocks of 32
---@param opts table {bits = 4}: 2, 3, 4, 6 or 8
---@return Tensor u8 [... x n bits / 8]
-- >> codes = ridge.quantize(ridge.randn(2, 64), 0.3, 8, { type = 'u8' }):minimum(15):to 'u8'
-- >> ridge.pack_bits(codes, { bits = 4 }).shape
function M.pack_bits(codes, opts)
  need(codes, 'pack_bits')
  opts = options.check(BITS, opts, 'pack_bits')
  return pack_bits({ codes }, { bits = opts.bits })
end

--- The codes that ridge.pack_bits laid side by side.
---@param packed Tensor u8 [... x n bits / 8]
---@param opts table {bits = 4}
---@return Tensor u8 [... x n]
-- >> ridge.unpack_bits(ridge.pack_bits(ridge.ones(1, 32, { dtype = 'u8' }), { bits = 3 }),
-- >>   { bits = 3 }):sum()
function M.unpack_bits(packed, opts)
  need(packed, 'unpack_bits')
  opts = options.check(BITS, opts, 'unpack_bits')
  return unpack_bits({ packed }, { bits = opts.bits })
end

local function once(set, x, w, scale, min, bias, x_scale)
  local inputs = set.inputs
  inputs[0], inputs[1], inputs[2] = x._t, w._t, scale._t
  inputs[3] = min ~= nil and min._t or nil
  inputs[4] = bias ~= nil and bias._t or nil
  inputs[5] = x_scale ~= nil and x_scale._t or nil
  return C.rg_op_call(index, inputs, n_in, set.bytes, nil, slot)
end

-- The product, of arguments that were checked: no table of options is read, whose keys keep LuaJIT
-- from compiling the layer's call (ridge.pairs).
---@param x Tensor
---@param w Tensor
---@param scale Tensor
---@param min Tensor|nil
---@param bias Tensor|nil
---@param x_scale Tensor|nil
---@param bits integer
---@param group integer
---@param act integer of schema.ACT
---@param answer integer code of the result's type
---@return Tensor
function M.product(x, w, scale, min, bias, x_scale, bits, group, act, answer)
  -- paying memory debt collects, and calls who watches: what is filled in is filled in behind it
  call.settle()
  local set = arguments_of()
  set.at_bits[0], set.at_group[0], set.at_act[0], set.at_dtype[0] = bits, group, act, answer
  local st = once(set, x, w, scale, min, bias, x_scale)
  if st ~= 0 then call.again(st, once, set, x, w, scale, min, bias, x_scale) end
  set.taken = false
  return ref.wrap(slot[0])
end

--- act(x W' + bias) with weights of a few bits, opened as they are multiplied: W is (code -
--- 2^(bits - 1)) scale, or code scale + min.  Sums are in f32.  No gradient goes through it, and
--- GPUs have none of it yet.
---@param x Tensor [... x n_in] of f32, bf16 or f16, or of i8 with x_scale
---@param w Tensor u8 [n_out x n_in bits / 8], by ridge.pack_bits
---@param scale Tensor f16 [n_out x n_in / group]
---@param opts table {bits = 4, group = 32, min = Tensor, bias = Tensor, activation = 'none',
---  dtype = 'f32', x_scale = Tensor|number}
---@return Tensor [... x n_out]
-- >> w = ridge.pack_bits(ridge.full(9, 3, 32, { dtype = 'u8' }), { bits = 4 })
-- >> ridge.packed_linear(ridge.ones(2, 32), w, ridge.full(0.5, 3, 1, { dtype = 'f16' }),
-- >>   { bits = 4 })
function M.packed_linear(x, w, scale, opts)
  need(x, 'packed_linear')
  need(w, 'packed_linear')
  need(scale, 'packed_linear')
  opts = options.check(SPEC, opts, 'packed_linear')
  local min, bias, x_scale = opts.min, opts.bias, opts.x_scale
  if min ~= nil then need(min, 'packed_linear') end
  if bias ~= nil then need(bias, 'packed_linear') end
  if x_scale ~= nil then x_scale = run.number(x_scale, x, 'packed_linear') end
  return M.product(x, w, scale, min, bias, x_scale, opts.bits, opts.group,
    schema.ACT[opts.activation], dtype.code(opts.dtype))
end

return M
