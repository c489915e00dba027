-- SPDX-License-Identifier: MIT
--- What a call of a net shows. Which Sequentials (and Residuals, and Concats) are taken apart: a
--- module above calls what is in them one by one, and does with what each gives whatever it wants;
--- nothing may be moved between those. And how many axes there are in what comes into each module.

local Concat = require('ridge.nn.concat').Concat
local Residual = require('ridge.nn.residual').Residual
local Sequential = require 'ridge.nn.sequential'
local inference = require('ridge.tensor.mode').inference
local nets = require 'ridge.quant.nets'
local ref = require 'ridge.ffi.ref'
local original = require('ridge.guard').original

local M = {}

local CALLS = { [Sequential] = true, [Residual] = true, [Concat] = true } -- what they hold

local function leave(stack, ...)
  stack[#stack] = nil
  return ...
end

-- Let a module say who called it before it computes.
local function watch(module, stack, see)
  local forward = rawget(module, 'forward') or original(getmetatable(module).forward)
  rawset(module, 'forward', function(self, x, ...)
    see(module, stack[#stack], x)
    stack[#stack + 1] = module
    return leave(stack, forward(self, x, ...))
  end)
end

--- Call a copy of a net, and see which Sequentials hold a module that somebody else called.
---@param net table module
---@param ... any what it takes
---@return table names of modules that are taken apart, to true
---@return table axes of what came into a module, by its name, the most of all calls
function M.of(net, ...)
  local made, holders, names, axes = nets.copy(net), {}, {}, {}
  nets.each(made, function(module, name)
    for _, c in ipairs(CALLS[getmetatable(module)] and module.children or {}) do
      holders[c.module] = holders[c.module] or {}
      holders[c.module][module] = name
    end
  end)
  local stack = {}
  nets.each(made, function(each, at)
    watch(each, stack, function(module, caller, x)
      if ref.is(x) then axes[at] = math.max(axes[at] or 0, x.ndim) end
      for holder, name in pairs(holders[module] or {}) do
        if holder ~= caller then names[name] = true end
      end
    end)
  end)
  inference(made, ...)
  return names, axes
end

--- What is said of them.
---@param name string
---@param class string
---@return string
function M.told_of(name, class)
  return ('%s (%s) is taken apart by the module above it, which calls its modules one '
    .. 'by one: nothing is folded in it, and no bytes are handed on'):format(
    name == '' and 'the net' or name, class)
end

return M
