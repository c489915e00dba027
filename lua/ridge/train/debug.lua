-- SPDX-License-Identifier: MIT
--- The debugging options of document 001 (F114): what is looked at while a trainer trains, for so
--- many batches or seconds. Meanwhile no batch goes as a plan.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local canonical = require 'ridge.store.canonical'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local grad = require 'ridge.tensor.grad'
local memory = require 'ridge.memory'
local options = require 'ridge.options'
local output = require 'ridge.ffi.output'
local place = require 'ridge.store.place'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'

local Debug = class 'train.Debug'

local SPEC = {
  anomaly = { 'boolean', default = false,
    doc = 'the first operation that makes a nan or an infinity is an error that names it' },
  grad_check = { 'boolean', default = false,
    doc = 'gradients of the first batch beside finite differences' },
  memory = { 'boolean', default = false, doc = 'bytes of each step, in the rows of the curve' },
  synchronize = { 'boolean', default = false, doc = 'wait for the device behind each batch' },
  memory_fraction = { 'number', min = 1e-9, max = 1,
    doc = "of the device's memory: what may be taken" },
  profile = { 'boolean', default = false, doc = 'operations of the second batch, by their time' },
  level = { 'string', default = 'info', choices = { 'info', 'debug' },
    doc = 'debug: a line for each step' },
  max_iterations = { 'integer', default = 1000, min = 1, doc = 'batches, then it ends' },
  timeout = { 'number', default = 300, min = 0, max = 1e12, doc = 'seconds, then it ends' },
  output_dir = { 'string', doc = 'a folder for debug.json: what was found' },
}

--- Look at a training.
---@param opts table {anomaly =, grad_check =, memory =, synchronize =, memory_fraction =,
---  profile =, level = 'info', max_iterations = 1000, timeout = 300, output_dir =}
---@param trainer table
function Debug:init(opts, trainer)
  self.options = options.check(SPEC, opts, 'Trainer: debug')
  self.trainer, self.batches = trainer, 0
  self.checks, self.rows = {}, {}
  if self.options.output_dir then place.make_folder(self.options.output_dir) end
end

-- -- When -----------------------------------------------------------------------------------------

-- Call f while no more memory than its share may be taken.
local function limited(self, f)
  local fraction, device = self.options.memory_fraction, self.trainer.batch.device
  if not fraction then return pcall(f) end
  local facts, before = ffi.new 'rg_device_facts', memory.stats(device).limit
  call.check(C.rg_device_facts_of(dtype.device(device, 'Trainer'), facts))
  memory.set_limit(math.floor(fraction * tonumber(facts.memory_bytes)), device)
  local ok, result = pcall(f)
  memory.set_limit(before, device)
  return ok, result
end

--- Does it still look at batches?
---@return boolean
function Debug:active() return not self.over end

-- After the last batch the step that it is part of is still looked at.
local function count(self)
  local o = self.options
  self.seconds = (tonumber(C.rg_clock_ns()) - self.began) / 1e9
  self.over = self.batches >= o.max_iterations or self.seconds >= o.timeout
end

--- Look no more where that was the last batch; what was found is written, also by a training that
--- is done earlier.
function Debug:finish()
  if self.ended then return end
  self.ended = self.over
  if self.over then
    self.trainer.say(('debugging has ended after %d batches and %.1f s'):format(self.batches,
      self.seconds))
  end
  self:write()
end

-- -- Gradients beside differences -----------------------------------------------------------------

-- Call f with the random numbers and buffers of now, and leave them so.
local function undone(trainer, f)
  local stream, buffers = random.default():state(), {}
  for _, p in ipairs(trainer.model:parameters()) do
    if not p.trainable then buffers[p.tensor] = p.tensor:detach():clone() end
  end
  local ok, err = pcall(f)
  random.default():load_state(stream)
  grad.no_grad(function() for x, was in pairs(buffers) do x:copy_(was) end end)
  if not ok then error(err, 0) end
end

local function loss_at(trainer, x, y)
  local value
  undone(trainer, function()
    value = grad.no_grad(function()
      return trainer.loss(trainer.batch:forward(x), y):to('f64'):item()
    end)
  end)
  return value
