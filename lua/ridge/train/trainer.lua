-- SPDX-License-Identifier: MIT
--- A trainer: epochs over a loader, validation, history, checkpoints that are written whole or not
--- at all, and going on from them with the same bits.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local canonical = require 'ridge.store.canonical'
local class = require('ridge.class').class
local Batch = require 'ridge.train.batch'
local Stability = require('ridge.train.stability').Stability
local dtype = require 'ridge.tensor.dtype'
local file = require 'ridge.train.file'
local grad = require 'ridge.tensor.grad'
local level = require 'ridge.train.level'
local memory = require 'ridge.memory'
local nn = require 'ridge.nn'
local options = require 'ridge.options'

local M = {}

local Trainer = class 'Trainer'

local function seconds_now() return tonumber(C.rg_clock_ns()) / 1e9 end

local SPEC = {
  optimizer = { 'table', required = true, doc = 'one of ridge.optim' },
  loss = { 'function|table', doc = 'of output and target; cross entropy when left out' },
  schedule = { 'table', doc = 'stepped after every step of the optimizer' },
  clip = { 'number', min = 1e-30, doc = 'largest norm of all gradients' },
  accumulate = { 'integer', default = 1, min = 1, doc = 'batches whose gradients make one step' },
  autocast = { 'string', choices = { 'bf16', 'f16' }, doc = 'compute products in' },
  scaler = { 'table', doc = 'a GradScaler, for f16' },
  compile = { 'boolean', doc = 'forward and back of a batch as a plan' },
  workers = { 'integer', min = 0, doc = 'threads that the level gives to a loader' },
  split = { 'boolean', default = false,
    doc = 'work a batch off in parts when memory does not suffice' },
  level = { 'string', doc = 'basic, advanced, ultra: switches what it names, and says so' },
  stability = { 'table', doc = 'options of ridge.Stability, which then takes the steps' },
  folder = { 'string', doc = 'for checkpoints: last and best' },
  patience = { 'integer', min = 1, doc = 'epochs without a better loss before it stops' },
  say = { 'function', doc = 'called with a line for each epoch; print when left out' },
}

-- A model that was moved or converted has other parameters than the optimizer was made for.
local function check_optimizer(model, optimizer)
  local own = {}
  for _, p in ipairs(model:parameters()) do own[tostring(p.tensor._t)] = true end
  for _, group in ipairs(optimizer.groups or {}) do
    for _, p in ipairs(group.params) do
      if own[tostring(p._t)] then return end
    end
  end
  blame.raise('Trainer: the optimizer steps no parameter of the model: make it behind the moves '
    .. 'and conversions of the model', 'EARG')
end

--- Set up.
---@param model table a module
---@param opts table {optimizer =, loss =, schedule =, clip =, accumulate = 1, autocast =, scaler =,
---  compile =, split = false, level =, stability =, folder =, patience =, say =}
-- >> net = ridge.nn.Linear(3, 2, {seed = 1})
-- >> trainer = ridge.Trainer(net, {optimizer = ridge.optim.Adam(net)})
function Trainer:init(model, opts)
  if not nn.is_module(model) then
    blame.raise(('Trainer: a module is expected, got %s'):format(blame.show(model)), 'EARG')
  end
  local o = options.check(SPEC, opts, 'Trainer')
  self.options, self.model, self.optimizer = o, model, o.optimizer
  self.loss = o.loss or nn.cross_entropy
  if not blame.callable(self.loss) then
    blame.raise('Trainer: the loss is a function of output and target, or a module', 'EARG')
  end
  self.history, self.epoch, self.best, self.waited = {}, 0, math.huge, 0
  self.curve, self.trained_s, self.metrics = {}, 0, {}
  self.steps_before, self.began_s = 0, 0 -- those of the checkpoint that this goes on from
  self.say = o.say or print
  if o.level then
    for name, value in pairs((level.apply(model, o.level, nil, self.say))) do
      if not opts[name] then o[name] = value end -- what the user says wins
    end
  end
  check_optimizer(model, o.optimizer)
  if o.stability and (o.scaler or o.clip) then
    blame.raise('Trainer: with stability, clipping is an option of it, and a scaler has its own '
      .. 'way with what is not finite', 'EARG')
  end
  self.stability = o.stability and Stability(o.optimizer, o.stability)
  self.batch = Batch(model, self.loss, { autocast = o.autocast, scaler = o.scaler,
    compile = o.compile, split = o.split, say = self.say })
end

-- -- One epoch ------------------------------------------------------------------------------------

