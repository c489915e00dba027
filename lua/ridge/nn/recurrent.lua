-- SPDX-License-Identifier: MIT
--- Recurrent layers: LSTM (Hochreiter and Schmidhuber, 1997; Gers et al., 2000) and GRU (Cho et
--- al., 2014), with PyTorch's order of gates and two biases.
---
--- A layer in one direction is one operation of the core (ridge/compound.h): what comes in is
--- multiplied for all places at once; what goes from place to place follows one after the other.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local in_no_grad = require('ridge.tensor.grad').no_grad
local base = require 'ridge.nn.layer'
local linear = require 'ridge.nn.dense'
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'
local Module = require 'ridge.nn.module'

local M = {}

local SPEC = {
  layers = { 'integer', default = 1, min = 1, doc = 'one on top of the other' },
  bidirectional = { 'boolean', default = false, doc = 'a second one from the end to the begin' },
  dropout = { 'number', default = 0, min = 0, max = 0.999, doc = 'between layers, while training' },
  bias = base.BIAS, seed = base.SEED,
}

-- -- A sequence ---------------------------------------------------------------------------------

local plain_forward = linear.Linear.forward

-- Is it no more than its weight and bias, which the core's operation takes?
local function is_plain(input)
  return getmetatable(input) == linear.Linear and input.forward == plain_forward
    and input.act == base.ACT.none and not input.recomputes
    and not (input.p > 0 and input.training)
end

-- State i of direction k: [layers x directions, batch, hidden] come and go, as in PyTorch.
local function state_of(self, given, i, k)
  local all = given and given[i]
  return all and #self.cells > 1 and all:narrow(1, k, 1) or all
end

-- One layer in one direction: all outputs and the last state, [1 x batch x hidden].
local function run(self, cell, x, h, c)
  local input, recurrent, wx, bx = cell.input, cell.recurrent, nil, nil
  if is_plain(input) then
    wx, bx = input.weight, input.bias
  else
    x = input(x) -- [batch x length x gates n]
  end
  local w, b, backwards = recurrent.weight, recurrent.bias, cell.backwards and 1 or 0
  local what, pointer = getmetatable(self).__name, call.pointer
  call.settle()
  local slot = ref.slots()
  local st = C.rg_recurrent(x._t, pointer(h), pointer(c), pointer(wx), pointer(bx), w._t,
    pointer(b), self.kind, backwards, slot, slot + 1, slot + 2)
  if st ~= 0 then -- tensors are read here once more, so that they are held until then
    call.again_as(what, st, C.rg_recurrent, x._t, pointer(h), pointer(c), pointer(wx), pointer(bx),
      w._t, pointer(b), self.kind, backwards, slot, slot + 1, slot + 2)
  end
  local y, last = ref.wrap(slot[0]), { ref.wrap(slot[1]) }
  if self.states == 2 then last[2] = ref.wrap(slot[2]) end
  return y, last
end

-- The same, as a part of the module where somebody wants to know: its path ends in 1, 1b, 2 ...
local function run_placed(self, cell, ...)
  if not ranges.on then return run(self, cell, ...) end
  return state.with(ranges.RANGE, { name = ranges.path(cell.name), module = true }, run, self, cell,
    ...)
end

