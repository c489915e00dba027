-- SPDX-License-Identifier: MIT
--- Functions with a gradient of their own, gradients that are handed out, hooks on what flows back.

local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local grad = require 'ridge.tensor.grad'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'

local M = {}

local FUNCTION = {
  name = { 'string', default = 'function', doc = 'what errors call it' },
  forward = { 'function', required = true, doc = 'forward(context, ...): the results' },
  backward = { 'function', required = true,
    doc = 'backward(context, ...): from the gradients of the results those of the inputs' },
}

local function tensors_of(name, what, ...)
  local list = {}
  for i = 1, select('#', ...) do
    list[i] = ref.need((select(i, ...)), ('%s: %s %d'):format(name, what, i))
  end
  return list
end

--- A differentiable function whose gradient is written in Lua.
---
--- forward(context, ...) computes results from tensors while nothing is recorded; what backward
--- needs it puts into context. backward(context, ...) gets the incoming gradients of the results
--- (nil where nothing does) and returns the gradients of the inputs, nil for none.
---@param spec table {forward = function, backward = function, name = 'function'}
---@return function f takes tensors, returns the results
-- >> local double = ridge.Function {
-- >>   forward = function(_, x) return x * 2 end,
-- >>   backward = function(_, dy) return dy * 2 end,
-- >> }
-- >> local x = ridge.ones(3):requires_grad_()
-- >> double(x):sum():backward()
-- >> return x.grad
function M.Function(spec)
  spec = options.check(FUNCTION, spec, 'Function')
  return function(...)
    local context = {}
    local inputs = tensors_of(spec.name, 'input', ...)
    local results = tensors_of(spec.name, 'result', grad.no_grad(spec.forward, context, ...))
    backward.record(inputs, results, function(dout)
      local list = {}
      for i = 1, #results do list[i] = dout[i] or nil end
      return { spec.backward(context, unpack(list, 1, #dout)) }
    end, 0)
    return unpack(results)
  end
end

--- Let a function see, and change, the gradient that flows back through a tensor.
---@param x Tensor
---@param f function f(gradient): returns another one, or nil to leave it
---@return Tensor y the same elements; what is computed from it has the hook in its backward pass
-- >> local x = ridge.ones(2):requires_grad_()
-- >> ridge.hook(x * 3, function(g) print(g) end):sum():backward()
function M.hook(x, f)
  ref.need(x, 'hook')
  if not blame.callable(f) then blame.raise('hook: a function is expected, got ' .. type(f)) end
  local y = grad.no_grad(function() return x:clone() end)
  backward.record({ x }, { y }, function(dout)
    local dy = dout[1]
    return { f(dy) or dy }
  end, 0)
  return y
end

local GRAD = {
  dy = { 'any', doc = 'incoming gradient of y; 1 when left out' },
  create = { 'boolean', default = false, doc = 'the gradients have gradients themselves' },
  retain = { 'boolean', default = false, doc = 'keep what was saved: to go the same way again' },
}

--- The gradients of y with respect to some tensors, handed out instead of added to `.grad`.
---
--- With create they are differentiable themselves, as far as the rules of the operations on the way
--- are made of operations that have a gradient; else the next backward pass says which has none.
---@param y Tensor one element, unless dy is given
---@param xs Tensor|table one, or a list; each requires a gradient (requires_grad_)
---@param opts table|nil {dy = Tensor, create = false, retain = false}
---@return Tensor ... one for each of xs, nil where y does not depend on it
-- >> local x = ridge.tensor({2}):requires_grad_()
-- >> local g = ridge.grad((x * x * x):sum(), x, {create = true})
-- >> return ridge.grad(g:sum(), x)
function M.grad(y, xs, opts)
  ref.need(y, 'grad')
  opts = options.check(GRAD, opts, 'grad')
  if ref.is(xs) then xs = { xs } end
  if type(xs) ~= 'table' then
    blame.raise('grad: a tensor, or a list of them, is expected, got ' .. blame.show(xs))
  end
  for i, x in ipairs(xs) do
    ref.need(x, 'grad: tensor ' .. i)
    if not x.requires_grad then
      blame.raise(('grad: tensor %d, %s, requires no gradient'):format(i, x:describe()))
    end
  end
  if opts.dy ~= nil then ref.need(opts.dy, 'grad: dy') end
  local flags = C.RG_BACKWARD_HAND_OUT + (opts.create and C.RG_BACKWARD_CREATE or 0)
    + (opts.retain and C.RG_BACKWARD_RETAIN or 0)
  local out = backward.run(y, opts.dy, flags, xs)
  for i = 1, #xs do out[i] = out[i] or nil end
  return unpack(out, 1, #xs)
end

return M