-- Take the step that a group of batches has made. bad: 0, or nan on a device that has seen a loss
-- that is nan and that nobody has read yet; the step is left out there.
local function step(self, loss, bad)
  local o = self.options
  if self.stability then
    self.stability:step(loss)
  elseif o.scaler then
    o.scaler:step(self.optimizer, { clip = o.clip })
  else
    local scale = o.clip and self.optimizer:clip(o.clip) or nil
    if bad then scale = scale and scale + bad or bad + 1 end
    self.optimizer:step { scale = scale }
  end
  if o.schedule then o.schedule:step() end
  self.optimizer:zero_grad { set = o.compile } -- a plan adds to gradients that are there
end

-- A loss that is nan must not reach the parameters; who looks after that is asked first.
local function check(self, loss, batch)
  if loss ~= loss and not self.options.scaler and not self.stability then
    blame.raise(('Trainer: the loss of batch %d in epoch %d is nan'):format(batch,
      self.epoch + 1), 'EARG')
  end
end

-- Read what a batch came to, and note it.
local function settle(self, at)
  if at and not at.read then
    at.read = true
    at.loss = Batch.value(at.found)
    check(self, at.loss, at.batch)
    if at.row then at.row.loss = at.loss end
    self.sum = self.sum + at.loss * at.rows
  end
end

