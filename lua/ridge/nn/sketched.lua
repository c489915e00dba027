-- SPDX-License-Identifier: MIT
--- Sketched linear layers (Panther's SKLinear).
---
--- The operation takes the trained sketches and the fixed signs side by side, in `_parts`; the
--- parameters S1s, U1s, U2s and S2s are views of those. One that is exchanged or parametrised lies
--- by itself: the parts are then put together again in each pass.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local in_no_grad = require('ridge.tensor.grad').no_grad
local options = require 'ridge.options'
local ops = require 'ridge.tensor.ops'
local ref = require 'ridge.ffi.ref'
local base = require 'ridge.nn.layer'
local linear = require 'ridge.nn.dense'
local parameter = require 'ridge.nn.parameter'
local worlds = require 'ridge.world'

local M = {}

local slot = ref.slot
local Layer = base.Layer

local FORM = { auto = C.RG_SIGNS_STORED, stored = C.RG_SIGNS_STORED, bits = C.RG_SIGNS_BITS,
               seed = C.RG_SIGNS_SEED }
local FORM_NAME = { [C.RG_SIGNS_STORED] = 'stored', [C.RG_SIGNS_BITS] = 'bits',
                    [C.RG_SIGNS_SEED] = 'seed' }

local SKLinear = class('nn.SKLinear', Layer)
local SKETCH = {
  num_terms = { 'integer', default = 1, min = 1, doc = 'terms T' },
  low_rank = { 'integer', default = 16, min = 1, doc = 'rank R of a term' },
  bias = base.BIAS, seed = base.SEED, activation = base.ACTIVATION,
  dropout = { 'number', default = 0, min = 0, max = 0.999999, doc = 'while training' },
  form = { 'string', default = 'auto', choices = { 'auto', 'stored', 'bits', 'seed' },
           doc = 'how the fixed signs are kept: as numbers, as bits, or as a seed alone' },
  warn = { 'boolean', default = true, doc = 'say so when it stores more than a dense layer' },
}

SKLinear.is_dense_like = true

-- -- Parts and parameters -----------------------------------------------------------------------

-- Columns of the left factor as [T x n_in x R], rows of the right one as [T x R x n_out].
local function left_view(self, left, first)
  local width = self.num_terms * self.low_rank
  return left:narrow(2, first, width):view(self.n_in, self.num_terms, self.low_rank):transpose(1, 2)
end

local function right_view(self, right, first)
  local width = self.num_terms * self.low_rank
  return right:narrow(1, first, width):view(self.num_terms, self.low_rank, self.n_out)
end

-- What is trained takes a gradient of its own part alone.
local function trained(view)
  C.rg_tensor_set_part(view._t, 1)
  return view
end

-- The parameters, in order, as views of the parts.
local function views_of(self)
  local p, width = self._parts, self.num_terms * self.low_rank
  local list = { { 'S1s', trained(left_view(self, p[1], 1)), true } }
  if self.form == C.RG_SIGNS_STORED then
    list[2] = { 'U1s', right_view(self, p[2], 1):detach() }
    list[3] = { 'U2s', left_view(self, p[1], width + 1):detach() }
    list[4] = { 'S2s', trained(right_view(self, p[2], width + 1)), true }
  elseif self.form == C.RG_SIGNS_BITS then
    list[2], list[3] = { 'U1s_bits', p[2] }, { 'U2s_bits', p[3] }
    list[4] = { 'S2s', trained(right_view(self, p[4], 1)), true }
  else
    list[2] = { 'U_seed', p[2] }
    list[3] = { 'S2s', trained(right_view(self, p[3], 1)), true }
  end
  return list
end

--- Take the parameters from the parts, which are others now.
---@return table self
function SKLinear:take_views()
  for _, x in ipairs(self._parts) do
    C.rg_scope_keep(x._t)
    C.rg_tensor_set_param(x._t, 1)
  end
  for _, each in ipairs(in_no_grad(views_of, self)) do
    local name, view, trainable = unpack(each)
    local p = parameter.entry(self, name)
    if p then
      parameter.put(self, p, view)
    else
      parameter.add(self, name, view, trainable or false)
    end
  end
  return self
end

--- The parameters are no views of the parts any more.
function SKLinear:apart()
  self._parts = nil
end

-- Put together what the operation takes.
local function composed(self)
  local width = self.num_terms * self.low_rank
  local s1 = self.S1s:transpose(1, 2):reshape(self.n_in, width)
  local s2 = self.S2s:reshape(width, self.n_out)
  if self.form == C.RG_SIGNS_BITS then return { s1, self.U1s_bits, self.U2s_bits, s2 } end
  if self.form == C.RG_SIGNS_SEED then return { s1, self.U_seed, s2 } end
  return { ops.concat({ s1, self.U2s:transpose(1, 2):reshape(self.n_in, width) }, 2),
    ops.concat({ self.U1s:reshape(width, self.n_out), s2 }, 1) }
end

-- -- Making -------------------------------------------------------------------------------------

-- The sketch of a weight on the CPU.
local function sketch(self, weight, bias, opts)
  self.n_in, self.n_out = weight:size(2), weight:size(1)
  self.num_terms, self.low_rank, self.form = opts.num_terms, opts.low_rank, FORM[opts.form]
  self.activation, self.act, self.p = opts.activation, base.ACT[opts.activation], opts.dropout
  call.settle()
  local made = ffi.new('rg_tensor *[?]', C.RG_SKETCH_PARTS)
  call.run('nn.SKLinear', C.rg_sketch, weight._t, self.num_terms, self.low_rank, self.form,
    opts.seed, made)
  self._parts = {}
  for i = 0, C.RG_SKETCH_PARTS - 1 do
    if made[i] ~= nil then self._parts[i + 1] = ref.wrap(made[i]) end
  end
  self:take_views()
  self:may('bias', bias)
end

local function warn_if_larger(layer, opts)
  if not opts.warn or not worlds.speaks() then return layer end
  local f = layer:facts()
  if f.exceeds_dense then
    local where = blame.where()
    io.stderr:write(('%snn.SKLinear: %d terms of rank %d store more than the dense layer %d -> %d;'
      .. ' below 2*T*R = %.0f they store less\n'):format(where and where .. ': ' or '', f.num_terms,
      f.low_rank, f.n_in, f.n_out, C.rg_sklinear_break_even(f.n_in, f.n_out)))
  end
  return layer
end

--- A sketched layer: T terms of rank R with fixed random signs,
--- y = dropout(act(1/(2T) sum_t [(x S1[t]) U1[t] + (x U2[t]) S2[t]] + b)), of a weight that is
--- drawn as for nn.Linear with the same seed.
---@param n_in number
---@param n_out number
---@param opts table|nil {num_terms = 1, low_rank = 16, seed =, bias = true, activation = 'none',
--  dropout = 0, form = 'auto', warn = true}
-- >> ridge.nn.SKLinear(64, 32, {num_terms = 1, low_rank = 4, seed = 1})
function SKLinear:init(n_in, n_out, opts)
  Layer.init(self)
  base.sizes('nn.SKLinear', n_in, n_out)
  opts = options.check(SKETCH, opts, 'nn.SKLinear')
  opts.seed = base.seed_of(opts.seed)
  local draws = base.draws(opts.seed)
  local weight = draws:uniform(1 / math.sqrt(n_in), n_out, n_in)
  local bias = opts.bias and draws:uniform(1 / math.sqrt(n_in), n_out)
  sketch(self, weight, bias, opts)
  warn_if_larger(self:settle(), opts)
end

--- The sketch of a dense layer, made on the CPU, for where the dense one is.
---@param dense table nn.Linear
---@param opts table|nil as for nn.SKLinear
---@return table nn.SKLinear
function SKLinear.from(dense, opts)
  linear.need_dense(dense, 'nn.SKLinear.from')
  opts = options.check(SKETCH, opts, 'nn.SKLinear.from')
  opts.seed = base.seed_of(opts.seed)
  local weight, bias = dense.weight:detach():to 'cpu', dense.bias
  local self = setmetatable({}, SKLinear)
  Layer.init(self)
  sketch(self, weight, bias and bias:detach():to('cpu'):to('f32'):clone(), opts)
  if weight.dtype ~= 'f32' then self:to(weight.dtype) end
  return warn_if_larger(self:beside(dense), opts)
end

-- -- Use ----------------------------------------------------------------------------------------

local held -- parts that were put together for the call under way

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out]
function SKLinear:forward(x)
  if not ref.is(x) then ref.need(x, 'nn.SKLinear') end
  local parts = self._parts
  if not parts then
    parts = composed(self)
  end
  call.settle()
  if not self._parts then held = parts end
  local bias = self._tensors.bias
  if not bias and self._wrapped then bias = self.bias end
  local b = nil
  if bias then b = bias._t end
  local form, terms, act, p = self.form, self.num_terms, self.act, self.training and self.p or 0
  local st
  if form == C.RG_SIGNS_STORED then
    st = C.rg_sketched_linear(x._t, parts[1]._t, parts[2]._t, b, terms, act, p, nil, slot)
  elseif form == C.RG_SIGNS_BITS then
    st = C.rg_sketched_linear_bits(x._t, parts[1]._t, parts[2]._t, parts[3]._t, parts[4]._t, b,
      terms, act, p, nil, slot)
  else
    st = C.rg_sketched_linear_seed(x._t, parts[1]._t, parts[2]._t, parts[3]._t, b, terms, act, p,
      nil, slot)
  end
  if st ~= 0 then
    ref.need(x, 'nn.SKLinear')
    if form == C.RG_SIGNS_STORED then
      call.again(st, C.rg_sketched_linear, x._t, parts[1]._t, parts[2]._t, b, terms, act, p, nil,
        slot)
    elseif form == C.RG_SIGNS_BITS then
      call.again(st, C.rg_sketched_linear_bits, x._t, parts[1]._t, parts[2]._t, parts[3]._t,
        parts[4]._t, b, terms, act, p, nil, slot)
    else
      call.again(st, C.rg_sketched_linear_seed, x._t, parts[1]._t, parts[2]._t, parts[3]._t, b,
        terms, act, p, nil, slot)
    end
  end
  if held then held = nil end
  return ref.wrap(slot[0])
