-- SPDX-License-Identifier: MIT
--- Operations of ridge that layers call by their C names: what is one operator in ONNX is one node
--- in a graph, with the bits of ridge's own layer.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'

local M = {}

local slot, pointer = ref.slot, call.pointer

M.held = nil -- what a call is given is there until it has returned: C holds none of it

-- A call; tried once more where memory ran out.  The caller has paid memory debt before it
-- read the pointers that it gives.
local function run(name, tensors, f, ...)
  M.held = tensors
  local st = f(...)
  if st ~= 0 then call.again_as(name, st, f, ...) end
  M.held = nil
end

-- The same, of one result.
local function one(...)
  run(...)
  return ref.wrap(slot[0])
end

--- Are all of one float type; nil are passed over.
---@param ... Tensor|nil
---@return boolean
function M.alike(...)
  local name
  for i = 1, select('#', ...) do
    local x = select(i, ...)
    if x then
      name = name or x.dtype
      if x.dtype ~= name then return false end
    end
  end
  return name == 'f32' or name == 'f64' or name == 'f16' or name == 'bf16'
end

--- x times the transpose of w, plus a bias.
---@param x Tensor [... x m]
---@param w Tensor [n x m]
---@param b Tensor|nil [n]
---@return Tensor
function M.gemm(x, w, b)
  call.settle()
  return one('Gemm', { x, w, b }, C.rg_linear, x._t, w._t, pointer(b), C.RG_ACT_NONE, slot)
end

--- Rows of the last axis with mean 0 and variance 1, or with their mean square 1.
---@param x Tensor
---@param w Tensor|nil
---@param b Tensor|nil
---@param eps number
---@param rms boolean
---@return Tensor
function M.layer_norm(x, w, b, eps, rms)
  call.settle()
  return one('LayerNormalization', { x, w, b }, C.rg_layer_norm, x._t, pointer(w), pointer(b), eps,
    rms and 1 or 0, slot)
end

--- Groups of channels with mean 0 and variance 1.
---@param x Tensor
---@param w Tensor [c]
---@param b Tensor [c]
---@param groups number
---@param eps number
---@return Tensor
function M.group_norm(x, w, b, groups, eps)
  call.settle()
  return one('GroupNormalization', { x, w, b }, C.rg_group_norm, x._t, w._t, b._t, groups, eps,
    slot)
end

local batch_t = ffi.typeof 'rg_batch_norm_options'

--- Channels by their running statistics.
---@param x Tensor
---@param w Tensor
---@param b Tensor
---@param mean Tensor
---@param var Tensor
---@param eps number
---@return Tensor
function M.batch_norm(x, w, b, mean, var, eps)
  call.settle()
  local batch = batch_t()
  batch.eps, batch.momentum, batch.axis, batch.batch, batch.keep = eps, 0, 1, 0, 0
  return one('BatchNormalization', { x, w, b, mean, var }, C.rg_batch_norm, x._t,
    w._t, b._t, mean._t, var._t, batch, slot)
end

local attention_t = ffi.typeof 'rg_attention_options'

--- softmax(scale q k') v, a tile at a time.
---@param q Tensor [... x n x d]
---@param k Tensor [... x m x d]
---@param v Tensor [... x m x e]
---@param scale number
---@param causal boolean
---@return Tensor
function M.attention(q, k, v, scale, causal)
  call.settle()
  local attention = attention_t()
  attention.scale, attention.causal, attention.block = scale, causal and 1 or 0, 0
  return one('Attention', { q, k, v }, C.rg_attention, q._t, k._t, v._t, nil, attention, slot)
end

local CELL = { LSTM = C.RG_CELL_LSTM, GRU = C.RG_CELL_GRU }

--- A recurrent layer over a sequence, in one direction, with PyTorch's order of gates.
---@param kind string 'LSTM' or 'GRU'
---@param x Tensor [batch x length x m]
---@param h Tensor [1 x batch x n]
---@param c Tensor|nil the same
---@param wx Tensor [gates n x m]
---@param bx Tensor|nil [gates n]
---@param w Tensor [gates n x n]
---@param b Tensor|nil [gates n]
---@param backwards boolean
---@return Tensor y [batch x length x n]
---@return Tensor h [1 x batch x n]
---@return Tensor|nil c
function M.recurrent(kind, x, h, c, wx, bx, w, b, backwards)
  call.settle()
  local made = ref.slots()
  run(kind, { x, h, wx, w, c or false, bx or false, b or false }, C.rg_recurrent, x._t,
    h._t, pointer(c), wx._t, pointer(bx), w._t, pointer(b), CELL[kind], backwards and 1 or 0,
    made, made + 1, made + 2)
  local y, last = ref.wrap(made[0]), ref.wrap(made[1])
  return y, last, kind == 'LSTM' and ref.wrap(made[2]) or nil
end

return M
