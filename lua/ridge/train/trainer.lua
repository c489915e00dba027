-- SPDX-License-Identifier: MIT
--- A trainer: epochs over a loader, validation, history, checkpoints that are written whole or not
--- at all, and going on from them with the same bits.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local checkpoint = require 'ridge.train.checkpoint'
local class = require('ridge.class').class
local data = require 'ridge.data'
local Batch = require 'ridge.train.batch'
local Debug = require 'ridge.train.debug'
local Stability = require('ridge.train.stability').Stability
local dtype = require 'ridge.tensor.dtype'
local evaluated = require('ridge.train.validate').evaluated
local grad = require 'ridge.tensor.grad'
local gradients = require 'ridge.optim.gradients'
local late = require 'ridge.late'
local log = require 'ridge.train.log'
local memory = require 'ridge.memory'
local nn = require 'ridge.nn'
local options = require 'ridge.options'
local random = require 'ridge.random'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local Running = require 'ridge.optim.running'
local setup = require 'ridge.train.setup'
local shown = require 'ridge.train.shown'
local together = require 'ridge.train.together'
local worlds = require 'ridge.world'

local M = {}

local Trainer = class 'Trainer'

local function seconds_now() return tonumber(C.rg_clock_ns()) / 1e9 end

--- Set up. With a world of several ranks, or a ridge.dist.DataParallel, all of them train the
--- model, with the same options: steps and metrics are those of one rank with the rows of all. Rank
--- 0 alone speaks (say), is watched (monitor) and writes.
---@param model table a module
---@param opts table {optimizer =, or lr = and the rest that makes one; loss =, schedule =, clip =,
---  accumulate = 1, autocast =, scaler =, compile =, split = false, level =, stability =, folder =,
---  patience =, log_every = 50,
---  trim_every =, monitor =, say =, world =, ...}: a profile of ridge.profiles is such a table
-- >> net = ridge.nn.Linear(3, 2, {seed = 1})
-- >> trainer = ridge.Trainer(net, {optimizer = ridge.optim.Adam(net)})
function Trainer:init(model, opts)
  if not nn.is_module(model) then
    blame.raise(('Trainer: a module is expected, got %s'):format(blame.show(model)), 'EARG')
  end
  local o
  o, model = setup.options(model, opts)
  self.options, self.model, self.optimizer = o, model, o.optimizer
  self.loss, self.say, self.switched = o.loss, o.say, o.switched
  self.together = setup.join(model, o)
  self.history, self.epoch, self.best, self.waited = shown.history {}, 0, math.huge, 0
  self.curve, self.trained_s, self.metrics = {}, 0, {}
  self.steps_before, self.began_s = 0, 0 -- those of the checkpoint that this goes on from
  self.stability = o.stability and Stability(o.optimizer, o.stability)
  self.debug = o.debug and Debug(o.debug, self)
  self.batch = Batch(model, self.loss, { autocast = o.autocast, scaler = o.scaler,
    compile = o.compile, split = o.split, say = self.say, debug = self.debug,
    weigh = o.weigh })
end

-- -- One epoch ------------------------------------------------------------------------------------

-- Take the step that a group of batches has made. bad: 0, or nan where a loss is not finite, which
-- nobody may have read yet; the step is left out there.
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
  if o.schedule and not o.schedule.takes_loss then o.schedule:step() end
  self.optimizer:zero_grad { set = o.compile } -- a plan adds to gradients that are there
end

-- A loss that is nan must not reach the parameters; who looks after that is asked first.
local function check(self, loss, batch, rank)
  if loss ~= loss and not self.options.scaler and not self.stability then
    self.lost = { batch = batch, epoch = self.epoch + 1 }
    blame.raise(('Trainer: the loss of batch %d in epoch %d is nan%s'):format(batch,
      self.epoch + 1, rank and (' on rank %d'):format(rank) or ''), 'EARG')
  end
end

-- The loss of a step: the mean over all its batches' rows, or labels that count; an error where
-- none does, as for any loss that is nan.
local function loss_of(self, group, batch)
  if group.weight == 0 then check(self, 0 / 0, batch) end
  return group.batches == 1 and group.weight > 0 and group.last or group.sum / group.weight
end

