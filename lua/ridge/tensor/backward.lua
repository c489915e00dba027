-- SPDX-License-Identifier: MIT
--- The backward pass where functions in Lua lie on it: it stops there and asks, Lua computes and
--- gives (a loop, no callbacks). It stops likewise where the gradient of a leaf with hooks is
--- complete.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local leaves = require 'ridge.tensor.leaf_hooks'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'

--- passes: how many have begun.
local M = { passes = 0 }

local MOST = 64 -- inputs of a function
local recorded = ffi.new('int32_t[1]')

-- Functions by number; what the core says is gone goes.
local functions, last, count = {}, 0, 0

local function drain()
  local dead = ffi.new 'int64_t[64]'
  repeat
    local n = tonumber(C.rg_grad_dead(dead, 64))
    for i = 0, n - 1 do
      local id = tonumber(dead[i])
      if functions[id] then count = count - 1 end
      functions[id] = nil
      leaves.gone(id)
    end
  until n < 64
end

--- How many functions the tape still knows.
---@return number
function M.functions()
  ref.reap()
  drain()
  return count
end

--- A number that no function and no leaf has.
---@return number
function M.number()
  last = last + 1
  return last
end

--- From now on the results came from the inputs, and `gradient` says how: it gets a list of the
--- incoming gradients of the results (false where there is none) and gives a list of gradients of
--- the inputs (false or nil for none).
---@param inputs table list of Tensor
---@param results table list of Tensor, computed while nothing was recorded
---@param gradient function
---@param flags number RG_FUNCTION_... or 0; one that goes back is given the pass that asks, too
function M.record(inputs, results, gradient, flags)
  drain()
  if #inputs > MOST or #results > 8 then
    blame.raise(('function: %d inputs and %d results; %d and 8 are the most'):format(#inputs,
      #results, MOST))
  end
  local list_in = ffi.new('const rg_tensor *[?]', math.max(1, #inputs))
  local list_out = ffi.new 'rg_tensor *[8]'
  for i = 1, #inputs do list_in[i - 1] = inputs[i]._t end
  for i = 1, #results do list_out[i - 1] = results[i]._t end
  local id = M.number()
  call.check(C.rg_grad_record(list_in, #inputs, list_out, #results, id, flags, recorded))
  if recorded[0] == 0 then return end -- nothing requires a gradient
  functions[id], count = { gradient = gradient, n = #inputs, m = #results }, count + 1
end

-- Answer one question of the pass. What passed and is not kept releases what it held.
local function answer(pass, keeps)
  local arriving = ffi.new 'rg_tensor *[8]'
  local id = tonumber(C.rg_backward_asks(pass, arriving))
  local f = functions[id]
  local dout = {}
  for i = 1, f.m do
    local dy = arriving[i - 1]
    dout[i] = dy ~= nil and ref.wrap(dy) or false
  end
  local dx = f.gradient(dout, pass)
  if type(dx) ~= 'table' then
    blame.raise('backward: a function gives a list of gradients, one for each input, got '
      .. blame.show(dx))
  end
  local given = ffi.new('rg_tensor *[?]', math.max(1, f.n))
  for i = 1, f.n do
    local x = dx[i]
    if x then ref.need(x, ('backward: gradient %d of a function'):format(i)) end
    given[i - 1] = x and x._t or nil
  end
  call.check(C.rg_backward_give(pass, given, f.n))
  if not keeps then f.gradient = nil end
end

local function drive(pass, keeps, number)
  while true do
    local status = C.rg_backward_go(pass)
    if status == 0 then return end
    if status ~= C.RG_ENEEDLUA then
      if M.explain and status == C.RG_ENAN then M.explain(C.rg_backward_line(pass)) end
      call.fail(status)
    end
    local leaf = tonumber(C.rg_backward_leaf(pass))
    if leaf > 0 then leaves.tell(leaf, number) else answer(pass, keeps) end
  end
end

-- The gradient of each tensor, false where there is none.
local function taken(pass, tensors)
  local out = {}
  for i, x in ipairs(tensors) do
    local st = C.rg_backward_take(pass, x._t, ref.slot)
    if st ~= 0 then call.fail(st, 'grad') end
    local grad = ref.slot[0]
    out[i] = grad ~= nil and ref.wrap(grad)
  end
  return out
end

-- A coroutine that waits in a function's gradient leaves the pass where it is.
local PASS = {
  on = function(entry) C.rg_backward_set_aside(entry.pass, 0) end,
  off = function(entry) C.rg_backward_set_aside(entry.pass, 1) end,
}

--- Go back from y.
---@param y Tensor
---@param dy Tensor|nil
---@param flags number RG_BACKWARD_...
---@param taking table|nil list of Tensor whose gradients are handed out
---@param outer cdata|nil the pass that this one is part of
---@return table|nil gradients one for each of them, false where there is none
function M.run(y, dy, flags, taking, outer)
  M.passes = M.passes + 1
  call.settle()
  if leaves.count > 0 then
    drain()
    leaves.begun = leaves.begun + 1
  end
  if count == 0 and not taking and not M.explain and leaves.count == 0 then -- nothing to ask
    call.check(C.rg_backward(y._t, dy ~= nil and dy._t or nil, flags))
    return nil
  end
  local tells, pass_slot = leaves.count > 0 and not outer, ffi.new('rg_backward_pass *[1]')
  call.check(C.rg_backward_begin(y._t, dy ~= nil and dy._t or nil,
    flags + (tells and C.RG_BACKWARD_TELL or 0), pass_slot), 'backward')
  local pass = ffi.gc(pass_slot[0], C.rg_backward_end) -- a coroutine may stop on it for good
  if outer then C.rg_backward_within(pass, outer) end
  local ok, out = pcall(state.with, PASS, { pass = pass }, drive, pass,
    flags % 4 ~= 0, leaves.begun) -- RG_BACKWARD_RETAIN or CREATE
  if ok then ok, out = pcall(taken, pass, taking or {}) end
  C.rg_backward_end(ffi.gc(pass, nil))
  if tells then leaves.over(ok) end
  if not ok then error(out, 0) end
  return taking and out
end

return M
