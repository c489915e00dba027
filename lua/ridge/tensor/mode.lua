-- SPDX-License-Identifier: MIT
--- Calls of modules that are for running: ridge.inference, and who wants to know whether a module
--- in training mode was called without a backward pass.
---
--- Modules ask `hook` at each call and `reads` when a parameter is read, which are nil unless one
--- of the two is on. `replaced` counts the parameters that became other tensors: whoever keeps
--- tensors of modules (plans, optimizers) looks there whether to look again.

local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local state = require 'ridge.state'

local M = { hook = nil, reads = nil, replaced = 0 }

local inference, watching -- the innermost entries that are on

-- Evaluation mode for a module and what is below it, and what each was in before.
local function switch(module, list)
  list[#list + 1] = { module = module, training = module.training }
  module.training = false
  for _, child in ipairs(module.children) do switch(child.module, list) end
end

local function used(module)
  local list = watching.modules
  if not list[module] then
    list[module] = true
    list[#list + 1] = module
  end
end

local function called(module)
  if watching then used(module) end
  if not module.training then return end
  if inference then
    switch(module, inference.switched)
  elseif watching then
    watching.training = true
  end
end

local function refresh()
  M.hook = (inference or watching) and called or nil
  M.reads = watching and used or nil
end

local INFERENCE = {}

function INFERENCE.on(entry)
  entry.recording = C.rg_grad_mode(0)
  entry.switched = {}
  entry.outer, inference = inference, entry
  refresh()
end

function INFERENCE.off(entry)
  for i = #entry.switched, 1, -1 do
    entry.switched[i].module.training = entry.switched[i].training
  end
  inference, entry.outer = entry.outer, nil
  refresh()
  C.rg_grad_mode(entry.recording)
end

--- Call a function for its results alone: nothing is remembered for gradients, and the modules that
--- it calls compute as in evaluation mode; they are in their own mode again behind it.
---@param f function a module is one
---@param ... any its arguments
---@return any what f returns
-- >> local net = ridge.nn.Linear(3, 2)
-- >> return ridge.inference(net, ridge.ones(1, 3)).requires_grad
function M.inference(f, ...)
  if not blame.callable(f) then
    blame.raise('inference: a function is expected, got ' .. blame.show(f))
  end
  return state.with(INFERENCE, {}, f, ...)
end

--- Is ridge.inference on?
---@return boolean
function M.infers() return inference ~= nil end

local WATCH = {}

function WATCH.on(entry)
  entry.outer, watching = watching, entry
  refresh()
end

function WATCH.off(entry)
  watching, entry.outer = entry.outer, nil
  refresh()
end

local function looked(seen, entry, before, ...)
  seen.training = entry.training and backward.passes == before or false
  seen.modules = entry.modules
  return ...
end

--- Call a function, and note whether modules in training mode were called and no backward pass
--- went.
---@param seen table gets `training` and `modules`, a list of those called, or of which a parameter
---  was read, unless the function raises
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.watch(seen, f, ...)
  local entry = { modules = {} }
  return looked(seen, entry, backward.passes, state.with(WATCH, entry, f, ...))
end

-- -- Parameters in their places -------------------------------------------------------------

-- The parametrisation that a module's parameter has.
local function way_of(module, name)
  return module._parametrizations and module._parametrizations[name]
end

local function add_places(module, prefix, list, seen)
  if seen[module] then return end
  seen[module] = true
  for _, p in ipairs(module.params) do
    list[#list + 1] = { name = prefix .. p.name, tensor = p.tensor, trainable = p.trainable,
      module = module, own = p.name, way = way_of(module, p.name) }
  end
  for _, c in ipairs(module.children) do
    add_places(c.module, prefix .. c.name .. '.', list, seen)
  end
end

--- Every place of a parameter in a module and below it, tied ones each.
---@param module table
---@param list table|nil goes on with it
---@param seen table|nil modules that were met
---@return table list of {name, tensor, trainable, module, own, way}: way is how the module computes
---  with the tensor, where it is parametrised
function M.places(module, list, seen)
  list = list or {}
  add_places(module, '', list, seen or {})
  return list
end

--- Is what a place holds a parameter, trained or frozen, and not a buffer?
---@param place table
---@return boolean
function M.is_learned(place)
  if place.trainable then return true end
  for _, p in ipairs(place.module.params) do
    if p.name == place.own then return p.frozen == true end
  end
  return false
end

--- What a place holds now; nil where the module has no such parameter any more.
---@param place table
---@return Tensor|nil
function M.held(place)
  for _, p in ipairs(place.module.params) do
    if p.name == place.own then return p.tensor end
  end
end

--- Does a place hold what it held when it was listed, and is it read in the same way?
---@param place table
---@return boolean
function M.is_current(place)
  local now = M.held(place)
  return now ~= nil and now._t == place.tensor._t and way_of(place.module, place.own) == place.way
end

return M