-- Read what a batch came to, and note it. The epoch's loss is the mean over those that are finite:
-- one that is not says nothing of the others. Each counts by its labels that are not ignored, where
-- the loss tells how many these are, and else by its rows.
local function settle(self, at)
  if not at or at.read then return end
  at.read = true
  local group, epoch = at.group, self.running
  local loss, weight = Batch.value(at.found)
  weight = weight or at.rows
  check(self, loss, at.batch, at.rank)
  group.sum, group.last, group.read = group.sum + loss * weight, loss, group.read + 1
  group.weight = group.weight + weight
  if group.row and group.read == group.batches then
    group.row.loss = loss_of(self, group, at.batch)
  end
  if loss == loss and math.abs(loss) < math.huge then
    epoch.sum, epoch.weight = epoch.sum + loss * weight, epoch.weight + weight
  else
    epoch.not_finite = epoch.not_finite + 1
  end
end

-- Each loss has counted as if all batches of its step had as many rows as the first one, and every
-- label counted; where that is not so, the gradients are brought to the mean over what there was.
local function weigh(self, group)
  local ranks = group.of.ranks or 1
  local share
  if not group.counted then
    share = ranks * group.of.first * group.planned / group.rows
  elseif group.of.alone and not group.apart then
    share = 1 -- a mean already
  elseif group.total then
    -- a step without labels that count is left out
    local none = group.total:eq(0):to 'f64'
    group.bad = (group.bad or 0) + none * 0 / (1 - none)
    share = (group.total + none):reciprocal() * group.of.labels
  else
    share = group.weight > 0 and ranks * group.of.labels / group.weight or 1
  end
  if share == 1 then return end
  grad.no_grad(function()
    for _, each in ipairs(gradients.list(self.optimizer)) do
      local g = each.grad
      g:mul_(ref.is(share) and share:to(g.device):to(g.dtype) or share)
    end
  end)
end

