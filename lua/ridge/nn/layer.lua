-- SPDX-License-Identifier: MIT
--- Linear layers in Lua: thin classes over the core's layers, which own the parameters.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local place = require 'ridge.tensor.place'
local options = require 'ridge.options'
local Module = require 'ridge.nn.module'
require 'ridge.tensor' -- parameters are tensors, whoever comes first

local M = {}

local slot = ref.slot
local layer_slot = ffi.new('rg_layer *[1]')
local facts = ffi.new('rg_layer_facts')

local ACT = { none = C.RG_ACT_NONE, relu = C.RG_ACT_RELU, gelu = C.RG_ACT_GELU,
              silu = C.RG_ACT_SILU, tanh = C.RG_ACT_TANH, sigmoid = C.RG_ACT_SIGMOID }
local ACT_NAMES = { 'none', 'relu', 'gelu', 'silu', 'tanh', 'sigmoid' }
local FORM = { auto = C.RG_SIGNS_AUTO, stored = C.RG_SIGNS_STORED, bits = C.RG_SIGNS_BITS,
               seed = C.RG_SIGNS_SEED }
local FORM_NAME = { [0] = 'none', 'stored', 'bits', 'seed' }

local BIAS = { 'boolean', default = true, doc = 'add a bias' }
local SEED = { 'integer', min = 0, max = 2 ^ 53,
               doc = 'of the draws; one from the default stream when left out' }
local ACTIVATION = { 'string', default = 'none', choices = ACT_NAMES,
                     doc = 'what follows, in the same pass' }

--- The seed to use: the given one, or a number drawn from the default stream, which is recorded
-- there.
local function seed_of(given)
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

local function sizes(what, ...)
  for i = 1, select('#', ...) do
    local n = select(i, ...)
    if type(n) ~= 'number' or n ~= math.floor(n) or n < 1 or n > 2 ^ 40 then
      blame.raise(('%s: size %d is %s; sizes are whole numbers from 1'):format(what, i,
        blame.show(n)))
    end
  end
end

-- -- What the three have in common -------------------------------------------------------------

local Layer = class('nn.Layer', Module)

--- Parameters as fields: self.weight, self.bias, self.S1s ...
local function name_parameters(self)
  local p = ffi.new('rg_param')
  local frozen = {}
  for _, before in ipairs(self.params) do frozen[before.name] = before.frozen end
  self.params = {}
  for i = 0, C.rg_layer_params(self._l) - 1 do
    call.check(C.rg_layer_param(self._l, i, p))
    local name = ffi.string(p.name)
    local tensor = ref.wrap(C.rg_tensor_retain(p.tensor))
    self.params[i + 1] = { name = name, tensor = tensor,
      trainable = p.trainable == 1 and not frozen[name], frozen = frozen[name] }
    self[name] = tensor
  end
end

--- Take over the layer in the slot; a new one goes to the default device, one that was made from
-- another is where that is.
local function adopt(self, as_is)
  self._l = ffi.gc(layer_slot[0], C.rg_layer_release)
  Module.init(self)
  name_parameters(self)
  self:train()
  local device = place.default()
  return device == 0 and self or as_is and self or self:to(ffi.string(C.rg_device_name(device)))
end

-- What was made from another one is in its mode.
local function in_mode_of(other, self)
  return other.training and self or self:eval()
end

--- Apply the layer to the last axis.
---@param x Tensor [... x n_in]
---@return Tensor [... x n_out]
function Layer:forward(x)
  if not ref.is(x) then ref.need(x, getmetatable(self).__name) end
  call.settle()
  local st = C.rg_layer_forward(self._l, x._t, slot)
  if st ~= 0 then
    ref.need(x, getmetatable(self).__name)
    call.again(st, C.rg_layer_forward, self._l, x._t, slot)
  end
  return ref.wrap(slot[0])
end

--- The matrix the layer multiplies by, [n_out x n_in]; for a sketch the effective one.
---@return Tensor
function Layer:effective_weight()
  call.settle()
  call.check(C.rg_layer_weight(self._l, slot))
  return ref.wrap(slot[0])
end

--- What the layer is: n_in, n_out, num_terms, low_rank, form, trainable_count, stored_count,
-- stored_bytes, packed_bytes, flops_per_row, exceeds_dense, dtype.
---@return table
function Layer:facts()
  call.check(C.rg_layer_facts_of(self._l, facts))
  return {
    n_in = tonumber(facts.n_in), n_out = tonumber(facts.n_out),
    num_terms = tonumber(facts.num_terms), low_rank = tonumber(facts.low_rank),
    form = FORM_NAME[facts.form], dtype = dtype.name(facts.dtype),
    activation = ACT_NAMES[facts.act + 1],
    trainable_count = tonumber(facts.trainable_count), stored_count = tonumber(facts.stored_count),
    stored_bytes = tonumber(facts.stored_bytes), packed_bytes = tonumber(facts.packed_bytes),
    flops_per_row = facts.flops_per_row, exceeds_dense = facts.exceeds_dense == 1,
  }