end

-- Along its own gradient a loss rises by the gradient's norm, parameter by parameter.
local function check_gradients(self, x, y)
  local trainer = self.trainer
  trainer.optimizer:zero_grad()
  undone(trainer, function() trainer.loss(trainer.batch:forward(x), y):backward() end)
  for _, p in ipairs(trainer.model:parameters()) do
    local g = p.trainable and p.tensor.grad
    local norm = g and g:to('f64'):norm():item() or 0
    if norm > 0 and norm < math.huge then
      local w = p.tensor
      local was = w:detach():clone()
      local h = 1e-3 * math.max(1, was:to('f64'):norm():item())
      local function at(distance)
        grad.no_grad(function()
          w:copy_((was:to 'f64' + g:to 'f64' * (distance / norm)):to(w.dtype))
        end)
        return loss_at(trainer, x, y)
      end
      local found = (at(h) - at(-h)) / (2 * h)
      grad.no_grad(function() w:copy_(was) end)
      self.checks[#self.checks + 1] = { name = p.name, gradient = norm, difference = found }
      trainer.say(('gradient of %s: norm %.4g, by differences %.4g'):format(p.name, norm, found))
    end
  end
  trainer.optimizer:zero_grad()
end

-- -- A batch --------------------------------------------------------------------------------------

-- The operations that took longest, as text.
local function profiled(self, f)
  local results
  local found = require('ridge.profile').profile(function() results = { f() } end)
  self.operations = {}
  for i, op in ipairs(found.operations) do
    if i > 10 then break end
    self.operations[i] = { op = op.op, path = op.path, calls = op.calls, ms = op.ns / 1e6 }
    self.trainer.say(('%-20s %6d calls  %10.3f ms'):format(op.op, op.calls, op.ns / 1e6))
  end
  return unpack(results)
end

--- Go forward and back with a batch, and look.
---@param f function that does
---@param x Tensor
---@param y Tensor
---@return any what f returns
function Debug:around(f, x, y)
  local o = self.options
  self.batches = self.batches + 1
  if self.batches == 1 then
    self.began = tonumber(C.rg_clock_ns())
    if o.grad_check then memory.scope(check_gradients, self, x, y) end
  end
  local go = o.anomaly and function() return require('ridge').anomaly(f) end or f
  if o.profile and self.batches == 2 then
    local inner = go
    go = function() return profiled(self, inner) end
  end
  local ok, loss = limited(self, go)
  if not ok then
    self.failed = blame.is_error(loss) and loss.message or tostring(loss)
    self:write()
    error(loss, 0)
  end
  if o.synchronize then
    call.check(C.rg_device_wait(dtype.device(self.trainer.batch.device, 'Trainer')))
  end
  count(self)
  return ref.is(loss) and loss
end

--- Look at a step that was taken.
---@param row table of the curve: gets live_bytes and peak_bytes where memory is looked at
function Debug:after(row)
  if self.ended then return end
  local o = self.options
  if o.memory then
    local stats = memory.stats(self.trainer.batch.device)
    row.live_bytes, row.peak_bytes = stats.live, stats.peak
    self.rows[#self.rows + 1] = { step = row.step, live_bytes = stats.live,
      peak_bytes = stats.peak }
  end
  if o.level == 'debug' then
    self.trainer.say(('step %d  %.3f s%s'):format(row.step, row.seconds, row.loss
      and ('  loss %.6g'):format(row.loss) or ''))
  end
  if self.over then self:finish() end
end

-- JSON has no other numbers.
local function stored(x)
  return x - x == 0 and x or canonical.null
end

--- Write what was found, where a folder for it was named.
function Debug:write()
  if not self.options.output_dir then return end
  local path = self.options.output_dir .. '/debug.json'
  local checks = canonical.list {}
  for i, c in ipairs(self.checks) do
    checks[i] = { name = c.name, gradient = c.gradient, difference = stored(c.difference) }
  end
  output.write(path, 'Trainer: debug', canonical.encode { batches = self.batches, checks = checks,
    memory = canonical.list(self.rows), operations = canonical.list(self.operations or {}),
    failed = self.failed } .. '\n')
end

return Debug
