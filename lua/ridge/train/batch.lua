-- SPDX-License-Identifier: MIT
--- One batch forward and back: under autocast, as a plan, or in parts when memory does not suffice.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local memory = require 'ridge.memory'
local plan = require 'ridge.plan'

local Batch = class 'train.Batch'

--- What is done with a batch.
---@param model table
---@param loss function of output and target
---@param opts table autocast, scaler, compile, split, say
function Batch:init(model, loss, opts)
  self.model, self.loss, self.options = model, loss, opts
  self.plans, self.seen = {}, {}
  self.parts = 1 -- pieces that a batch is cut into
end

--- The model's output.
---@param x Tensor
---@return Tensor
function Batch:forward(x)
  local kind = self.options.autocast
  if not kind then return self.model(x) end
  return require('ridge').autocast(kind, self.model, x)
end

-- The loss times its share of the step, and its gradients.
local function go(self, x, y, share)
  local loss = self.loss(self:forward(x), y)
  local part = share ~= 1 and loss * share or loss
  if self.options.scaler then part = self.options.scaler:scale(part) end
  part:backward()
  return loss
end

-- -- As a plan ------------------------------------------------------------------------------------

-- Gradients that are there already are added to in place, which a plan can do again and again: the
-- first batch of a shape therefore runs by itself.
local function by_plan(self, x, y, share, again)
  local scaler = self.options.scaler
  if scaler and scaler.factor ~= self.factor then -- a plan has the number it was captured with
    self.plans, self.seen, self.factor = {}, {}, scaler.factor
  end
  local key = ('%s|%s|%g'):format(x:describe(), y:describe(), share)
  local known = self.plans[key]
  if known then
    known.x:copy_(x)
    known.y:copy_(y)
    return known.plan:run():item()
  end
  if not self.seen[key] then
    self.seen[key] = true
    return nil
  end
  local made = { x = x:clone(), y = y:clone() }
  C.rg_scope_keep(made.x._t)
  C.rg_scope_keep(made.y._t)
  local ok, found = pcall(plan.capture, function() return go(self, made.x, made.y, share) end)
  if not ok then
    self.options.compile = false
    self.options.say('no plan of the step, it goes on without: ' .. (blame.is_error(found)
      and found.message or tostring(found)))
    again() -- what was added before it failed
    return nil
  end
  C.rg_scope_keep(found.results[1]._t) -- it outlives the scope of this batch
  made.plan = found
  self.plans[key] = made
  return found.results[1]:item()
end

-- -- In parts -------------------------------------------------------------------------------------

local function out_of_memory(err)
  return blame.is_error(err) and err.code == 'ENOMEM'
end

local function in_parts(self, x, y, share)
  local n, sum = x:size(1), 0
  local parts = math.min(self.parts, n)
  for i = 1, parts do
    local first, last = math.floor(n * (i - 1) / parts), math.floor(n * i / parts)
    local rows = last - first
    sum = sum + rows / n * memory.scope(function()
      return go(self, x:narrow(1, first + 1, rows), y:narrow(1, first + 1, rows),
        share * rows / n):item()
    end)
  end
  return sum
end

--- Bytes of the plans' buffers: they are the plans' own, and the allocator counts them as reserved,
--- not as live.
---@return number bytes
function Batch:plan_bytes()
  local sum = 0
  for _, made in pairs(self.plans) do sum = sum + made.plan:facts().buffer_bytes end
  return sum
end

--- Forward and back; gradients are added to what is there.
---@param x Tensor
---@param y Tensor
---@param share number the loss counts by it
---@param again function called before a batch that ran out of memory begins anew: it takes back the
---  gradients of the part that was done
---@return number loss
function Batch:run(x, y, share, again)
  if self.options.compile then
    local loss = memory.scope(function() return by_plan(self, x, y, share, again) end)
    if loss then return loss end
  end
  while true do
    local ok, found = pcall(in_parts, self, x, y, share)
    if ok then return found end
    if not (self.options.split and out_of_memory(found)) or self.parts >= x:size(1) then
      error(found, 0)
    end
    self.parts = self.parts * 2
    memory.trim()
    self.options.say(('out of memory: batches are worked off in %d parts from here on'):format(
      self.parts))
    again()
  end
end

return Batch
