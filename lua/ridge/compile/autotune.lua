-- SPDX-License-Identifier: MIT
--- Mode max-autotune: paths of products are measured (ridge.autotune), then each pass that changes
--- how something is computed, not whether it is, is left out in turn, and stays out where that is
--- faster. What was found of a graph is used again for the same graph.

local entry = require 'ridge.compile.entry'
local timing = require 'ridge.compile.timing'
local trial = require 'ridge.graph_trial'

local M = {}

-- A plan without a pass has to take this part of the time to be taken: what is less is noise.
local FASTER = 0.97

-- Layouts, chains, epilogues: what another way to compute the same is about.
local CHOICES = { 'channels_last', 'elementwise_fusion', 'epilogue_fusion', 'batch_norm_folding',
  'fold_affine' }

local found = {} -- by the text of a graph and passes: the passes that are worth it

-- The lines of nodes in Lua's files are no part of what is computed.
local function key_of(r, names)
  return ('%s\n%s'):format(table.concat(names, ' '), (tostring(r.graph):gsub(' *;[^\n]*', '')))
end

local function without(names, name)
  local list = {}
  for _, other in ipairs(names) do
    if other ~= name then list[#list + 1] = other end
  end
  return list
end

local function faster_than(r, best, names, options)
  local ok, other = pcall(entry.make, r, names, options.tolerance)
  if not ok then return nil end
  local ms = timing.medians { options.runner(best.plan), options.runner(other.plan) }
  trial.restore(r.saved)
  if ms[2] < FASTER * ms[1] then return other end
  other.plan:release()
end

-- Does a pass change the graph at all?
local function matters(r, name)
  return not r.graph:optimize { name }:same(r.graph)
end

--- The best plan of a recording that was found.
---@param r table of ridge.compile.entry
---@param names string[] passes to choose from
---@param options table {tolerance, runner = function of a plan: a function that runs it once and
---  waits for its device}
---@return table made as entry.make gives it, with tuned_ms
function M.make(r, names, options)
  local key = key_of(r, names)
  if found[key] then return entry.make(r, found[key], options.tolerance) end
  local ms, best = timing.once(function()
    local made = entry.make(r, names, options.tolerance)
    require('ridge.choices').autotune(function() made.plan:run() end)
    trial.restore(r.saved)
    made.plan:release() -- it has chosen its paths
    made = entry.make(r, names, options.tolerance)
    for _, name in ipairs(CHOICES) do
      local fewer = without(made.names, name)
      if #fewer < #made.names and matters(r, name) then
        local other = faster_than(r, made, fewer, options)
        if other then
          made.plan:release()
          made = other
        end
      end
    end
    return made
  end)
  best.tuned_ms = ms
  found[key] = best.names
  return best
end

return M
