-- SPDX-License-Identifier: MIT
--- Gradients of a compiled function. A plan adds to gradients, or makes them, in tensors of its
--- own, whatever parameters have for gradients when it is called: these are exchanged before it
--- runs. What a function does with gradients may depend on whether there are any.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'

local M = {}

local slot = ffi.new 'rg_tensor *[1]'

local function is_there(x)
  local failed = C.rg_grad_of(x._t, slot)
  if failed ~= 0 then call.fail(failed, 'compile') end
  local grad = slot[0]
  local there = grad ~= nil
  if there then C.rg_tensor_release(grad) end
  return there
end

-- Has a graph a state in the memory of a tensor?
local function is_state(graph, x)
  for _, value in ipairs(graph:states()) do
    local pointer = C.rg_graph_bound(graph._p, value.id)
    if pointer ~= nil and C.rg_tensor_same_storage(pointer, x._t) == 1 then return true end
  end
  return false
end

-- The parameter's gradient itself, held.
local function gradient_of(x)
  local there = is_there(x)
  if not there then return nil end
  local failed = C.rg_grad_exchange(x._t, nil, slot)
  if failed ~= 0 then call.fail(failed, 'compile') end
  local grad = ref.wrap(slot[0])
  failed = C.rg_grad_exchange(x._t, grad._t, slot)
  if failed ~= 0 then call.fail(failed, 'compile') end
  return grad
end

--- The parameters of a recording that has just been made.
---@param r table of ridge.compile.entry
---@return table[] list {x = the parameter, grad = where a plan leaves its gradient, reads = the
---  plan adds to it; had = whether it has one when the plan is called, nil: that is not known}
function M.of(r)
  local list, met, made, trains = {}, {}, {}, false
  if not r.stateful then return list end
  for _, output in ipairs(r.graph:outputs()) do
    if output.kind == 'gradient' and output.value.kind == 'intermediate' then
      made[output.name] = true
    end
  end
  for _, place in ipairs(r.graph._made.places) do
    local x = place.tensor
    local id = tostring(x._t)
    if not met[id] and C.rg_requires_grad(x._t) == 1 then
      met[id] = true
      local grad = gradient_of(x)
      local reads = grad ~= nil and is_state(r.graph, grad)
      if not reads and not made[place.name .. '.grad'] then grad = nil end
      trains = trains or grad ~= nil or is_state(r.graph, x)
      list[#list + 1] = { x = x, grad = grad, reads = reads, had = reads or nil }
    end
  end
  return trains and list or {} -- what only a forward pass writes is none of gradients
end

--- Which parameters have gradients, as text.
---@param list table[] of `of`
---@return string
function M.kind(list)
  local bits = {}
  for i, entry in ipairs(list) do bits[i] = is_there(entry.x) and '1' or '0' end
  return table.concat(bits)
end

--- What is there now is what the plan is for.
---@param list table[]
function M.learn(list)
  for _, entry in ipairs(list) do entry.had = is_there(entry.x) end
end

--- Have the parameters gradients where they had some, and none where they had none?
---@param list table[]
---@return boolean
function M.fit(list)
  for i = 1, #list do
    local entry = list[i]
    if entry.had ~= nil and is_there(entry.x) ~= entry.had then return false end
  end
  return true
end

--- Could a plan that makes gradients be right only because those there are none, or zeros?
---@param list table[]
---@return boolean
function M.hide(list)
  for _, entry in ipairs(list) do
    local grad = entry.grad and not entry.reads and gradient_of(entry.x)
    if grad and not (grad:ne(0):to('f32'):sum():item() > 0) then return true end
  end
  return false
end

--- Does a plan make gradients where there are some?
---@param list table[]
---@return boolean
function M.replace(list)
  for _, entry in ipairs(list) do
    if entry.grad and not entry.reads and is_there(entry.x) then return true end
  end
  return false
end

--- Let the plan's gradients be those of the parameters, with the contents of those that are there.
---@param list table[]
---@param keep boolean|nil return what was there
---@return table|nil before by place in the list, for `put_back`
function M.attach(list, keep)
  local before = keep and {} or nil
  for i = 1, #list do
    local entry = list[i]
    local grad = entry.grad
    if grad then
      local failed = C.rg_grad_exchange(entry.x._t, grad._t, slot)
      if failed ~= 0 then call.fail(failed, 'compile') end
      local old, status = slot[0], 0
      if old ~= nil and old ~= grad._t and entry.reads then
        local mode = C.rg_grad_mode(0)
        status = C.rg_copy_(grad._t, old)
        C.rg_grad_mode(mode)
      end
      if before then
        before[i] = old ~= nil and ref.wrap(old) or false
      elseif old ~= nil then
        C.rg_tensor_release(old)
      end
      call.check(status, 'compile')
    end
  end
  return before
end

--- Undo it where the plan makes gradients, so that the function finds those that were there; where
--- both add to some, these are the plan's from here on.
---@param list table[]
---@param before table
function M.put_back(list, before)
  for i, old in pairs(before) do
    if not list[i].reads then
      local failed = C.rg_grad_exchange(list[i].x._t, old and old._t or nil, slot)
      if failed ~= 0 then call.fail(failed, 'compile') end
      local replaced = slot[0]
      if replaced ~= nil then C.rg_tensor_release(replaced) end
    end
  end
end

return M