-- Finish a step: its row of the curve has the loss as soon as that is read.
local function finish(self, group, last, began)
  if self.together then
    self.together:close(group)
    for _, at in ipairs(group.list) do settle(self, at) end
    self.running.rows = self.running.rows + group.rows
  end
  local read = group.read == group.batches
  memory.scope(function()
    weigh(self, group)
    step(self, read and loss_of(self, group, last.batch) or nil, group.bad)
  end)
  if not self.stability then -- which settles them itself
    memory.scope(self.statistics.settle, self.statistics)
  end
  group.row = { step = self.steps_before + #self.curve + 1,
    loss = read and loss_of(self, group, last.batch) or nil,
    seconds = self.trained_s + seconds_now() - began - self.running.aside_s,
    flags = worlds.flags() }
  self.curve[#self.curve + 1] = group.row
  if self.debug then self.debug:after(group.row) end
end

-- How many batches the next step will have: fewer at the end of an epoch. A loader that gives more
-- batches than it has said is believed no longer.
local function planned(accumulate, all, done)
  local left = all and math.floor(all) - done or 0
  return left >= 1 and math.min(accumulate, left) or accumulate
end

-- Batches that make a step. of: what each one of them counts by, see Batch:run.
local function group_of(self, rows, y, n)
  return { sum = 0, weight = 0, read = 0, batches = 0, rows = 0, planned = n, list = {},
    of = self.together and self.together:of(y, n)
      or { first = rows, labels = y.count * n, alone = n == 1 } }
end

-- What the batches of a step count by, where the loss tells: on a device nobody has read it.
local function add_total(group, found)
  group.counted = group.counted or found.weight ~= nil or found.total ~= nil
  group.apart = group.apart or found.apart
  if found.total then group.total = group.total and group.total + found.total or found.total end
end

-- Batches of one group share a step, the last group may have fewer. On a device the loss of a batch
-- is read when the next one was asked for, so that the device need not wait for the host; the
-- seconds of the curve are then those at which a step was asked for.
local function train(self, loader, epochs)
  local o, others = self.options, self.together
  local done, last, group = 0, nil, nil
  local all = others and others:begin(loader)
    or type(loader.len) == 'function' and tonumber(loader:len()) or nil
  local began = seconds_now()
  self.running = { sum = 0, weight = 0, not_finite = 0, epoch = self.epoch + 1, epochs = epochs,
    batches = all, trimmed = 0, rows = 0, done = 0, aside_s = 0 }
  self.model:train()
  self.batch:place()
  self.statistics = Running(self.model:parameters())
  self.optimizer.statistics = self.statistics -- what guards its steps settles the same ones
  self.optimizer:zero_grad { set = o.compile } -- what plans add to stays where it is
  for x, y in loader:each() do
    local n = Batch.rows(x, y, others)
    group = group or group_of(self, n, y, planned(o.accumulate, all, done))
    if others then
      others:open(group.batches + 1 == group.planned, self.batch.options.compile)
    end
    group.of.share = n / (group.of.first * group.planned)
    local found = self.batch:run(x, y, group.of, function()
      if group.batches > 0 then
        blame.raise('Trainer: memory does not suffice for a batch, and what came before it in the '
          .. 'same step cannot be kept apart; use smaller batches with accumulate', 'ENOMEM')
      end
      self.optimizer:zero_grad { set = o.compile }
    end)
    done = done + 1
    self.running.done = done
    if not others then
      self.running.rows = self.running.rows + n
      settle(self, last)
    end
    last = { found = found, rows = n, batch = done, group = group }
    group.batches, group.rows = group.batches + 1, group.rows + n
    group.list[group.batches] = others and last
    if not others and (found.value or self.stability) then settle(self, last) end
    add_total(group, found)
    if found.bad and not others then
      group.bad = group.bad and group.bad + found.bad or found.bad
    end
    if group.batches == group.planned then
      finish(self, group, last, began)
      group = nil
      if o.monitor then
        local s = o.monitor:follow(self)
        -- beside the work: its time is no step's; a device goes on with its own meanwhile
        if self.batch.device == 'cpu' then self.running.aside_s = self.running.aside_s + s end
      end
    end
    if o.trim_every and done % o.trim_every == 0 then
      self.running.trimmed = self.running.trimmed + memory.trim(self.batch.device)
    end
    if o.log_every > 0 and done % o.log_every == 0 then
      self.running.batch = done
      self.running.seconds = seconds_now() - began - self.running.aside_s
      self.say(log.batch(self.running))
    end
    if others and done == all then break end
  end
  if others then others:end_of(done, all) end
  if done == 0 then blame.raise('Trainer:fit: the loader gives no batch', 'EARG') end
  if group then finish(self, group, last, began) end -- where the loader does not say how many
  if not others then settle(self, last) end
  call.check(C.rg_device_wait(dtype.device(self.batch.device, 'Trainer'))) -- the last step as well
  self.trained_s = self.trained_s + seconds_now() - began - self.running.aside_s
  return self.running.sum / self.running.weight, self.running.rows
end

local function check_loader(loader, what)
  if type(loader) ~= 'table' or type(loader.each) ~= 'function' then
    blame.raise(('%s: a loader is expected, got %s'):format(what, blame.show(loader)), 'EARG')
  end
end

--- The mean loss over a loader, and the share of rows whose largest score is at their label where
--- labels are whole numbers. Labels that cross entropy ignores count in neither. Of several ranks
--- all call it, each with its rows, and get what it is over all of them.
---@param loader table ridge.data.Loader
---@return number loss
---@return number|nil accuracy
function Trainer:validate(loader)
  check_loader(loader, 'Trainer:validate')
  local loss, accuracy = evaluated(self, loader)
  return loss, accuracy
end

--- A copy of the net as it is to be run, in evaluation mode: as it was trained, or with infer =
--- 'i8', which the profile memory_constrained has, in 8 bits. With a loader of inputs ranges are
--- observed and convolutions are taken too (ridge.quant.static); without one dense layers round
--- what comes in as it comes (ridge.quant.dynamic). Every layer is taken that can be, also where it
--- is slower: it is memory that is short.
---@param loader table|nil of inputs, such as the one it was trained with
---@return table net
-- >> local trainer = ridge.Trainer(ridge.nn.Linear(8, 2), ridge.profiles 'memory_constrained')
-- >> return trainer:inference()
function Trainer:inference(loader)
  if loader ~= nil then check_loader(loader, 'Trainer:inference') end
  local net = together.bare(self.model):clone():eval()
  if self.options.infer ~= 'i8' then return net end
  local static, dynamic = unpack(late.above.int8)
  if loader then return require(static[1])[static[2]](net, { calibrate = loader, rows = false }) end
  return require(dynamic[1])[dynamic[2]](net, { rows = false })
end

-- -- Checkpoints ----------------------------------------------------------------------------------

-- What has a memory beside the model and the optimizer.
local function parts(self)
  return { schedule = self.options.schedule, scaler = self.options.scaler,
    stability = self.stability }
end

local TABLE = { 'table', required = true, doc = 'as Trainer:state gives it' }
local COUNT = { 'integer', required = true, min = 0, doc = 'as Trainer:state gives it' }
local STATE = { model = TABLE, optimizer = TABLE, others = TABLE, loaders = TABLE, stream = TABLE,
  history = TABLE, metrics = TABLE, epoch = COUNT,
  streams = { 'table', doc = 'those of all ranks' }, waited = COUNT, steps = COUNT,
  parts = { 'integer', required = true, min = 1, doc = 'that batches are cut into' },
  best = { 'number', required = true, doc = 'the least loss of an epoch' },
  seconds = { 'number', required = true, min = 0, doc = 'trained' } }

--- What the training depends on: model, optimizer, schedule, scaler, stability, the default random
--- stream, where the loaders' orders are, the history.
---@param loader table|nil the last one that fit was given, when left out
---@param validation table|nil the loader that validates; the last one, when left out
---@return table state of numbers, texts and tensors; the tensors themselves, not copies
function Trainer:state(loader, validation)
  local own, others = random.default():state(), self.together
  return { model = together.bare(self.model):state(), optimizer = self.optimizer:state(),
    epoch = self.epoch, best = self.best, waited = self.waited, history = self.history,
    metrics = self.metrics, steps = self.steps_before + #self.curve, seconds = self.trained_s,
    parts = self.batch.parts, stream = own, streams = others and others:streams(own),
    others = checkpoint.states(parts(self)),
    loaders = checkpoint.states { train = loader or self.loader,
      validate = validation or self.validation } }
end

-- Give loaders the orders that a state has for them; those it is not asked for wait.
local function go_on(self, loader, validation)
  for name, each in pairs { train = loader, validate = validation } do
    local state = self.waiting and self.waiting[name]
    if state and next(state) then
      if type(each.load_state) ~= 'function' then
        blame.raise('Trainer: the loader has no load_state, and the checkpoint is of one that had '
          .. 'orders to go on with', 'EARG')
      end
      each:load_state(state)
    end
    if self.waiting then self.waiting[name] = nil end
  end
end

--- Take what another training was at: what follows has the same bits as there. All of it fits, or
--- nothing is changed.
---@param state table as `state` gives it
---@param loader table|nil whose orders go on too; without it those that `fit` is given do
---@return table self
function Trainer:load_state(state, loader)
  local what = 'Trainer:load_state'
  state = options.check(STATE, state, what)
  for _, list in ipairs { state.history, state.metrics } do
    for i, row in ipairs(list) do
      if type(row) ~= 'table' or list == state.history and row.epoch ~= i then
        blame.raise(('%s: row %d of the history is none'):format(what, i), 'EARG')
      end
    end
  end
  if #state.history ~= state.epoch then
    blame.raise(('%s: %d rows for %d epochs'):format(what, #state.history, state.epoch), 'EARG')
  end
  for _, name in ipairs { 'train', 'validate' } do
    local orders = state.loaders[name]
    if orders ~= nil and type(orders) ~= 'table' then
      blame.raise(('%s: the orders of a loader are %s'):format(what, blame.show(orders)), 'EARG')
    end
  end
  if loader ~= nil then check_loader(loader, 'Trainer:resume') end
  random.check_state(state.stream, what)
  for _, stream in ipairs(state.streams or {}) do random.check_state(stream, what) end
  local model = together.bare(self.model)
  local before = checkpoint.still(model:state())
  model:load_state(state.model)
  local ok, err = pcall(function()
    self.optimizer:check_state(state.optimizer)
    checkpoint.load_parts(parts(self), state.others)
  end)
  if not ok then
    model:load_state(before)
    error(err, 0)
  end
  self.optimizer:load_state(state.optimizer) -- behind the schedule, which sets rates
  self.epoch, self.best, self.waited = state.epoch, state.best, state.waited
  self.history = shown.history(checkpoint.still(state.history))
  self.metrics = checkpoint.still(state.metrics)
  self.curve, self.loaded = {}, true
  self.steps_before, self.trained_s, self.began_s = state.steps, state.seconds, state.seconds
  self.batch.parts = state.parts
  self.stream = self.together and self.together:stream(state) or state.stream
  random.default():load_state(self.stream) -- and where fit begins: a loader may draw a seed before
  self.waiting = { train = state.loaders.train, validate = state.loaders.validate }
  if loader then go_on(self, loader) end
  return self
end

local function path_of(self, name, what)
  if not self.options.folder then
    blame.raise(what .. ': checkpoints are in a folder: Trainer(net, { folder = ... })', 'EARG')
  end
  if type(name) ~= 'string' or name == '' or name:find '[/%z]' then
    blame.raise(('Trainer: a checkpoint has a name such as last or best, got %s'):format(
      blame.show(name)), 'EARG')
  end
  return ('%s/%s.safetensors'):format(self.options.folder, name)
end

--- Write a checkpoint: `state`, in a file. Of several ranks all call it, and rank 0 writes.
---@param name string 'last' or 'best'
---@param loader table|nil the last one that fit was given, when left out
---@param validation table|nil the loader that validates; the last one, when left out
function Trainer:save(name, loader, validation)
  local path, state = path_of(self, name, 'Trainer:save'), self:state(loader, validation)
  local function write() checkpoint.save(path, state) end
  if self.together then self.together:first('Trainer:save', write) else write() end
end

--- Go on from a checkpoint, if there is one: what follows has the same bits as without the break.
---@param loader table|nil whose orders go on too; without it those that `fit` is given do
---@param name string|nil 'last' when left out
---@return boolean found
function Trainer:resume(loader, name)
  local state = checkpoint.load(path_of(self, name or 'last', 'Trainer:resume'))
  if self.together then
    self.together:agree('Trainer:resume', { ['the checkpoint'] = state and ('of epoch %d, step %d')
      :format(state.epoch, state.steps) or 'not there' })
  end
  if not state then return false end
  self:load_state(state, loader)
  return true
end

-- -- All of them ----------------------------------------------------------------------------------

local FIT = {
  epochs = { 'integer', required = true, min = 1, doc = 'in all, those before a break included' },
  validate = { 'table', doc = 'a loader of what is not trained on' },
}

-- Has the loss not fallen for as many epochs as it is given?
local function enough(self)
  return self.options.patience ~= nil and self.waited >= self.options.patience
end

-- Keep what this epoch came to; true when it was one too many without a better loss.
local function keep(self, row)
  local value, schedule = row.val_loss or row.loss, self.options.schedule
  if schedule and schedule.takes_loss then schedule:step(value) end
  local better = value < self.best
  self.best = better and value or self.best
  self.waited = better and 0 or self.waited + 1
  if self.options.folder then
    if better then self:save 'best' end
    self:save 'last'
  end
  return enough(self)
end

-- The loader of what was given: one of batches, or tensors to make one of.
local function loader_of(self, given)
  if type(given) == 'table' and type(given.each) == 'function' then return given end
  if not (type(given) == 'table' and ref.is(given[1])) then
    blame.raise(('Trainer:fit: a loader is expected, got %s'):format(blame.show(given)), 'EARG')
  end
  local known = self.made and #self.made.sources == #given
  for i = 1, known and #given or 0 do
    known = known and rawequal(self.made.sources[i], given[i])
  end
  if known then return self.made end
  local ranks = self.together and self.together.size or 1
  self.made = data.Loader(given, { batch = math.min(setup.batch(self.options) or 64,
    math.ceil(given[1]:size(1) / ranks)), shuffle = self.options.shuffle,
    world = self.together and self.together.world })
  return self.made
end

--- Train until so many epochs are done, the loss has stopped falling, or Ctrl-C: then the epoch
--- under way is finished and saved first. A training that patience has ended, and that goes on from
--- its checkpoint, has ended.
---
--- Of several ranks all call it, each with a loader of its own rows: one of ridge.data with world,
--- or another that says how many batches it has (len); where ranks have different numbers of them,
--- each takes the fewest in an epoch. Ctrl-C on one of them ends all.
---@param loader table ridge.data.Loader, or tensors {x, y} to make one of, with the trainer's batch
---@param opts table {epochs =, validate = loader}
---@return table history a row for each epoch: epoch, loss (the mean over rows whose loss is
---  finite), not_finite (batches whose loss is not), val_loss, accuracy, seconds,
---  rows_per_s, peak_bytes, lr; accuracy_lo, accuracy_hi (95 %), accuracy_n; with trim_every
---  trimmed_bytes; flags 'SIMULATED' where a program played the network between ranks
---@return string|nil stopped 'patience' or 'interrupt'
function Trainer:fit(loader, opts)
  opts = options.check(FIT, opts, 'Trainer:fit')
  local looked = worlds.look_for_stop(true) -- at the end of each epoch
  if opts.validate then check_loader(opts.validate, 'Trainer:fit: validate') end
  loader = loader_of(self, loader)
  setup.fit(self, loader, opts)
  go_on(self, loader, opts.validate)
  if self.stream then random.default():load_state(self.stream) end
  self.stream, self.loader, self.validation, self.lost = nil, loader, opts.validate, nil
  if ranges.met then ranges.met('fit', Trainer.fit, self) end
  -- a training that had ended for want of patience has ended: the same script, run once more
  local stopped = self.loaded and enough(self) and 'patience' or nil
  self.loaded = false
  while self.epoch < opts.epochs and not stopped do
    local device = self.batch:place()
    memory.reset_peak(device)
    local began = tonumber(C.rg_clock_ns())
    local loss, rows = train(self, loader, opts.epochs)
    local seconds = (tonumber(C.rg_clock_ns()) - began) / 1e9 - self.running.aside_s
    local row = { epoch = self.epoch + 1, loss = loss, not_finite = self.running.not_finite,
      seconds = seconds, rows_per_s = rows / seconds, lr = self.optimizer:lr(),
      peak_bytes = memory.stats(device).peak + self.batch:plan_bytes(), flags = worlds.flags() }
    if self.options.trim_every then row.trimmed_bytes = self.running.trimmed end
    local stopping = require('ridge').stopping()
    if self.together then stopping = self.together:ended(row, stopping, rows) end
    if opts.validate then
      row.val_loss, row.accuracy, row.accuracy_n = evaluated(self, opts.validate)
      log.interval(row)
    end
    self.epoch = row.epoch
    self.history[row.epoch] = row
    local too_long = keep(self, row)
    self.say(log.epoch(row, opts.epochs, self.history))
    self.say(memory.line(device))
    if self.options.monitor then self.options.monitor:epoch(self, row) end
    if not self.together then stopping = require('ridge').stopping() end
    stopped = too_long and 'patience' or stopping and 'interrupt' or nil
  end
  if self.debug then self.debug:finish() end
  if not require('ridge').stopping() then worlds.look_for_stop(looked) end
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
  if at ~= nil and (type(at) ~= 'number' or at ~= at or math.abs(at) == math.huge) then
    blame.raise('Trainer:record: the step is a number, got ' .. blame.show(at), 'EARG')
  end
  local row = { step = at or self.steps_before + #self.curve, seconds = self.trained_s,
    flags = worlds.flags() }
  for name, value in pairs(metrics) do
    if name == 'step' or name == 'seconds' or name == 'flags' then
      blame.raise(('Trainer:record: %s is what each row has; call the metric otherwise'):format(
        name), 'EARG')
    end
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
---  memory_mb, peak_memory_mb (of the device that the model is on), flags (as of the history)
function Trainer:summary() return log.summary(self) end

--- What is switched on, and how far it is: what is really in force, not what was asked for.
---@return table config (mixed_precision, compile_enabled, plans, accumulate, mini_batch_size,
---  effective_batch_size, parts, clip, stability, level), epoch, steps, best
function Trainer:status()
  local o, plans = self.options, 0
  for _ in self.batch.plans:each() do plans = plans + 1 end
  local mini, ranks = self.mini_batch or setup.batch(o), self.together and self.together.size or 1
  return { epoch = self.epoch, steps = self.steps_before + #self.curve, best = self.best,
    config = { mixed_precision = o.autocast or false,
      compile_enabled = self.batch.options.compile or false, plans = plans,
      accumulate = o.accumulate, mini_batch_size = mini or false,
      effective_batch_size = mini and mini * o.accumulate * ranks or false,
      parts = self.batch.parts, clip = o.clip or false,
      stability = self.stability and tostring(self.stability) or false,
      level = o.level or false } }
end

--- Summary and status as text.
---@return string
function Trainer:report() return log.report(self:summary(), self:status()) end

shown.trainers(Trainer)

M.Trainer = Trainer

return M
