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
local losses = require 'ridge.nn.loss'
local memory = require 'ridge.memory'
local ops = require 'ridge.tensor.ops'
local plan = require 'ridge.plan'
local ranges = require 'ridge.ranges'
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

local two = ffi.new('int64_t[1]', 2)

-- Pinned memory for two numbers that are under way; two such take turns, because the one before is
-- read while the next one comes.
local function landing(self)
  self.landed = self.landed % 2 + 1
  if not self.landing[self.landed] then
    call.run('Trainer', C.rg_empty, C.RG_F64, C.RG_PINNED, two, 1, ref.slot)
    self.landing[self.landed] = ref.outlive(ref.wrap(ref.slot[0]))
  end
  return self.landing[self.landed]
end

local function number(x) return x:to('f64'):reshape(1) end

--- The sum of losses that a mean comes from: 0, not nan, where nothing counts.
---@param loss Tensor one number
---@param total Tensor what the mean divided by
---@return Tensor f64, [1]
function Batch.sum(loss, total)
  local t = number(total)
  return ops.concat({ number(loss) * t, t * 0 }, 1):take(t:eq(0):to 'i64')
end

-- What a batch came to: {value =, bad =, weight =}, or on a device {coming =, bad =, total =}. bad
-- is 0 or, where the loss is not finite, nan; nil where it is known to be finite. weight: what the
-- mean divided by, where the loss tells; a batch where nothing counts has no loss, and is not bad.
local function lands(self, loss, total)
  local cpu = self.device == 'cpu'
  local value, weight = cpu and loss:item(), cpu and total and total:item() or nil
  if weight == 0 then return { value = 0, weight = 0 } end
  if value and value - value == 0 then return { value = value, weight = weight } end
  return grad.no_grad(function()
    local bad = number(loss) * 0
    if value then return { value = value, bad = bad, weight = weight } end
    local found = { coming = landing(self) }
    local sent = number(loss)
    if total then
      found.total = number(total):clone() -- a plan's own is written again
      sent = ops.concat({ sent, found.total }, 1)
      local flag = bad:ne(0):to 'f64' * found.total:ne(0):to 'f64'
      bad = flag * 0 / (1 - flag)
    end
    found.bad = bad
    found.coming:narrow(1, 1, sent.count):copy_(sent)
    return found
  end)
end

--- The loss of a batch as a number; waits for it where it is still under way. It is lost with the
--- second batch after it.
---@param found table what `run` gave
---@return number loss 0 where nothing in the batch counts
---@return number|nil weight what the mean divided by, where the loss tells
function Batch.value(found)
  if not found.value then
    found.value = found.coming[1]:item()
    found.weight = found.total and found.coming[2]:item() or nil
    if found.weight == 0 then found.value = 0 end
    found.coming = nil
  end
  return found.value, found.weight
end

--- Rows of a batch; an error where it is none to train on.
---@param x any
---@param y any
---@param others any there are other ranks, which may have rows where this one has none
---@return number
function Batch.rows(x, y, others)
  if not ref.is(x) or not ref.is(y) or #x:size() == 0 then
    blame.raise(('Trainer: a loader gives batches of inputs and targets, this one gives %s and %s')
      :format(blame.show(x), blame.show(y)), 'EARG')
  end
  if x:size(1) == 0 and not others then
    blame.raise('Trainer: the loader gives a batch without rows, ' .. x:describe(), 'EARG')
  end
  return x:size(1)
end

--- The model's output.
---@param x Tensor
---@return Tensor
function Batch:forward(x)
  local kind = self.options.autocast
  if not kind then return self.model(x) end
  return require('ridge').autocast(kind, self.model, x)
end

-- The loss times its share of the step, and its gradients. What its mean divided by is left in
-- self.total: parts of a step count by that, and by their rows where the loss has none.
local function plainly(self, x, y, of)
  local out = ranges.section('forward', self.forward, self, x)
  local loss, total
  if x:size(1) == 0 and ref.is(out) then -- of one of several ranks: a mean of nothing is none
    loss = out:sum() * 0
  else
    loss, total = ranges.section('loss_computation', losses.with_total, self.loss, out, y)
  end
  self.total = total
  local share = of.alone and 1 or total and (total / of.labels):to(loss.dtype) or of.share
  local part = share ~= 1 and loss * share or loss
  if self.options.scaler then part = self.options.scaler:scale(part) end
  part:backward()
  return loss
