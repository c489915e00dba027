-- SPDX-License-Identifier: MIT
--- Passes of a net, forward, loss and back, run and timed against each other; nothing of it is left
--- in the net, its gradients, its optimizer, its loader or streams of random numbers.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local checkpoint = require 'ridge.train.checkpoint'
local grad = require 'ridge.tensor.grad'
local memory = require 'ridge.memory'
local paired = require 'ridge.measure.paired'
local profile = require 'ridge.profile'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'
local statistics = require 'ridge.measure.statistics'
local step = require 'ridge.analyze.step'
local unit = require 'ridge.show.unit'

local M = {}

local SLOT_NS = 4e6          -- a side of a pair takes at least this
local LEAST, MOST = 6, 12    -- pairs: six are the fewest with a 95 % interval
local SHARE = 1 / 8          -- of all seconds, for one comparison
local LEVEL = 0.95

local Trial = {}
Trial.__index = Trial

--- Trials of a subject that has a net and arguments.
---@param s table subject
---@param seconds number that all of them may take
---@return table trial
function M.new(s, seconds)
  return setmetatable({ s = s, seconds = seconds, leaves = step.leaves { net = s.net,
    args = s.args } }, Trial)
end

local function settled()
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE))
  return tonumber(C.rg_clock_ns())
end

-- -- What is put back ---------------------------------------------------------------------------

local function parts_of(s)
  return { optimizer = s.optimizer, scaler = s.scaler, loader = s.loader }
end

-- What steps change beside what passes do. The entry's s.
local STEPPED = {}

function STEPPED.on(entry)
  if entry.net then return end
  grad.no_grad(function()
    entry.net = checkpoint.still(entry.s.net:state())
    entry.parts = checkpoint.still(checkpoint.states(parts_of(entry.s)))
  end)
end

function STEPPED.off() end -- it waits

function STEPPED.stop(entry)
  grad.no_grad(function()
    entry.s.net:load_state(entry.net)
    checkpoint.load_parts(parts_of(entry.s), entry.parts)
  end)
end

-- Call a function that takes steps; parameters and what belongs to them are as before behind it.
local function stepped(self, f) return state.with(STEPPED, { s = self.s }, f) end

--- Call a function that runs passes; everything is as it was behind it.
---@param f function
---@return any what f returns, one value
function Trial:inside(f)
  local function passes()
    return state.with(step.ADDED, { leaves = self.leaves }, function()
      self.s.net:train()
      return f()
    end)
  end
  return (step.unchanged(self.s.net, self.s.args, passes))
end

--- Why the net cannot be trained, as one that is quantized cannot; nil: it can.
---@return string|nil why
function Trial:refusal()
  local ok, err = pcall(step.unchanged, self.s.net, self.s.args, function() self.s.net:train() end)
  if ok then return nil end
  if blame.is_error(err) and err.code == 'EINTR' then error(err, 0) end
  return tostring(blame.is_error(err) and err.message or err)
end

-- -- Passes -------------------------------------------------------------------------------------

-- Rows of a value: n from the first one on; more than there are are the same ones once more.
local function rows(value, has, first, n)
  if ref.is(value) then
    if value.ndim == 0 or value:size(1) ~= has then return value end
    if n <= has then return value:narrow(1, first, n) end
    local list = {}
    for i = 1, n / has do list[i] = value end
    return require('ridge').concat(list, 1)
  end
  if type(value) ~= 'table' or getmetatable(value) then return value end
  local out = {}
  for key, inner in pairs(value) do out[key] = rows(inner, has, first, n) end
  return out
end

local function forward(s, kind, args)
  if not kind then return s.net(unpack(args, 1, args.n)) end
  return require('ridge').autocast(kind, s.net, unpack(args, 1, args.n))
end

--- A pass as a function, which returns the loss; gradients are added to those that are there.
---@param how table|nil autocast ('bf16', 'f16'; false: none; the subject's own when nil), scale (of
---  the loss), rows and first (of the batch), args and y (another one)
---@return fun(): Tensor
function Trial:pass(how)
  how = how or {}
  local s = self.s
  local kind = how.autocast
  if kind == nil then kind = s.autocast end
  local args, y = how.args or s.args, how.y or s.y
  if how.rows then
    local function part(value) return rows(value, s.rows, how.first or 1, how.rows) end
    args, y = grad.no_grad(part, { unpack(args, 1, args.n) }), y and grad.no_grad(part, y)
    args.n = s.args.n
  end
  return function()
    return grad.enable_grad(function()
      local out = ranges.section('forward', forward, s, kind, args)
      local loss = s.loss and ranges.section('loss_computation', s.loss, out, y)
        or not s.loss and step.total { n = 1, out }
      if not loss or not loss.requires_grad then
        blame.raise('no gradient flows through what the net returns', 'EARG')
      end
      local from = how.scale and how.scale ~= 1 and loss * how.scale or loss
      from:backward()
      return loss
    end)
  end