end

--- Convert or move it: signs kept as bits stay bits, and a seed a seed.
---@param name string 'f32', 'f64', 'bf16', 'f16', 'cpu' or 'cuda:0'
---@param made table|nil as for every module
---@return table self
function SKLinear:to(name, made)
  made = parameter.made(made)
  if not self._parts then return Layer.to(self, name, made) end
  local is_device, parts, wanted = dtype.is_device(name), {}, {}
  for i, x in ipairs(self._parts) do
    parts[i] = (is_device or x.dtype:find '^b?f') and in_no_grad(x.to, x, name) or x
  end
  for _, p in ipairs(self.params) do wanted[p.name] = p.tensor.requires_grad end
  if parts[1]._t ~= self._parts[1]._t then
    self._parts = parts
    self:take_views()
    for _, p in ipairs(self.params) do
      if p.trainable and wanted[p.name] then p.tensor:requires_grad_() end
    end
  end
  parameter.convert(self, 'bias', name, made)
  return self
end

--- Counts of the weights, for facts.
---@param f table
function SKLinear:measure(f)
  f.num_terms, f.low_rank, f.form = self.num_terms, self.low_rank, FORM_NAME[self.form]
  f.trainable_count = self.num_terms * self.low_rank * (self.n_in + self.n_out)
  f.stored_count = 2 * f.trainable_count