end

-- The loss, and what its mean divided by.
local function go(self, x, y, of)
  local debug = self.options.debug
  if not (debug and debug:active()) then return plainly(self, x, y, of), self.total end
  self.total = nil
  return debug:around(function() return plainly(self, x, y, of) end, x, y), self.total
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
local function by_plan(self, x, y, of)
  local key = ('%s|%s|%.17g|%d|%s'):format(x:describe(), y:describe(), of.share, of.labels,
    of.alone)
  local known = self.plans:get(key)
  if known and known.plan and not known.plan:is_current() then -- a parameter is another tensor now
    known.plan:release()
    known.plan = nil
    return nil
  end
  if known then
    known.x:copy_(x)
    known.y:copy_(y)
    if known.plan then return lands(self, known.plan:run()) end
  elseif not self.seen:get(key) then
    self.seen:put(key, true)
    return nil
  end
  local made = known or { x = x:to(self.device):clone(), y = y:to(self.device):clone() }
  ref.outlive(made.x)
  ref.outlive(made.y)
  local give_back = gradients_of(self.model)
  local capture = require('ridge.capture').capture
  local ok, found = pcall(capture, function() return go(self, made.x, made.y, of) end)
  if not ok then
    self.options.compile = false
    self.options.say('no plan of the step, it goes on without: ' .. (blame.is_error(found)
      and found.message or tostring(found)))
    give_back() -- what was added before it failed
    return nil
  end
  for _, result in ipairs(found.results) do ref.outlive(result) end -- and the scope of this batch
  made.plan = found
  local gone = not known and self.plans:put(key, made)
  if gone then
    local tensors = { gone.x, gone.y }
    for _, result in ipairs(gone.plan and gone.plan.results or {}) do
      tensors[#tensors + 1] = result
    end
    for _, each in ipairs(tensors) do each:release() end
    if gone.plan then gone.plan:release() end
  end
  return lands(self, found.results[1], found.results[2])
end

-- -- In parts -------------------------------------------------------------------------------------

local function out_of_memory(err)
  return blame.is_error(err) and err.code == 'ENOMEM'
end

local function in_parts(self, x, y, of)
  local n = x:size(1)
  local parts = math.max(1, math.min(self.parts, n)) -- one of several ranks may have no rows
  if parts == 1 then
    return memory.scope(function() return lands(self, go(self, self:here(x), self:here(y), of)) end)
  end
  local sums = {} -- of the losses, and of what they count by
  for i = 1, parts do
    local first, last = math.floor(n * (i - 1) / parts), math.floor(n * i / parts)
    local rows = last - first
    sums = memory.scope(function()
      local loss, total = go(self, self:here(x:narrow(1, first + 1, rows)),
        self:here(y:narrow(1, first + 1, rows)),
        { share = of.share * rows / n, labels = of.labels })
      local sum = total and Batch.sum(loss:detach(), total)
        or loss:detach():to 'f64':reshape(1) * (rows / n)
      return { sums[1] and sums[1] + sum or sum,
        total and (sums[2] and sums[2] + total or total) or nil }
    end)
  end
  return memory.scope(function()
    local found = lands(self, sums[2] and sums[1] / sums[2] or sums[1], sums[2])
    found.apart = true
    return found
  end)
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
---@param of table the step: share (of the loss in it, by its rows), labels (what the loss is
---  divided by instead where it tells how many count), alone (it is the only batch of the step)
---@param again function called before a batch that ran out of memory restarts: it takes back the
---  gradients of the part that was done
---@return table found for `value`; bad: a tensor, nan where the loss is not finite; total: what its
---  mean divided by, where only the device knows; apart: it was cut into parts
function Batch:run(x, y, of, again)
  local weigh = self.options.weigh
  if weigh then
    self.options.weigh = nil
    weigh(self:here(x))
  end
  local debug = self.options.debug
  if self.options.compile and not (debug and debug:active()) then
    local found = memory.scope(function() return by_plan(self, x, y, of) end)
    if found then return found end
  end
  while true do
    local ok, found = pcall(in_parts, self, x, y, of)
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