end

local function alone(f)
  return function() memory.scope(function() f() end) end
end

--- The loss of a pass as a number.
---@param how table|nil
---@return number
function Trial:loss(how)
  local f = self:pass(how)
  return memory.scope(function() return f():item() end)
end

--- Bytes that a pass needs at its highest point, above what is there before.
---@param how table|nil
---@return number bytes
function Trial:peak(how)
  local f = alone(self:pass(how))
  f() -- gradients are there
  return memory.peak_of(f, self.s.device)
end

--- A plan of a pass; nil and why there is none.
---@return table|nil plan
---@return string|nil why
function Trial:plan()
  local f = self:pass()
  alone(f)() -- what a plan adds to is there
  local ok, plan = pcall(require('ridge.capture').capture, f)
  if ok then return plan end
  if blame.is_error(plan) and plan.code == 'EINTR' then error(plan, 0) end
  return nil, tostring(blame.is_error(plan) and plan.message or plan)
end

-- -- Comparing ----------------------------------------------------------------------------------

local function timed(f, n)
  local began = settled()
  for _ = 1, n do f() end
  return (settled() - began) / n
end

-- What a call takes where nothing disturbs it: the least of some, for which there is little time.
local function least(f)
  local ns, spent = timed(f, 1), 0
  for _ = 1, 9 do
    local again = timed(f, 1)
    ns, spent = math.min(ns, again), spent + again
    if spent > 10 * SLOT_NS then break end
  end
  return ns
end