local function check(self, x, given, what)
  ref.need(x, what)
  if #x:size() ~= 3 or x:size(3) ~= self.n_in then
    blame.raise(('%s: x is %s, wanted [batch, length, %d]'):format(what, x:describe(), self.n_in),
      'ESHAPE')
  end
  if x:size(2) == 0 then blame.raise(what .. ': the sequence is empty', 'ESHAPE') end
  if given == nil then return end
  if ref.is(given) then given = { given } end
  if type(given) ~= 'table' then
    blame.raise(('%s: a state is a tensor or a list of them, got %s'):format(what,
      blame.show(given)), 'EARG')
  end
  for i = 1, self.states do
    local h = ref.need(given[i], what .. ': state ' .. i)
    local size = h:size()
    if #size ~= 3 or size[1] ~= #self.cells or size[2] ~= x:size(1) or size[3] ~= self.hidden then
      blame.raise(('%s: state %d is %s, wanted [%d,%d,%d]'):format(what, i, h:describe(),
        #self.cells, x:size(1), self.hidden), 'ESHAPE')
    end
  end
  return given
end

local function forward(self, x, given)
  local what = getmetatable(self).__name
  given = check(self, x, given, what)
  local per, last = self.directions, {}
  for l = 1, self.layers do
    local out = {}
    for d = 1, per do
      local k = (l - 1) * per + d
      out[d], last[k] = run_placed(self, self.cells[k], x, state_of(self, given, 1, k),
        state_of(self, given, 2, k))
    end
    x = per == 1 and out[1] or ops.concat(out, 3)
    if self.training and self.p > 0 and l < self.layers then x = x:dropout(self.p) end
  end
  local states = {}
  for i = 1, self.states do
    local list = {}
    for k, each in ipairs(last) do list[k] = each[i] end
    states[i] = #list == 1 and list[1] or ops.concat(list, 1)
  end
  return x, unpack(states)
end

-- -- The classes --------------------------------------------------------------------------------

local function recurrent(name, kind, gates, states)
  local what = 'nn.' .. name
  local R = class(what, Module)

  --- A recurrent layer.
  function R:init(n_in, hidden, opts)
    Module.init(self)
    base.sizes(what, n_in, hidden)
    opts = options.check(SPEC, opts, what)
    self.n_in, self.hidden, self.layers, self.p = n_in, hidden, opts.layers, opts.dropout
    self.directions = opts.bidirectional and 2 or 1
    self.kind, self.states, self.cells = kind, states, {}
    local seed, bound = opts.seed, hidden ^ -0.5
    for l = 1, opts.layers do
      for d = 1, self.directions do
        local size = l == 1 and n_in or hidden * self.directions
        local cell = { backwards = d == 2, name = ('%d%s'):format(l, d == 2 and 'b' or '') }
        for _, each in ipairs { { 'input', size }, { 'recurrent', hidden } } do
          local part, from = each[1], each[2]
          seed = seed and seed + 1
          local made = linear.Linear(from, gates * hidden, { bias = opts.bias, seed = seed })
          -- all weights from one range, that of the hidden size
          in_no_grad(function()
            for _, p in ipairs(made:parameters()) do p.tensor:mul_(bound * from ^ 0.5) end
          end)
          cell[part] = self:child(cell.name .. '.' .. part, made)
        end
        self.cells[#self.cells + 1] = cell
      end
    end
  end

  R.forward = forward

  function R:__tostring()
    return ('%s(%d -> %d%s%s, %d parameters)'):format(what, self.n_in, self.hidden,
      self.layers > 1 and (', %d layers'):format(self.layers) or '',
      self.directions == 2 and ', both ways' or '', (self:num_parameters()))
  end

  return R
end

M.LSTM = recurrent('LSTM', C.RG_CELL_LSTM, 4, 2)
M.LSTM.__doc = 'LSTM(n_in, hidden, {layers = 1, bidirectional = false, dropout = 0, bias = true, '
  .. 'seed =}): called with x [batch x length x n_in] and, if there is one, the state {h, c}, it '
  .. 'gives y [batch x length x hidden], and the last h and c, [layers x batch x hidden].'

M.GRU = recurrent('GRU', C.RG_CELL_GRU, 3, 1)
M.GRU.__doc = 'GRU(n_in, hidden, {layers = 1, bidirectional = false, dropout = 0, bias = true, '
  .. 'seed =}): called with x [batch x length x n_in] and, if there is one, the state h, it gives '
  .. 'y [batch x length x hidden] and the last h, [layers x batch x hidden].'

return M
