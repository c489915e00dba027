-- SPDX-License-Identifier: MIT
--- One batch forward and back: under autocast, as a plan, or in parts when memory does not suffice.
---
--- Batches go to where the model's parameters are. What the loss was is read from the CPU at once;
--- from a device it comes by itself while the next batch is computed (see `value`).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local grad = require 'ridge.tensor.grad'
local memory = require 'ridge.memory'
local plan = require 'ridge.plan'
local ref = require 'ridge.ffi.ref'

local Batch = class 'train.Batch'

local PLANS = 8 -- shapes of batches whose plans are kept

--- What is done with a batch.
---@param model table
---@param loss function of output and target
---@param opts table autocast, scaler, compile, split, say, debug, weigh (called once, with the
---  inputs of the first batch)
function Batch:init(model, loss, opts)
  self.model, self.loss, self.options = model, loss, opts
  self.plans, self.seen = plan.shelf(PLANS), plan.shelf(PLANS)
  self.parts = 1 -- pieces that a batch is cut into
  self.landing, self.landed = {}, 0
  self:place()
end

--- Look where the model is: the device of its first parameter.
---@return string device
function Batch:place()
  local first = self.model:parameters()[1]
  self.device = first and first.tensor.device or 'cpu'
  return self.device
end

--- A tensor of the loader's where the model is.
---@param x Tensor
---@return Tensor
function Batch:here(x)
  return x.device == self.device and x or x:to(self.device)
end

-- -- What the loss was ----------------------------------------------------------------------------

local one = ffi.new('int64_t[1]', 1)

-- Pinned memory for a number that is under way; two take turns, because the one before is read
-- while the next one comes.
local function landing(self)
  self.landed = self.landed % 2 + 1
  if not self.landing[self.landed] then
    call.run('Trainer', C.rg_empty, C.RG_F32, C.RG_PINNED, one, 1, ref.slot)
    self.landing[self.landed] = ref.outlive(ref.wrap(ref.slot[0]))
  end
  return self.landing[self.landed]
end

-- What a batch came to: {value =, bad =}, or on a device {coming =, bad =}, where bad is 0 or,
-- where the loss is not finite, nan; nil where it is known to be finite.
local function lands(self, loss)
  local value = self.device == 'cpu' and loss:item()
  if value and value - value == 0 then return { value = value } end
  return grad.no_grad(function()
    local bad = loss:to('f64'):reshape(1) * 0
    if value then return { value = value, bad = bad } end
    local found = { coming = landing(self), bad = bad }
    found.coming:copy_(loss:to('f32'):reshape(1))
    return found
  end)
end

--- The loss of a batch as a number; waits for it where it is still under way. It is lost with the
--- second batch after it.
---@param found table what `run` gave
---@return number
function Batch.value(found)
  if not found.value then found.value, found.coming = found.coming:item(), nil end
  return found.value
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
local function plainly(self, x, y, share)
  local loss = self.loss(self:forward(x), y)
  local part = share ~= 1 and loss * share or loss
  if self.options.scaler then part = self.options.scaler:scale(part) end
  part:backward()
  return loss
end

local function go(self, x, y, share)
  local debug = self.options.debug
  if not (debug and debug:active()) then return plainly(self, x, y, share) end
  return debug:around(function() return plainly(self, x, y, share) end, x, y)
end

-- -- As a plan ------------------------------------------------------------------------------------

-- The gradients that there are; what this returns brings them back.
local function gradients_of(model)
  local kept = {}
  for _, p in ipairs(model:parameters()) do
    local g = p.tensor.grad
    kept[p.name] = g and g:clone()
  end
  return function()
    grad.no_grad(function()
      for _, p in ipairs(model:parameters()) do
        local g, was = p.tensor.grad, kept[p.name]
        if g and was then g:copy_(was) elseif g then g:fill_(0) end
      end
    end)
  end
end

-- Gradients that are there already are added to in place, which a plan can do again and again: the
-- first batch of a shape therefore runs by itself. So does one whose shape was last seen before
-- others that are more than plans are kept for: its plan would be gone before it is used.
local function by_plan(self, x, y, share)
  local key = ('%s|%s|%.17g'):format(x:describe(), y:describe(), share)
  local known = self.plans:get(key)
  if known and known.plan and not known.plan:is_current() then -- a parameter is another tensor now
    known.plan:release()
    known.plan = nil
    return nil
  end
  if known then
    known.x:copy_(x)
    known.y:copy_(y)
    if known.plan then return lands(self, (known.plan:run())) end
  elseif not self.seen:get(key) then
    self.seen:put(key, true)
    return nil
  end
  local made = known or { x = x:to(self.device):clone(), y = y:to(self.device):clone() }
  ref.outlive(made.x)
  ref.outlive(made.y)
  local give_back = gradients_of(self.model)
  local ok, found = pcall(plan.capture, function() return go(self, made.x, made.y, share) end)
  if not ok then
    self.options.compile = false
    self.options.say('no plan of the step, it goes on without: ' .. (blame.is_error(found)
      and found.message or tostring(found)))
    give_back() -- what was added before it failed
    return nil
  end
  ref.outlive(found.results[1]) -- and the scope of this batch
  made.plan = found
  local gone = not known and self.plans:put(key, made)
  if gone then
    for _, x_ in ipairs { gone.x, gone.y, gone.plan and gone.plan.results[1] } do x_:release() end
    if gone.plan then gone.plan:release() end
  end
  return lands(self, found.results[1])
end

-- -- In parts -------------------------------------------------------------------------------------

local function out_of_memory(err)
  return blame.is_error(err) and err.code == 'ENOMEM'
end

local function in_parts(self, x, y, share)
  local n, sum = x:size(1), nil
  local parts = math.min(self.parts, n)
  for i = 1, parts do
    local first, last = math.floor(n * (i - 1) / parts), math.floor(n * i / parts)
    local rows = last - first
    sum = memory.scope(function()
      local loss = go(self, self:here(x:narrow(1, first + 1, rows)),
        self:here(y:narrow(1, first + 1, rows)), share * rows / n)
      local part = loss:detach():to 'f64' * (rows / n)
      return sum and sum + part or part
    end)
  end
  return memory.scope(lands, self, sum)
end

--- Bytes of the plans' buffers: they are the plans' own, and the allocator counts them as reserved,
--- not as live.
---@return number bytes
function Batch:plan_bytes()
  local sum = 0
  for made in self.plans:each() do
    sum = sum + (made.plan and made.plan:facts().buffer_bytes or 0)
  end
  return sum
end

--- Forward and back; gradients are added to what is there.
---@param x Tensor
---@param y Tensor
---@param share number the loss counts by it
---@param again function called before a batch that ran out of memory restarts: it takes back the
---  gradients of the part that was done
---@return table loss for `value`; bad: a tensor, nan where the loss is not finite
function Batch:run(x, y, share, again)
  local weigh = self.options.weigh
  if weigh then
    self.options.weigh = nil
    weigh(self:here(x))
  end
  local debug = self.options.debug
  if self.options.compile and not (debug and debug:active()) then
    local found = memory.scope(function() return by_plan(self, x, y, share) end)
    if found then return found end
  end
  while true do
    local ok, found = pcall(in_parts, self, x, y, share)
    if ok then return found end
    if not (self.options.split and out_of_memory(found)) or self.parts >= x:size(1) then
      error(found, 0)
    end
    self.parts = self.parts * 2
    memory.trim(self.device)
    self.options.say(('out of memory: batches are worked off in %d parts from here on'):format(
      self.parts))
    again()
  end
end

return Batch