end

--- Training mode on or off, in the core as well.
---@param on boolean|nil true when left out
---@return table self
function Layer:train(on)
  C.rg_layer_set_training(self._l, options.flag(on, 'train', 'on') ~= false and 1 or 0)
  return Module.train(self, on)
end

-- Copies of the parameters, which come from nothing.
local function convert(self, name)
  if dtype.is_device(name) then
    call.check(C.rg_layer_to_device(self._l, dtype.device(name, 'to'), layer_slot))
  else
    call.check(C.rg_layer_to(self._l, dtype.code(name, 'to'), layer_slot))
  end
end

--- Convert the parameters to another element type or bring them to another device, in place. They
--- are other tensors then: an optimizer is made behind this.
---@param name string 'f32', 'f64', 'bf16', 'f16', 'cpu' or 'cuda:0'
---@return table self
function Layer:to(name)
  local wanted = {}
  for _, p in ipairs(self.params) do wanted[p.name] = p.tensor.requires_grad end
  convert(self, name)
  self._l = ffi.gc(layer_slot[0], C.rg_layer_release)
  name_parameters(self)
  for _, p in ipairs(self.params) do
    if wanted[p.name] then p.tensor:requires_grad_() end
  end
  return self
end

--- The layer as it is now, on another device, for one pass: gradients go back to its parameters.
--- What DataParallel computes with.
---@param device string
---@return table
function Layer:replica(device)
  call.check(C.rg_layer_replica(self._l, dtype.device(device, 'replica'), layer_slot))
  local copy = {}
  for name, value in pairs(self) do copy[name] = value end
  copy._l = ffi.gc(layer_slot[0], C.rg_layer_release)
  name_parameters(setmetatable(copy, getmetatable(self)))
  return copy
end

--- A layer with copies of the parameters.
---@return table
function Layer:clone()
  call.check(C.rg_layer_clone(self._l, layer_slot))
  return in_mode_of(self, adopt(setmetatable({}, getmetatable(self)), true))
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

local function set_activation(self, name)
  if name ~= 'none' then call.check(C.rg_layer_set_act(self._l, ACT[name])) end
  return self
end

-- -- Dense --------------------------------------------------------------------------------------

local Linear = class('nn.Linear', Layer)
local LINEAR = { bias = BIAS, seed = SEED, activation = ACTIVATION,
  dropout = { 'number', default = 0, min = 0, max = 0.999999,
    doc = 'while training, in the same pass' } }

