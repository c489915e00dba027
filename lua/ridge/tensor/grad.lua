-- SPDX-License-Identifier: MIT
--- Gradients as tensor methods and properties, and the functions that switch recording off.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local leaves = require 'ridge.tensor.leaf_hooks'
local ranges = require 'ridge.ranges'
local state = require 'ridge.state'
local way = require 'ridge.tensor.backward'

local M = { methods = {}, docs = {}, properties = {} }

local methods, docs, properties = M.methods, M.docs, M.properties
local surplus = require('ridge.tensor.elementwise').surplus
local slot, need = ref.slot, ref.need

docs.requires_grad_ = 'requires_grad_(on): let gradient flow into this tensor'
--- Let gradient flow into this tensor; what is computed from it is remembered until nobody can ask
--- for its gradient any more.
---
--- What requires a gradient are the elements, whichever tensor shows them: after
--- x:detach():requires_grad_(), as after that of any other view, x requires one, too. Where it
--- shall not, x:detach():clone():requires_grad_() has elements of its own.
---@param x Tensor float
---@param on boolean|nil true when left out
---@return Tensor x
-- >> ridge.ones(2):requires_grad_().requires_grad
function methods.requires_grad_(x, on, extra)
  if extra ~= nil then surplus('requires_grad_', 'on', extra) end
  need(x, 'requires_grad_')
  options.flag(on, 'requires_grad_', 'on')
  if on == false then leaves.set_aside(x) end
  call.check(C.rg_require_grad(x._t, on == false and 0 or 1), 'requires_grad_')
  if on ~= false then leaves.resume(x, way.number) end
  return x
end

local BACKWARD = {
  retain = { 'boolean', default = false, doc = 'keep what was saved: to go the same way again' },
}

docs.backward = 'backward(dy, {retain = false}): add the gradient of this to .grad of its origins'
--- Add the gradient of this tensor to the `.grad` of every tensor it came from that requires one.
---@param y Tensor one element, unless dy is given
---@param dy Tensor|nil incoming gradient, of this shape; 1 when left out
---@param opts table|nil {retain = false}
-- >> x = ridge.ones(3):requires_grad_()
-- >> (x * x):sum():backward()
-- >> x.grad
function methods.backward(y, dy, opts, extra)
  if extra ~= nil then surplus('backward', 'dy, opts', extra) end
  need(y, 'backward')
  if dy ~= nil and not ref.is(dy) and type(dy) == 'table' and opts == nil then
    dy, opts = nil, dy
  end
  opts = options.check(BACKWARD, opts, 'backward')
  if dy ~= nil then need(dy, 'backward') end
  ranges.section('backward', way.run, y, dy, opts.retain and C.RG_BACKWARD_RETAIN or 0)
end

docs.on_gradient = 'on_gradient(f): call f(x) whenever a backward pass has completed x.grad'
--- Call a function of this tensor whenever a backward pass has added the last contribution to its
--- `.grad`, before the rest of the pass runs: an all-reduce can begin there, or an optimizer step.
---
--- It is called once for each pass, in the order in which gradients are complete, and only where
--- gradient arrived; nothing is recorded for gradients in it. It may read and write x and x.grad,
--- and forget the latter. An error in it ends the pass: gradients completed before stay, the others
--- are as they were. Parts that are computed again (ridge.recompute) may add to any tensor: it is
--- complete behind the last of them. ridge.grad adds to none. The hook is the tensor's: it ends
--- with it, and a parameter that is replaced has none. What f itself holds lives as long as that.
---@param x Tensor a leaf: it requires a gradient and was not computed
---@param f function f(x)
---@return table handle handle:remove() ends it
-- >> local x = ridge.ones(2):requires_grad_()
-- >> local handle = x:on_gradient(function(t) print(t.grad) end)
-- >> (x * x):sum():backward()
-- >> handle:remove()
function methods.on_gradient(x, f, extra)
  if extra ~= nil then surplus('on_gradient', 'f', extra) end
  need(x, 'on_gradient')
  if not blame.callable(f) then
    blame.raise('on_gradient: a function is expected, got ' .. blame.show(f))
  end
  return leaves.add(x, f, way.number)
end

