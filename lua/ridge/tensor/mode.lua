-- SPDX-License-Identifier: MIT
--- Calls of modules that are for running: ridge.inference, and who wants to know whether a module
--- in training mode was called without a backward pass.
---
--- Modules ask `hook` at each call, which is nil unless one of the two is on.

local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local state = require 'ridge.state'

local M = { hook = nil }

local inference, watching -- the innermost entries that are on

-- Evaluation mode for a module and what is below it, and what each was in before.
local function switch(module, list)
  list[#list + 1] = { module = module, training = module.training }
  module.training = false
  if module._l then C.rg_layer_set_training(module._l, 0) end
  for _, child in ipairs(module.children) do switch(child.module, list) end
end

local function called(module)
  if not module.training then return end
  if inference then
    switch(module, inference.switched)
  elseif watching then
    watching.training = true
  end
end

local function refresh()
  M.hook = (inference or watching) and called or nil
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
    local module, training = entry.switched[i].module, entry.switched[i].training
    module.training = training
    if module._l then C.rg_layer_set_training(module._l, training and 1 or 0) end
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
  return ...
end

--- Call a function, and note whether modules in training mode were called and no backward pass
--- went.
---@param seen table gets `training`, unless the function raises
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.watch(seen, f, ...)
  local entry = {}
  return looked(seen, entry, backward.passes, state.with(WATCH, entry, f, ...))
end

return M
