-- SPDX-License-Identifier: MIT
--- Recomputation (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016): a part of a
--- network keeps its inputs alone; the backward pass computes it once more, with the same random
--- numbers, and goes through that.

local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local grad = require 'ridge.tensor.grad'
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'

local M = {}

--- True while a part is computed once more: what a layer counts or averages was counted already.
M.again = false

-- Inputs of no gradient (data) must not keep the part from being recorded: its parameters want one.
local anchor

local function anchored()
  if not anchor then
    anchor = ref.outlive(make.zeros(1))
    anchor:requires_grad_()
  end
  return anchor
end

local function standing()
  local g = C.rg_generator_default()
  return C.rg_generator_seed(g), C.rg_generator_offset(g)
end

-- The random numbers and the mixed precision of another time; parts may lie in parts.
local THEN = state.exchange(function(value)
  local seed, offset = standing()
  local before = { seed = seed, offset = offset, cast = C.rg_autocast_set(value.cast),
    again = M.again }
  C.rg_generator_set(C.rg_generator_default(), value.seed, value.offset)
  M.again = value.again
  return before
end)

-- Nodes of a graph that is recorded are marked meanwhile.
local MARKED = state.exchange(C.rg_record_recomputed)

-- Compute again from copies of the inputs and go back through that.
local function gradients(f, args, inputs, past, dout)
  local again, copies = { unpack(args, 1, args.n) }, {}
  local dx = { false }
  local value = { seed = past.seed, offset = past.offset, cast = past.cast, again = true }
  state.with(THEN, { value = value }, function()
    for at, x in pairs(inputs) do
      local copy = x:detach():clone()
      if past.wants[at] then copy:requires_grad_() end
      again[at], copies[at] = copy, copy
    end
    local results = grad.enable_grad(function()
      return { state.with(MARKED, { value = 1 }, f, unpack(again, 1, args.n)) }
    end)
    local last
    for i = 1, #dout do
      if dout[i] and results[i].requires_grad then last = i end
    end
    for i = 1, last or 0 do
      if dout[i] and results[i].requires_grad then
        backward.run(results[i], dout[i], i < last and C.RG_BACKWARD_RETAIN or 0)
      end
    end
  end)
  local n = 1
  for at = 1, args.n do
    if inputs[at] then
      n = n + 1
      dx[n] = past.wants[at] and copies[at].grad or false
    end
  end
  return dx
end

--- Call a function to try it: what it drew can be drawn again, and layers count nothing.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.try(f, ...)
  local seed, offset = standing()
  local value = { seed = seed, offset = offset, cast = C.rg_autocast(), again = true }
  return state.with(THEN, { value = value }, f, ...)
end

--- Call a function of tensors and keep only its inputs for the backward pass, which computes it
--- again. Gradients are those of the plain call, bit for bit. Where nothing is recorded for
--- gradients it is the plain call.
---
--- The function may write into what it made itself, not into its inputs.
---@param f function of tensors, or a module
---@param ... any its arguments; tensors among them are kept
---@return any what f returns
-- >> local net = ridge.nn.Linear(4, 4):train()
-- >> ridge.recompute(net, ridge.randn(2, 4)):sum():backward()
function M.recompute(f, ...)
  if not blame.callable(f) then
    blame.raise('recompute: a function is expected, got ' .. blame.show(f))
  end
  if not grad.recording() then return f(...) end
  local args, inputs, list, versions = { n = select('#', ...), ... }, {}, { anchored() }, {}
  local seed, offset = standing()
  local past = { seed = seed, offset = offset, cast = C.rg_autocast(), wants = {} }
  for at = 1, args.n do
    if ref.is(args[at]) then
      local x = ref.need(args[at], 'recompute: argument ' .. at)
      inputs[at], list[#list + 1] = x, x
      versions[at] = C.rg_tensor_version(x._t)
      past.wants[at] = x.requires_grad
    end
  end
  local results = { grad.no_grad(f, ...) }
  if C.rg_capturing() == 1 and select(2, standing()) ~= offset then
    blame.raise('recompute: a plan draws new random numbers each time, and both passes of a part '
      .. 'need the same; leave out dropout, recompute or capture')
  end
  for at, x in pairs(inputs) do
    if C.rg_tensor_version(x._t) ~= versions[at] then
      blame.raise(('recompute: argument %d, %s, was written to: computing it again would begin '
        .. 'from other numbers; write into a copy'):format(at, x:describe()))
    end
  end
  for i, y in ipairs(results) do
    ref.need(y, 'recompute: result ' .. i)
    for _, x in pairs(inputs) do
      if y._t._storage == x._t._storage then
        results[i] = grad.no_grad(function() return y:clone() end)
      end
    end
  end
  backward.record(list, results, function(dout)
    return gradients(f, args, inputs, past, dout)
  end, true)
  return unpack(results)
end

return M