docs.detach = 'detach(): the same elements, through which no gradient flows'
--- The same elements, through which no gradient flows. They are shared, so that
--- x:detach():requires_grad_() lets gradient flow into x again.
---@param x Tensor
---@return Tensor view
function methods.detach(x, extra)
  if extra ~= nil then surplus('detach', '', extra) end
  need(x, 'detach')
  local st = C.rg_detach(x._t, slot)
  if st ~= 0 then call.fail(st) end
  return ref.wrap(slot[0])
end

local ZERO = { set = { 'boolean', default = false, doc = 'fill with zeros; else it is forgotten' } }

docs.zero_grad = 'zero_grad{set = false}: forget the gradient, or fill it with zeros'
--- Forget the gradient, or fill it with zeros, so that its memory stays.
---@param x Tensor
---@param opts table|nil {set = false}
---@return Tensor x
function methods.zero_grad(x, opts, extra)
  if extra ~= nil then surplus('zero_grad', 'opts', extra) end
  need(x, 'zero_grad')
  opts = options.check(ZERO, opts, 'zero_grad')
  call.check(C.rg_zero_grad(x._t, opts.set and 1 or 0))
  return x
end

properties.requires_grad = { function(t) return C.rg_requires_grad(t) == 1 end,
  'does gradient flow into it or through it?' }
properties.grad = { function(t)
  local st = C.rg_grad_of(t, slot)
  if st ~= 0 then call.fail(st) end
  local grad = slot[0]
  return grad ~= nil and ref.wrap(grad) or nil
end, 'the accumulated gradient, or nil' }

-- -- Recording ------------------------------------------------------------------------------

local MODE = state.exchange(C.rg_grad_mode)

local function in_mode(mode, what, f, ...)
  if not blame.callable(f) then
    blame.raise(('%s: a function is expected, got %s'):format(what, type(f)))
  end
  return state.with(MODE, { value = mode }, f, ...)
end

--- Call a function in which nothing is remembered for gradients.
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> x = ridge.ones(2):requires_grad_()
-- >> ridge.no_grad(function() return (x + 1).requires_grad end)
function M.no_grad(f, ...)
  return in_mode(0, 'no_grad', f, ...)
end

--- Call a function in which gradients are remembered, inside ridge.no_grad.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.enable_grad(f, ...)
  return in_mode(1, 'enable_grad', f, ...)
end

--- Are calls remembered for gradients here?
---@return boolean
function M.recording()
  local on = C.rg_grad_mode(1)
  C.rg_grad_mode(on)
  return on == 1
end

--- How many calls are remembered, and the bytes they keep for their gradients.
---@return table {calls =, saved_bytes =}
function M.stats()
  ref.reap()
  return { calls = tonumber(C.rg_grad_calls()), saved_bytes = tonumber(C.rg_grad_saved_bytes()) }
end

local SAVED = 4096 -- entries asked for at first

--- What is kept for the backward pass from a tensor, and which operation's gradient reads it: one
--- entry for each piece of memory, the largest first; line is that of the call, where ridge.anomaly
--- made it known.
---@param y Tensor
---@return table list of {bytes =, op =, what = 'input 1' or 'result 1', param = boolean, times =,
---  line =}
-- >> local x = ridge.ones(1000):requires_grad_()
-- >> return ridge.grad_saved((x * x):exp())
function M.saved(y)
  need(y, 'grad_saved')
  local count = ffi.new('int64_t[1]')
  local room = SAVED
  local list = ffi.new('rg_saved[?]', room)
  call.check(C.rg_grad_saved(y._t, list, room, count))
  if count[0] > room then
    room = tonumber(count[0])
    list = ffi.new('rg_saved[?]', room)
    call.check(C.rg_grad_saved(y._t, list, room, count))
  end
  local found, by = {}, {}
  for i = 0, tonumber(count[0]) - 1 do
    local s = list[i]
    local id = tonumber(s.memory)
    local entry = by[id]
    if not entry then
      entry = { bytes = tonumber(s.bytes), op = ffi.string(s.op), param = s.param == 1, times = 0,
        line = s.line ~= nil and ffi.string(s.line) or nil,
        what = s.index > 0 and 'input ' .. s.index or 'result ' .. -s.index }
      by[id], found[#found + 1] = entry, entry
    end
    entry.times = entry.times + 1
  end
  table.sort(found, function(a, b) return a.bytes > b.bytes end)
  return found
end

return M