end

--- The matrix that the sketch stands for.
---@return Tensor [n_out x n_in]
function SKLinear:effective_weight()
  local parts = self._parts or composed(self)
  local list = ffi.new('rg_tensor *[?]', C.RG_SKETCH_PARTS)
  call.settle()
  for i, x in ipairs(parts) do list[i - 1] = x._t end
  call.run('nn.SKLinear', C.rg_sketch_weight, list, self.num_terms, self.low_rank, self.form, slot)
  held = parts
  held = nil
  return ref.wrap(slot[0])
end

M.SKLinear = SKLinear

-- -- Arithmetic ---------------------------------------------------------------------------------

--- k = n_in n_out / (n_in + n_out): a sketch with 2TR below it is smaller than the dense layer.
---@param n_in number
---@param n_out number
---@return number
-- >> ridge.nn.break_even(1024, 512)
function M.break_even(n_in, n_out)
  base.sizes('nn.break_even', n_in, n_out)
  return C.rg_sklinear_break_even(n_in, n_out)
end

--- Sizes of a sketched layer rounded up to a multiple, as tensor cores want them (F83).
---@param n_in number
---@param n_out number
---@param num_terms number
---@param low_rank number
---@param multiple number|nil 8 when left out
---@return number n_in
---@return number n_out
---@return number num_terms
---@return number low_rank
-- >> ridge.nn.round_for_tensor_cores(1000, 500, 8, 60)
function M.round_for_tensor_cores(n_in, n_out, num_terms, low_rank, multiple)
  base.sizes('nn.round_for_tensor_cores', n_in, n_out, num_terms, low_rank, multiple or 8)
  local out = ffi.new('int64_t[3]')
  call.check(C.rg_round_for_tensor_cores(n_in, n_out, low_rank, multiple or 8, out))
  return tonumber(out[0]), tonumber(out[1]), num_terms, tonumber(out[2])
end

return M
