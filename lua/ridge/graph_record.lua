-- SPDX-License-Identifier: MIT
--- ridge.graph(f, ...): the graph of what a function computes.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local lines = require 'ridge.lines'
local mode = require 'ridge.tensor.mode'
local names = require 'ridge.graph_names'
local plan = require 'ridge.plan'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'

local M = {}

local held -- by the recording that is on: what ridge.used was given

-- It is set aside with the capture: what others do meanwhile is none of it.
local RECORDING = {
  on = function(entry)
    held = entry.held
    if not entry.recording then
      call.check(C.rg_record_begin(entry.in_place))
    else
      C.rg_record_swap(ffi.gc(entry.recording, nil))
      entry.recording = nil
    end
  end,
  off = function(entry)
    held = nil
    entry.recording = ffi.gc(C.rg_record_swap(nil), C.rg_record_release)
  end,
  stop = function()
    held = nil
    C.rg_record_cancel()
  end,
}

local function output(x, kind, name)
  call.check(C.rg_record_output(x._t, kind, name))
end

-- Tensors that a function returned, those in tables of its too, by their names there. Gives what
-- it returned with the numbers of outputs in their places.
local function returned(value, name, seen)
  if ref.is(value) then
    ref.need(value, seen.what)
    output(value, C.RG_OUTPUT_RETURNED, name)
    seen.n = seen.n + 1
    return { output = seen.n }
  elseif type(value) == 'table' and seen[value] then
    return seen[value]
  elseif type(value) == 'table' and not getmetatable(value) then
    local keys, fields = {}, {}
    seen[value] = { fields = fields } -- a table that is there twice is one
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do
      fields[key] = returned(value[key], name and name .. '.' .. tostring(key) or tostring(key),
        seen)
    end
    return seen[value]
  end
  return { value = value }
end

-- A parameter's gradient; it is a view, and making that is no part of what f does.
local function gradient_of(tensor)
  local recording = C.rg_record_swap(nil)
  local ok, grad = pcall(function() return tensor.grad end)
  C.rg_record_swap(recording)
  if not ok then error(grad, 0) end
  return grad
end

-- Names for what modules hold, and the gradients that a backward pass left there.
local function parameters(modules, f, ...)
  local list, met = names.places(modules, f, ...), {}
  for _, place in ipairs(list) do
    local id = tonumber(ffi.cast('intptr_t', place.tensor._t))
    if not met[id] then -- a tied one has its first name
      met[id] = true
      call.check(C.rg_record_name(place.tensor._t, place.name))
      local grad = gradient_of(place.tensor)
      if grad then output(grad, C.RG_OUTPUT_GRADIENT, place.name .. '.grad') end
    end
  end
  return list
end

local function keep(...) return { n = select('#', ...), ... } end

-- Call f, and say what it returned.  This is a frame of its own, so that nothing that f made is
-- held by it when that is asked; a plan in place holds what was returned, which is outputs already.
local function run(made, seen, f, ...)
  local results = keep(mode.watch(seen, f, ...))
  made.training = seen.training
  if made.in_place then made.held = results end
  local met = { n = 0, what = made.in_place and 'capture' or 'graph' }
  made.results = {}
  for i = 1, results.n do
    made.results[i] = returned(results[i], results.n > 1 and tostring(i) or nil, met)
  end
end

--- Call a function and record what it computes, inside a capture; where f left what may be
--- garbage, a full collection is part of it.
---@param slot cdata rg_graph pointer, filled
---@param made table gets results (what was returned, by outputs), places, replaced, training,
---  n_used (tensors that ridge.used was given); with in_place, plans of the graph write into the
---  tensors that were returned, which are held: {n =, ...}
---@param f function
---@param ... any its arguments
function M.call(slot, made, f, ...)
  local seen = {}
  local entry = state.enter(RECORDING, { in_place = made.in_place and 1 or 0, held = {} })
  local n = select('#', ...)
  for i = 1, n do
    local x = select(i, ...)
    if ref.is(x) then
      ref.need(x, 'graph')
      call.check(C.rg_record_input(x._t, n > 1 and 'input.' .. i or 'input'))
    end
  end
  run(made, seen, f, ...)
  made.modules, made.replaced, made.n_used = seen.modules, mode.replaced, #held
  made.places = parameters(seen.modules, f, ...)
  if C.rg_record_held() > 0 then ref.settle() end -- else a collection could find nothing
  call.check(C.rg_record_kept())
  held = nil
  if not state.take(entry) then blame.raise('graph: it was ended meanwhile', 'ECAPTURE') end
  call.check(C.rg_record_end(slot))
end

--- Run a function once, and return the graph of what it computes: its calls as nodes, what they
--- read and make as values. What it returned, in tables too, and the gradients it left in
--- parameters are outputs, and what it made that is still held somewhere else after a full
--- collection; what it wrote to that was there before are states. What cannot be captured is an
--- error.
---@param own function makes a graph of the core's one
---@param f function or a module
---@param ... any its arguments; tensors are inputs
---@return table graph
-- >> return ridge.graph(ridge.nn.Linear(3, 2), ridge.ones(4, 3))
function M.record(own, f, ...)
  if not blame.callable(f) then
    blame.raise('graph: a function is expected, got ' .. blame.show(f), 'EARG', 'graph')
  end
  local slot = ffi.new 'rg_graph *[1]'
  local seen = {}
  local captured = lines.recorded(plan.settled_steps, M.call, slot, seen, f, ...)
  captured:release()
  local made = own(slot[0])
  made._made = seen
  -- what was recorded, as long as somebody else has it
  seen.of = setmetatable({ f = f, first = (...) }, { __mode = 'v' })
  if #made:outputs() == 0 and #made:states() == 0 then
    blame.raise('graph: it computes nothing that is seen outside; return what you want computed',
      'EARG', 'graph')
  end
  return made
end

--- Compute tensors in plans and graphs although nobody reads them: what a benchmark times is not
--- taken for dead code, nor for the same as another one. They are outputs of kind 'kept', as what
--- is held outside. Anywhere else it does nothing.
---@param ... Tensor
---@return Tensor ... the same
-- >> local x = ridge.ones(3)
-- >> return ridge.capture(function() ridge.used(x:exp()); return x + 1 end):facts().n_steps
function M.used(...)
  for i = 1, select('#', ...) do
    local x = ref.need(select(i, ...), 'used')
    if held then held[#held + 1] = x end
  end
  return ...
end

return M