--- Compare the times of two functions in pairs, in turn which goes first.
---@param a function
---@param b function
---@return table|nil found ratio of b's time to a's, lo, hi (95 %), a_ns, b_ns (medians), pairs
---@return string|nil why there is none
function Trial:pair(a, b)
  local ns = least(a) + least(b)
  local n = math.max(1, math.ceil(2 * SLOT_NS / ns))
  local room = self.seconds * SHARE * 1e9 / (n * ns)
  if room < LEAST then
    return nil, ('a pair takes %s, and %d of them do not fit into an eighth of seconds = %g')
      :format(unit.format('ns', n * ns), LEAST, self.seconds)
  end
  local logs, of_a, of_b = {}, {}, {}
  for i = 1, math.min(MOST, math.floor(room)) do
    local ta, tb
    if i % 2 == 1 then ta = timed(a, n) tb = timed(b, n) else tb = timed(b, n) ta = timed(a, n) end
    logs[i], of_a[i], of_b[i] = math.log(tb / ta), ta, tb
  end
  local found = paired.location(logs, LEVEL)
  return { ratio = math.exp(found.estimate), lo = math.exp(found.lo), hi = math.exp(found.hi),
    a_ns = statistics.median(of_a), b_ns = statistics.median(of_b), pairs = #logs }
end

--- Compare two kinds of passes.
---@param a table|nil
---@param b table|nil
---@return table|nil found
---@return string|nil why there is none
function Trial:pair_passes(a, b)
  return self:pair(alone(self:pass(a)), alone(self:pass(b)))
end

M.alone = alone

-- -- Gradients ----------------------------------------------------------------------------------

-- Gradients that are there become 0.
local function clear(self)
  grad.no_grad(function()
    for _, x in ipairs(self.leaves) do
      local g = x.grad
      if g then g:fill_(0) end
    end
  end)
end

-- The sum of the squares of all gradients, in f64; of those that are there.
local function squares(list)
  local sum = 0
  for _, g in ipairs(list) do sum = sum + g:to('f64'):square():sum():item() end
  return sum
end

local function gradients(self)
  local list = {}
  for _, x in ipairs(self.leaves) do
    local g = x.grad
    if g then list[#list + 1] = g:to 'f64' end
  end
  return list
end

--- The size of the gradients of a pass: nan or infinite where one is not finite.
---@param how table|nil
---@return number
function Trial:gradient_norm(how)
  return memory.scope(function()
    clear(self)
    self:pass(how)()
    local sum = grad.no_grad(function() return squares(gradients(self)) end)
    return math.sqrt(sum)
  end)
end

--- The gradient noise scale (McCandlish et al., 2018): rows at which noise and signal of a step's
--- gradient are of one size, estimated from parts of the batch.
---@return number|nil rows infinite where no signal is seen
---@return string|nil why it is not known
function Trial:noise_scale()
  local s = self.s
  if not s.rows or s.rows < 8 then return nil, 'the batch has fewer than 8 rows' end
  local parts = 8
  local b = math.floor(s.rows / parts)
  return memory.scope(function()
    local mean, of_parts = nil, 0
    for i = 1, parts do
      clear(self)
      self:pass { first = b * (i - 1) + 1, rows = b }()
      grad.no_grad(function()
        local list = gradients(self)
        of_parts = of_parts + squares(list) / parts
        if not mean then
          mean = list
        else
          for k, g in ipairs(list) do mean[k] = mean[k] + g end
        end
      end)
    end
    local of_mean = grad.no_grad(function() return squares(mean) / parts ^ 2 end)
    local big = b * parts
    local signal = (big * of_mean - b * of_parts) / (big - b)
    local noise = (of_parts - of_mean) / (1 / b - 1 / big)
    if not (noise == noise and signal == signal) then return nil, 'a gradient is not finite' end
    if signal <= 0 then return math.huge end
    return math.max(0, noise / signal)
  end)
end

-- -- Steps --------------------------------------------------------------------------------------

-- One step of the subject's optimizer, where it has one.
local function update(s)
  if s.optimizer then
    s.optimizer:step { scale = s.clip and s.optimizer:clip(s.clip) or nil }
  end
end

local function forget(s)
  if s.optimizer then s.optimizer:zero_grad { set = true } end
end

--- Losses of some steps on the batch from where the net is now, at a rate; all is put back.
---@param n integer
---@param rate number|nil the optimizer's own when left out
---@return number[]
function Trial:descent(n, rate)
  local s = self.s
  local before, list = s.optimizer:lr(), {}
  local ok, err = pcall(stepped, self, function()
    if rate then s.optimizer:lr(rate) end
    local pass = self:pass()
    for i = 1, n do
      memory.scope(function()
        forget(s)
        list[i] = pass():item()
        update(s)
      end)
    end
  end)
  s.optimizer:lr(before)
  if not ok then error(err, 0) end
  return list
end

-- Batches as the subject's loader gives them; the one that is known where there is no loader.
local function batches(s)
  local each
  local function next_batch()
    if not s.loader then return s.args, s.y end
    each = each or s.loader:each()
    local x, y = each()
    if not ref.is(x) then
      each = s.loader:each()
      x, y = each()
    end
    if s.trainer then x, y = s.trainer.batch:here(x), y and s.trainer.batch:here(y) end
    return { n = 1, x }, y
  end
  return next_batch
end

local OBSERVED_NS, FEWEST, MOST_STEPS = 1e9, 5, 40

--- Profile some steps: batches of the loader, passes, steps of the optimizer. All is put back.
---@param opt table options of ridge.profile
---@return table profile
function Trial:observe(opt)
  local s = self.s
  local one = alone(self:pass())
  one()
  local n = math.ceil(OBSERVED_NS / timed(one, 1))
  n = math.max(FEWEST, math.min(MOST_STEPS, n))
  return stepped(self, function()
    local next_batch = batches(s)
    local function train(p)
      for _ = 1, n do
        memory.scope(function()
          local args, y = next_batch()
          forget(s)
          self:pass { args = args, y = y }()
          update(s)
        end)
        p:step()
      end
    end
    opt.warmup, opt.active = 2, n - 2
    return profile.profile(train, opt)
  end)
end

--- Seconds of waiting for each of some batches, with a pass between two of them.
---@param loader table
---@param n integer
---@return number ns
function Trial:waiting_for(loader, n)
  local pass, ns, each = alone(self:pass()), 0, loader:each()
  for i = 1, n + 2 do
    local began = settled()
    if memory.scope(each) == nil then
      each = loader:each()
      memory.scope(each)
    end
    if i > 2 then ns = ns + settled() - began end -- the first ones fill what is ahead
    pass()
  end
  return ns / n
end

return M