-- Batches of one group share a step: each loss counts by its part of the group's batches, of the
-- last group too, which may be smaller. On a device the loss of a batch is read when the next one
-- was asked for, so that the device need not wait for the host; the seconds of the curve are then
-- those at which a step was asked for.
local function train(self, loader)
  local o = self.options
  local rows, done, all, bad, last = 0, 0, loader:len(), nil, nil
  local began = seconds_now()
  self.sum = 0
  self.model:train()
  self.batch:place()
  self.optimizer:zero_grad { set = o.compile } -- what plans add to stays where it is
  for x, y in loader:each() do
    local group = math.min(o.accumulate, all - math.floor(done / o.accumulate) * o.accumulate)
    local at_begin = done % o.accumulate == 0
    local found = self.batch:run(x, y, 1 / group, function()
      if not at_begin then
        blame.raise('Trainer: memory does not suffice for a batch, and what came before it in the '
          .. 'same step cannot be kept apart; use smaller batches with accumulate', 'ENOMEM')
      end
      self.optimizer:zero_grad { set = o.compile }
    end)
    done = done + 1
    settle(self, last)
    last = { found = found, rows = x:size(1), batch = done }
    if found.value or self.stability then settle(self, last) end
    bad = found.bad and (at_begin and found.bad or bad + found.bad) or nil
    rows = rows + last.rows
    if done % o.accumulate == 0 or done == all then
      memory.scope(function() step(self, last.loss, bad) end)
      last.row = { step = self.steps_before + #self.curve + 1, loss = last.loss,
        seconds = self.trained_s + seconds_now() - began }
      self.curve[#self.curve + 1] = last.row
    end
  end
  settle(self, last)
  call.check(C.rg_device_wait(dtype.device(self.batch.device, 'Trainer'))) -- the last step as well
  self.trained_s = self.trained_s + seconds_now() - began
  return self.sum / rows, rows
end

--- The mean loss over a loader, and the share of rows whose largest score is at their label where
--- labels are whole numbers.
---@param loader table ridge.data.Loader
---@return number loss
---@return number|nil accuracy
function Trainer:validate(loader)
  self.model:eval()
  self.batch:place()
  local rows, sums = 0, {} -- sums of losses and of hits, where the model is: read once, at the end
  local function add(i, x)
    sums[i] = sums[i] and sums[i] + x or x
  end
  for x, y in loader:each() do
    grad.no_grad(memory.scope, function()
      x, y = self.batch:here(x), self.batch:here(y)
      local output = self.batch:forward(x)
      add(1, self.loss(output, y):to('f64') * x:size(1))
      rows = rows + x:size(1)
      if y.dtype == 'u8' or y.dtype == 'i64' or y.dtype == 'i32' then
        local axes = #output:size()
        if axes == #y:size() + 1 then
          add(2, output:argmax(axes):eq(y):to('f64'):mean() * x:size(1))
        end
      end
      return sums
    end)
  end
  return sums[1]:item() / rows, sums[2] and sums[2]:item() / rows
end

-- -- Checkpoints ----------------------------------------------------------------------------------

-- A row as JSON can hold it: what is not finite is left out.
local function finite(row)
  local out = {}
  for name, v in pairs(row) do
    if type(v) ~= 'number' or (v == v and math.abs(v) < math.huge) then out[name] = v end
  end
  return out
end

-- Where the default random stream stands, which dropout draws from.
local function stream()
  local g = C.rg_generator_default()
  return { seed = ('%.0f'):format(tonumber(C.rg_generator_seed(g))),
    offset = ('%.0f'):format(tonumber(C.rg_generator_offset(g))) }
end

local function path_of(self, name)
  return ('%s/%s.safetensors'):format(self.options.folder, name)
end

--- Write a checkpoint: the model, the optimizer, the history, and where the loader's orders are.
---@param name string 'last' or 'best'
---@param loader table|nil
function Trainer:save(name, loader)
  if not self.options.folder then
    blame.raise('Trainer: save wants a folder: Trainer(net, { folder = ... })', 'EARG')
  end
  local tensors = {}
  for key, x in pairs(self.model:state()) do tensors['model.' .. key] = x end
  for key, x in pairs(self.optimizer:state()) do tensors['optimizer.' .. key] = x end
  local o, history = self.options, canonical.list {}
  for i, row in ipairs(self.history) do history[i] = finite(row) end
  file.save(path_of(self, name), tensors, { ridge = canonical.encode {
    epoch = self.epoch, best = self.best < math.huge and self.best or canonical.null,
    waited = self.waited, history = history,
    trained = { steps = self.steps_before + #self.curve, seconds = self.trained_s },
    loader = loader and loader.state and loader:state() or {}, stream = stream(),
    schedule = o.schedule and o.schedule.t or canonical.null,
    scale = o.scaler and o.scaler.factor or canonical.null,
    good = o.scaler and o.scaler.good or canonical.null } })
end

local function split(tensors, prefix)
  local out = {}
  for name, x in pairs(tensors) do
    if name:sub(1, #prefix) == prefix then out[name:sub(#prefix + 1)] = x end
  end
  return out
end

--- Go on from a checkpoint, if there is one: what follows has the same bits as without the break.
---@param loader table|nil whose orders go on too
---@param name string|nil 'last' when left out
---@return boolean found
function Trainer:resume(loader, name)
  local path = path_of(self, name or 'last')
  local there = io.open(path, 'rb')
  if not there then return false end
  there:close()
  local tensors, notes = file.load(path)
  local ok, facts = pcall(canonical.decode, notes.ridge or '')
  if not ok or type(facts) ~= 'table' or type(facts.epoch) ~= 'number' then
    blame.raise(('Trainer: %s is no checkpoint of a trainer'):format(path), 'EFORMAT')
  end
  self.model:load_state(split(tensors, 'model.'))
  self.optimizer:load_state(split(tensors, 'optimizer.'))
  local o = self.options
  self.epoch, self.waited, self.history = facts.epoch, facts.waited, facts.history
  self.best = facts.best ~= canonical.null and facts.best or math.huge
  local trained = type(facts.trained) == 'table' and facts.trained or {}
  self.curve, self.steps_before = {}, tonumber(trained.steps) or 0
  self.trained_s = tonumber(trained.seconds) or 0
  self.began_s = self.trained_s
  if o.schedule and facts.schedule ~= canonical.null then o.schedule.t = facts.schedule end
  if o.scaler and facts.scale ~= canonical.null then
    o.scaler.factor, o.scaler.good = facts.scale, facts.good
  end
  local seed, offset = tonumber(facts.stream.seed), tonumber(facts.stream.offset)
  if seed and offset then C.rg_generator_set(C.rg_generator_default(), seed, offset) end
  if loader and loader.go_on then loader:go_on(facts.loader) end
  return true
end

-- -- All of them ----------------------------------------------------------------------------------

local FIT = {
  epochs = { 'integer', required = true, min = 1, doc = 'in all, those before a break included' },
  validate = { 'table', doc = 'a loader of what is not trained on' },
}

local FELL = 0.01 -- of accuracy, since its best epoch: worth a word

-- The epoch with the best accuracy so far.
local function best_of(history)
  local best
  for _, row in ipairs(history) do
    if row.accuracy and (not best or row.accuracy > best.accuracy) then best = row end
  end
  return best
end

local function line_of(row, epochs, history)
  local text = ('epoch %d/%d  loss %.4f'):format(row.epoch, epochs, row.loss)
  if row.val_loss then text = text .. ('  test %.4f'):format(row.val_loss) end
  if row.accuracy then text = text .. ('  accuracy %.4f'):format(row.accuracy) end
  local best = row.accuracy and best_of(history)
  if best and best.accuracy - row.accuracy > FELL then
    text = text .. (' (%.4f below epoch %d)'):format(best.accuracy - row.accuracy, best.epoch)
  end
  return text .. ('  %.1f s, %.0f rows/s, peak %.1f MB'):format(row.seconds, row.rows_per_s,
    row.peak_bytes / 2 ^ 20)
end

-- Keep what this epoch came to; true when it was one too many without a better loss.
local function keep(self, row, loader)
  local value = row.val_loss or row.loss
  local better = value < self.best
  self.best = better and value or self.best
  self.waited = better and 0 or self.waited + 1
  if self.options.folder then
    if better then self:save('best', loader) end
    self:save('last', loader)
  end
  return self.options.patience and self.waited >= self.options.patience
end

--- Train until so many epochs are done, the loss has stopped falling, or Ctrl-C: then the epoch
--- under way is finished and saved first.
---@param loader table ridge.data.Loader
---@param opts table {epochs =, validate = loader}
---@return table history a row for each epoch: epoch, loss, val_loss, accuracy, seconds, rows_per_s,
---  peak_bytes, lr
---@return string|nil stopped 'patience' or 'interrupt'
function Trainer:fit(loader, opts)
  opts = options.check(FIT, opts, 'Trainer:fit')
  if type(loader) ~= 'table' or type(loader.each) ~= 'function' then
    blame.raise(('Trainer:fit: a loader is expected, got %s'):format(blame.show(loader)), 'EARG')
  end
  if self.options.workers and loader.start then loader:start(self.options.workers) end
  local stopped
  while self.epoch < opts.epochs and not stopped do
    local device = self.batch:place()
    memory.reset_peak(device)
    local began = tonumber(C.rg_clock_ns())
    local loss, rows = train(self, loader)
    local seconds = (tonumber(C.rg_clock_ns()) - began) / 1e9
    local row = { epoch = self.epoch + 1, loss = loss, seconds = seconds,
      rows_per_s = rows / seconds, lr = self.optimizer:lr(),
      peak_bytes = memory.stats(device).peak + self.batch:plan_bytes() }
    if opts.validate then row.val_loss, row.accuracy = self:validate(opts.validate) end
    self.epoch = row.epoch
    self.history[row.epoch] = row
    local enough = keep(self, row, loader)
    self.say(line_of(row, opts.epochs, self.history))
    stopped = enough and 'patience' or require('ridge').stopping() and 'interrupt' or nil
  end
  return self.history, stopped
end

-- -- What there is to know ------------------------------------------------------------------------

--- Keep numbers of your own beside the losses.
---@param metrics table name to number
---@param at number|nil the step; those taken so far when left out
---@return table self
-- >> trainer:record({custom_metric = 0.95})
function Trainer:record(metrics, at)
  if type(metrics) ~= 'table' then
    blame.raise('Trainer:record: a table of numbers is expected, got ' .. blame.show(metrics))
  end
  local row = { step = at or #self.curve, seconds = self.trained_s }
  for name, value in pairs(metrics) do
    if type(name) ~= 'string' or type(value) ~= 'number' then
      blame.raise(('Trainer:record: %s is %s; names and numbers are expected'):format(
        tostring(name), blame.show(value)))
    end
    row[name] = value
  end
  self.metrics[#self.metrics + 1] = row
  return self
end

--- Steps and their times, and memory.
---@return table total_steps, total_time, average_step_time, min_step_time, max_step_time (seconds),
---  memory_mb, peak_memory_mb (of the device that the model is on)
function Trainer:summary()
  local n, least, most = self.steps_before + #self.curve, math.huge, 0
  local last = #self.curve > 0 and self.began_s or 0
  for _, row in ipairs(self.curve) do
    least, most = math.min(least, row.seconds - last), math.max(most, row.seconds - last)
    last = row.seconds
  end
  local stats = memory.stats(self.batch:place())
  return { total_steps = n, total_time = self.trained_s,
    average_step_time = n > 0 and self.trained_s / n or 0,
    min_step_time = least < math.huge and least or 0, max_step_time = most,
    memory_mb = stats.live / 2 ^ 20, peak_memory_mb = stats.peak / 2 ^ 20 }
end

--- What is switched on, and how far it is: what is really in force, not what was asked for.
---@return table config (mixed_precision, compile_enabled, plans, accumulate, parts, clip,
---  stability, level), epoch, steps, best
function Trainer:status()
  local o, plans = self.options, 0
  for _ in self.batch.plans:each() do plans = plans + 1 end
  return { epoch = self.epoch, steps = self.steps_before + #self.curve, best = self.best,
    config = { mixed_precision = o.autocast or false,
      compile_enabled = self.batch.options.compile or false, plans = plans,
      accumulate = o.accumulate, parts = self.batch.parts, clip = o.clip or false,
      stability = self.stability and tostring(self.stability) or false,
      level = o.level or false } }
end

--- Summary and status as text.
---@return string
function Trainer:report()
  local s, at = self:summary(), self:status()
  local lines = { ('%d steps in %d epochs, %.1f s: %.4f s a step [%.4f .. %.4f]'):format(
    s.total_steps, at.epoch, s.total_time, s.average_step_time, s.min_step_time, s.max_step_time),
    ('memory %.1f MB, at most %.1f MB'):format(s.memory_mb, s.peak_memory_mb) }
  local names = {}
  for name in pairs(at.config) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    lines[#lines + 1] = ('%-16s %s'):format(name, tostring(at.config[name]))
  end
  return table.concat(lines, '\n')
end

M.Trainer = Trainer

return M