--- A dense layer, y = dropout(act(x W' + b)) in one pass.
---@param n_in number
---@param n_out number
---@param opts table|nil {bias = true, seed =, activation = 'none', dropout = 0}
-- >> ridge.nn.Linear(8, 4)(ridge.ones(2, 8)).shape
function Linear:init(n_in, n_out, opts)
  sizes('nn.Linear', n_in, n_out)
  opts = options.check(LINEAR, opts, 'nn.Linear')
  call.check(C.rg_linear_layer(n_in, n_out, opts.bias and 1 or 0, seed_of(opts.seed), layer_slot))
  set_activation(adopt(self), opts.activation)
  if opts.dropout > 0 then call.check(C.rg_layer_set_dropout(self._l, opts.dropout)) end
end

-- -- Low rank -------------------------------------------------------------------------------------

local LowRankLinear = class('nn.LowRankLinear', Layer)
local LOWRANK = { rank = { 'integer', required = true, min = 1, doc = 'inner size k' },
                  bias = BIAS, seed = SEED, activation = ACTIVATION }
local LOWRANK_FROM = { rank = LOWRANK.rank }

--- A layer of rank k, y = act((x A) B + b): the equal-bytes rival of a sketch with 2TR = k.
---@param n_in number
---@param n_out number
---@param opts table {rank =, bias = true, seed =, activation = 'none'}
function LowRankLinear:init(n_in, n_out, opts)
  sizes('nn.LowRankLinear', n_in, n_out)
  opts = options.check(LOWRANK, opts, 'nn.LowRankLinear')
  call.check(C.rg_lowrank_layer(n_in, n_out, opts.rank, opts.bias and 1 or 0, seed_of(opts.seed),
    layer_slot))
  set_activation(adopt(self), opts.activation)
end

local function need_dense(dense, what)
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
  need_dense(dense, 'nn.LowRankLinear.from')
  opts = options.check(LOWRANK_FROM, opts, 'nn.LowRankLinear.from')
  local device = dense.weight.device
  local here = device == 'cpu' and dense or dense:clone():to 'cpu'
  call.check(C.rg_lowrank_from(here._l, opts.rank, layer_slot))
  local made = in_mode_of(dense, adopt(setmetatable({}, LowRankLinear), true))
  return device == 'cpu' and made or made:to(device)
end

-- -- Sketched
-- --------------------------------------------------------------------------------------

local SKLinear = class('nn.SKLinear', Layer)
local SKETCH = {
  num_terms = { 'integer', default = 1, min = 1, doc = 'terms T' },
  low_rank = { 'integer', default = 16, min = 1, doc = 'rank R of a term' },
  bias = BIAS, seed = SEED, activation = ACTIVATION,
  dropout = { 'number', default = 0, min = 0, max = 0.999999, doc = 'while training' },
  form = { 'string', default = 'auto', choices = { 'auto', 'stored', 'bits', 'seed' },
           doc = 'how the fixed signs are kept: as numbers, as bits, or as a seed alone' },
  warn = { 'boolean', default = true, doc = 'say so when it stores more than a dense layer' },
}

local sketch_options = ffi.new('rg_sklinear_options')

local function fill_options(opts)
  sketch_options.seed = seed_of(opts.seed)
  sketch_options.p = opts.dropout
  sketch_options.bias = opts.bias and 1 or 0
  sketch_options.act = ACT[opts.activation]
  sketch_options.form = FORM[opts.form]
  return sketch_options
end

local function warn_if_larger(layer, opts)
  if not opts.warn then return layer end
  local f = layer:facts()
  if f.exceeds_dense then
    local where = blame.where()
    io.stderr:write(('%snn.SKLinear: %d terms of rank %d store more than the dense layer %d -> %d;'
      .. ' below 2*T*R = %.0f they store less\n'):format(where and where .. ': ' or '', f.num_terms,
      f.low_rank, f.n_in, f.n_out, C.rg_sklinear_break_even(f.n_in, f.n_out)))
  end
  return layer
end

--- A sketched layer (Panther's SKLinear): T terms of rank R with fixed random signs.
---@param n_in number
---@param n_out number
---@param opts table|nil {num_terms = 1, low_rank = 16, seed =, bias = true, activation = 'none',
--  dropout = 0, form = 'auto', warn = true}
-- >> ridge.nn.SKLinear(64, 32, {num_terms = 1, low_rank = 4, seed = 1})
function SKLinear:init(n_in, n_out, opts)
  sizes('nn.SKLinear', n_in, n_out)
  opts = options.check(SKETCH, opts, 'nn.SKLinear')
  call.check(C.rg_sklinear(n_in, n_out, opts.num_terms, opts.low_rank, fill_options(opts),
    layer_slot))
  warn_if_larger(adopt(self), opts)
end

--- The sketch of a dense layer, made on the CPU, for where the dense one is.
---@param dense table nn.Linear
---@param opts table|nil as for nn.SKLinear
---@return table nn.SKLinear
function SKLinear.from(dense, opts)
  need_dense(dense, 'nn.SKLinear.from')
  opts = options.check(SKETCH, opts, 'nn.SKLinear.from')
  local device = dense.weight.device
  local here = device == 'cpu' and dense or dense:clone():to 'cpu'
  call.check(C.rg_sklinear_from(here._l, opts.num_terms, opts.low_rank, fill_options(opts),
    layer_slot))
  local made = warn_if_larger(in_mode_of(dense, adopt(setmetatable({}, SKLinear), true)), opts)
  return device == 'cpu' and made or made:to(device)
end

--- k = n_in n_out / (n_in + n_out): a sketch with 2TR below it is smaller than the dense layer.
---@param n_in number
---@param n_out number
---@return number
-- >> ridge.nn.break_even(1024, 512)
function M.break_even(n_in, n_out)
  sizes('nn.break_even', n_in, n_out)
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
  sizes('nn.round_for_tensor_cores', n_in, n_out, num_terms, low_rank, multiple or 8)
  local out = ffi.new('int64_t[3]')
  call.check(C.rg_round_for_tensor_cores(n_in, n_out, low_rank, multiple or 8, out))
  return tonumber(out[0]), tonumber(out[1]), num_terms, tonumber(out[2])
end

M.Linear, M.LowRankLinear, M.SKLinear = Linear, LowRankLinear, SKLinear

--- For the files that make other layers: the class, taking over what is in `slot`, and the options
--- that layers have in common.
M.base = { Layer = Layer, adopt = adopt, slot = layer_slot, seed_of = seed_of, sizes = sizes,
  set_activation = set_activation, BIAS = BIAS, SEED = SEED, ACTIVATION = ACTIVATION }

return M
