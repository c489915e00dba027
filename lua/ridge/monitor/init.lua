-- SPDX-License-Identifier: MIT
--- Watching a run (F153 to F157, F160, F161): a history of metrics, how busy devices are, whether
--- the accuracy fell; as tables, as text, and as event files of TensorBoard.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local memory = require 'ridge.memory'
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local proportion = require 'ridge.measure.proportion'
local usage = require 'ridge.monitor.usage'
local worlds = require 'ridge.world'

local M = {}

local Monitor = class 'Monitor'

local SPEC = {
  device = { 'string', default = 'cpu', doc = 'whose memory is watched' },
  every = { 'number', default = 1, min = 0.1, max = 1e9,
    doc = 'seconds between two readings of how busy devices are' },
  keep = { 'integer', default = 100000, min = 1, doc = 'rows of the history, the last ones' },
  tensorboard = { 'string', doc = 'folder of an event file: runs/performance_optimization' },
  total = { 'integer', min = 1, doc = 'steps that there will be: ridge watch tells what is left' },
  trainer = { 'table', doc = 'a trainer whose status is told' },
  say = { 'function', doc = 'called with what cannot be written; it goes to stderr when left out' },
}

-- A trainer's steps are taken together: not more often, in not more of its time, with not more
-- losses in the event file than these.
local FOLLOW_S, SHARE, LOSSES = 0.25, 0.02, 500

local function now() return tonumber(C.rg_clock_ns()) / 1e9 end

--- Begin.
---@param opts table|nil { device =, every = 1, keep =, tensorboard = folder, total =, trainer =,
---  say = }
-- >> m = ridge.monitor()
-- >> m:record({ custom_metric = 0.95, training_loss = 0.123 }, 100)
-- >> m:summary().metrics.custom_metric.last
function Monitor:init(opts)
  local checked = options.check(SPEC, opts, 'monitor')
  memory.stats(checked.device) -- it is a device; one that began before stays what it was
  self.options = checked
  self.began, self.rows, self.first, self.last = now(), {}, 1, 0
  self.steps, self.step_s, self.least_s, self.most_s = 0, 0, math.huge, 0
  self.timing = 0 -- steps that are under way, one within the other
  self.sums, self.evaluations, self.trainer = {}, {}, self.options.trainer
  self.usage = {} -- sums of what was read of devices: a metric may have the same name
  self.busy, self.counters = usage.read(nil)
  self.asked, self.due = self.began, self.began
  if self.options.tensorboard and worlds.rank() == 0 then -- of several ranks one writes
    self.writer = require('ridge.tensorboard').Writer(self.options.tensorboard)
  end
end

-- -- Recording ----------------------------------------------------------------------------

-- What cannot be written waits in the writer, is told once, and stops nobody's training.
local function write(self, f, ...)
  if not self.writer then return end
  local ok, err = pcall(f, self.writer, ...)
  if ok then
    if self.writer.file.n_waiting == 0 then self.failed = nil end -- else it waits for its write
  elseif blame.is_error(err) and err.code == 'EINTR' then
    error(err, 0)
  else
    local why = tostring(blame.is_error(err) and err.message or err)
    if not self.failed then
      local line = 'monitor: ' .. why
      if not (self.options.say and pcall(self.options.say, line)) then
        io.stderr:write(line, '\n')
      end
    end
    self.failed = why
  end
end

local function add_to(sums, name, value, step)
  local s = sums[name]
  if not s then
    s = { n = 0, sum = 0, min = math.huge, max = -math.huge, not_finite = 0 }
    sums[name] = s
  end
  s.last, s.step = value, step
  if value == value and math.abs(value) < math.huge then
    s.n, s.sum, s.min, s.max = s.n + 1, s.sum + value, math.min(s.min, value),
      math.max(s.max, value)
  else
    s.not_finite = s.not_finite + 1
  end
end

-- What a file's times say nothing of stands in it once, as a curve of that name.
local function scalar(self, tag, value, step)
  if self.writer and not self.played and worlds.simulated() then
    self.played = true
    write(self, self.writer.scalar, worlds.flags(), 1, step)
  end
  if value then write(self, self.writer and self.writer.scalar, tag, value, step) end
end

-- What was read of devices, for TensorBoard and for ridge watch.
local function write_usage(self)
  if self.writer and not self.writer.file.fd then return end -- closed; who looks at it adds nothing
  local step = self.at_step or self.steps
  scalar(self, 'system/memory_mb', memory.stats(self.options.device).live / 2 ^ 20, step)
  scalar(self, 'system/cpu_percent', self.busy.cpu_percent, step)
  scalar(self, 'system/process_percent', self.busy.process_percent, step)
  for _, what in ipairs { 'celsius', 'clock_mhz' } do
    scalar(self, 'system/cpu/' .. what, self.busy[what], step)
  end
  for name, gpu in pairs(self.busy.gpus) do
    for _, what in ipairs { 'percent', 'celsius', 'clock_mhz' } do
      scalar(self, ('system/%s/%s'):format(name, what), gpu[what], step)
    end
  end
end

-- Read how busy devices are where that was long ago: between two pieces of work, so not while a
-- step is timed, whatever is recorded in it.
local function look(self)
  local at = now()
  if self.timing > 0 or at - self.asked < self.options.every then return end
  self.asked = at
  self.busy, self.counters = usage.read(self.counters)
  if self.busy.cpu_percent then add_to(self.usage, 'cpu_percent', self.busy.cpu_percent) end
  for name, gpu in pairs(self.busy.gpus) do
    if gpu.percent then add_to(self.usage, name .. '_percent', gpu.percent) end
  end
  write_usage(self)
end

local OWN = { step = true, seconds = true, flags = true }

local function checked(metrics, at, what)
  if type(metrics) ~= 'table' then
    blame.raise(('%s: a table of numbers is expected, got %s'):format(what, blame.show(metrics)),
      'EARG')
  end
  if at ~= nil -- nan and infinity are none
      and (type(at) ~= 'number' or at % 1 ~= 0 or math.abs(at) > 2 ^ 53) then
    blame.raise(('%s: the step is a whole number up to 2^53, got %s'):format(what,
      blame.show(at)), 'EARG')
  end
  for name, value in pairs(metrics) do
    if OWN[name] then
      blame.raise(('%s: %s is what each row has; call the metric otherwise'):format(what, name),
        'EARG')
    end
    if type(name) ~= 'string' or type(value) ~= 'number' then
      blame.raise(('%s: %s is %s; names and numbers are expected'):format(what, tostring(name),
        blame.show(value)), 'EARG')
    end
  end
end

-- A row of the history, in which numbers of a step are kept.
local function keep(self, metrics, step)
  local row = { step = step, seconds = now() - self.began, flags = worlds.flags() }
  for name, value in pairs(metrics) do
    row[name] = value
    add_to(self.sums, name, value, step)
  end
  self.last = self.last + 1
  self.rows[self.last] = row
  if self.last - self.first >= self.options.keep then
    self.rows[self.first] = nil
    self.first = self.first + 1
  end
  self.at_step = step
end

--- Keep numbers of a step, under any names.
---@param metrics table name to number
---@param at number|nil the step; those taken so far when left out
---@return table self
function Monitor:record(metrics, at)
  checked(metrics, at, 'monitor:record')
  local step, names = at or self.steps, {}
  keep(self, metrics, step)
  for name in pairs(metrics) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do scalar(self, name, metrics[name], step) end
  look(self)
  return self
end

local function took(self, s)
  self.steps, self.step_s = self.steps + 1, self.step_s + s
  self.least_s, self.most_s = math.min(self.least_s, s), math.max(self.most_s, s)
end

local function stepped(self, began, ok, ...)
  local s = now() - began
  self.timing = self.timing - 1
  if not ok then error((...), 0) end
  took(self, s)
  self.at_step = self.steps
  scalar(self, 'step_time', s, self.steps)
  local total = self.options.total
  scalar(self, 'progress', total and math.min(1, self.steps / total), self.steps)
  look(self) -- behind the clock's second reading
  return ...
end

--- Call a function that is a step, and time it; nothing is read of devices meanwhile.
---@param f function
---@param ... any its arguments
---@return any what f returns
function Monitor:step(f, ...)
  if not blame.callable(f) then
    blame.raise('monitor:step: a function is expected, got ' .. blame.show(f), 'EARG')
  end
  self.timing = self.timing + 1
  return stepped(self, now(), pcall(f, ...))
end

-- The steps of a trainer that were not taken yet and whose losses are known; all losses go into the
-- history, and of many at once some into the event file.
local function take(self, trainer)
  local curve = trainer.curve
  local from = self.taken and self.taken.of == curve and self.taken.n or 0
  local before, last = from > 0 and curve[from].seconds or trainer.began_s, from
  while curve[last + 1] and curve[last + 1].loss do last = last + 1 end
  local each = math.max(1, math.ceil((last - from) / LOSSES))
  for i = from + 1, last do
    local at = curve[i]
    took(self, at.seconds - before)
    before = at.seconds
    keep(self, { training_loss = at.loss }, at.step)
    if (last - i) % each == 0 then scalar(self, 'training_loss', at.loss, at.step) end
  end
  self.taken = { of = curve, n = last }
  return last > from and curve[last].step or nil
end

-- How far a trainer is: its epoch, the share of all, rows in a second since this was asked last.
local function write_progress(self, trainer, step)
  local running = trainer.running
  local batches, epochs = running.batches, running.epochs
  scalar(self, 'epoch', running.epoch, step)
  scalar(self, 'progress', batches and epochs
    and math.min(1, (running.epoch - 1 + math.min(1, running.done / batches)) / epochs), step)
  local at = { epoch = running.epoch, rows = running.rows, s = now() - running.aside_s,
    of = trainer }
  local was = self.rated
  if was and was.of == trainer and was.epoch == at.epoch and at.s > was.s then
    scalar(self, 'rows_per_s', (at.rows - was.rows) / (at.s - was.s), step)
  end
  self.rated = at
end

--- Look at a trainer between two of its steps: at the losses of those since the last look, how far
--- it is, and how busy devices are. Not each call looks: a look is a quarter of a second behind the
--- one before, and takes 2 % of the time at most.
---@param trainer table in its `fit`
---@return number s that this took
function Monitor:follow(trainer)
  local began = now()
  if began < self.due then return 0 end
  self.trainer = trainer
  local function look_at()
    local step = take(self, trainer)
    if step then
      self.at_step = step
      write_progress(self, trainer, step)
    end
    look(self)
  end
  if self.writer then write(self, self.writer.together, look_at) else look_at() end
  local s = now() - began
  self.due = began + s + math.max(FOLLOW_S, s / SHARE)
  return s
end

--- Take an epoch of a trainer's: the losses and times of its steps, and its row of the history.
---@param trainer table
---@param row table of Trainer:fit's history
---@return table self
function Monitor:epoch(trainer, row)
  self.trainer = trainer
  local function all()
    take(self, trainer)
    local step = #trainer.curve > 0 and trainer.curve[#trainer.curve].step or self.steps
    self:record({ epoch_loss = row.loss, val_loss = row.val_loss, accuracy = row.accuracy,
      rows_per_s = row.rows_per_s, peak_memory_mb = row.peak_bytes / 2 ^ 20, lr = row.lr }, step)
    local running = trainer.running
    scalar(self, 'epoch', row.epoch, step)
    scalar(self, 'progress', running and running.epochs and row.epoch / running.epochs, step)
  end
  if self.writer then write(self, self.writer.together, all) else all() end
  return self
end

-- -- Accuracy -----------------------------------------------------------------------------

--- Keep the accuracy of an evaluation, and say whether it fell (F161): only where the 95 % interval
--- of the difference to the best one does not hold 0. The best is the one whose interval begins
--- highest: one answer of one says less than 990 of 1000.
---@param hits number right ones
---@param n number out of how many
---@param at number|nil the step; those taken so far when left out
---@return table evaluation accuracy, lo, hi (its 95 % interval), hits, n, step; below the best one
---  before also below, below_lo, below_hi, best_step; fell
-- >> m = ridge.monitor()
-- >> m:accuracy(970, 1000)
function Monitor:accuracy(hits, n, at)
  for name, value in pairs { hits = hits, n = n } do
    if type(value) ~= 'number' or value % 1 ~= 0 or value < 0 then
      blame.raise(('monitor:accuracy: %s is a whole number from 0, got %s'):format(name,
        blame.show(value)), 'EARG')
    end
  end
  if type(hits) ~= 'number' or type(n) ~= 'number' or n < 1 or hits > n then
    blame.raise(('monitor:accuracy: hits are so many out of n, got %s of %s'):format(
      blame.show(hits), blame.show(n)), 'EARG')
  end
  local e = { accuracy = hits / n, hits = hits, n = n, fell = false }
  e.lo, e.hi = proportion.interval(hits, n)
  self:record({ accuracy = e.accuracy, accuracy_lo = e.lo, accuracy_hi = e.hi }, at)
  e.step = self.rows[self.last].step
  local best = self.best
  if best and best.accuracy > e.accuracy then
    e.below, e.best_step = best.accuracy - e.accuracy, best.step
    e.below_lo, e.below_hi = proportion.difference(best.hits, best.n, hits, n)
    e.fell = e.below_lo > 0
  end
  if not best or e.lo >= best.lo then self.best = e end
  self.evaluations[#self.evaluations + 1] = e
  return e
end

-- -- What there is to know ----------------------------------------------------------------

--- The values of a metric, or all rows: the oldest first.
---@param name string|nil a metric's
---@return table rows each step, seconds and the metrics; or step, seconds, value; flags 'SIMULATED'
---  where a program played the network between ranks
---@return number dropped rows that are not kept any more
function Monitor:history(name)
  local out = {}
  for i = self.first, self.last do
    local row = self.rows[i]
    if name == nil then
      out[#out + 1] = row
    elseif row[name] ~= nil and not OWN[name] then
      out[#out + 1] = { step = row.step, seconds = row.seconds, value = row[name],
        flags = row.flags }
    end
  end
  return out, self.first - 1
end

--- Steps, times, memory, how busy devices were, and each metric's last value, mean and range.
---@return table total_steps, total_time, average_step_time, min_step_time, max_step_time (seconds),
---  memory_mb, peak_memory_mb, cpu_percent, process_percent (nil where usage_why says why), gpus,
---  gpu_usage { allocated_mb, reserved_mb } where the device is a GPU, metrics, flags (as of the
---  history)
function Monitor:summary()
  look(self)
  local s, metrics = memory.stats(self.options.device), {}
  local sums = {}
  for name, m in pairs(self.usage) do sums[name] = m end
  for name, m in pairs(self.sums) do sums[name] = m end
  for name, m in pairs(sums) do
    metrics[name] = { last = m.last, step = m.step, n = m.n, not_finite = m.not_finite,
      mean = m.n > 0 and m.sum / m.n or nil, min = m.n > 0 and m.min or nil,
      max = m.n > 0 and m.max or nil }
  end
  local is_gpu = self.options.device ~= 'cpu' and self.options.device ~= 'pinned'
  return { total_steps = self.steps, total_time = now() - self.began,
    average_step_time = self.steps > 0 and self.step_s / self.steps or 0,
    min_step_time = self.least_s < math.huge and self.least_s or 0, max_step_time = self.most_s,
    memory_mb = s.live / 2 ^ 20, peak_memory_mb = s.peak / 2 ^ 20,
    gpu_usage = is_gpu and { allocated_mb = s.live / 2 ^ 20, reserved_mb = s.reserved / 2 ^ 20 }
      or nil,
    cpu_percent = self.busy.cpu_percent, process_percent = self.busy.process_percent,
    usage_why = self.busy.why, gpus = self.busy.gpus, metrics = metrics, flags = worlds.flags() }
end

-- Whoever trains may be watched; a tensor says of a field it lacks that there is none.
local function has_status(trainer)
  local ok, status = pcall(function() return trainer.status end)
  return ok and type(status) == 'function'
end

--- What is switched on: of the trainer that is watched, where there is one.
---@return table config (mixed_precision, compile_enabled ...), steps, rows, dropped, alarms (of
---  memory), tensorboard (the file), failed (why it could not be written)
function Monitor:status()
  local trainer = self.trainer
  local config = trainer and has_status(trainer) and trainer:status().config
    or { mixed_precision = C.rg_autocast() >= 0, compile_enabled = C.rg_capturing() ~= 0 }
  return { config = config, steps = self.steps, rows = self.last - self.first + 1,
    dropped = self.first - 1, alarms = #memory.alarms(),
    tensorboard = self.writer and self.writer.path or nil, failed = self.failed }
end

local function percent(x, why)
  return x and ('%.0f %%'):format(x) or why or 'unavailable'
end

--- Summary, status and metrics as text.
---@return string
function Monitor:report()
  local s, at = self:summary(), self:status()
  local lines = { ('%s, %.1f s: %.4f s a step [%.4f .. %.4f]'):format(
    plain.count(s.total_steps, 'step'), s.total_time, s.average_step_time,
    s.min_step_time, s.max_step_time),
    ('memory %.1f MB, at most %.1f MB'):format(s.memory_mb, s.peak_memory_mb),
    ('processors %s, by this process %s'):format(percent(s.cpu_percent, s.usage_why),
      percent(s.process_percent)) }
  if s.flags then lines[#lines + 1] = worlds.SIMULATED end
  for name, gpu in pairs(s.gpus) do
    lines[#lines + 1] = ('%s %s'):format(name, percent(gpu.percent, gpu.why))
  end
  for _, name in ipairs { 'mixed_precision', 'compile_enabled' } do
    lines[#lines + 1] = ('%s %s'):format(name, tostring(at.config[name]))
  end
  local last = self.evaluations[#self.evaluations]
  if last then
    lines[#lines + 1] = ('accuracy %.4f [%.4f .. %.4f]'):format(last.accuracy, last.lo, last.hi)
      .. (not last.below and '' or last.fell and (', fell since step %d: %.4f below [%.4f .. %.4f]')
        :format(last.best_step, last.below, last.below_lo, last.below_hi)
        or (', %.4f below step %d, which may be chance'):format(last.below, last.best_step))
  end
  if at.dropped > 0 then lines[#lines + 1] = ('%d older rows are not kept'):format(at.dropped) end
  if at.failed then lines[#lines + 1] = 'not written: ' .. at.failed end
  local names, rows = {}, {}
  for name in pairs(s.metrics) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local m = s.metrics[name]
    rows[i] = { name, m.last, m.mean, m.min, m.max, m.n }
  end
  if #rows > 0 then
    lines[#lines + 1] = columns.text({ 'metric', 'last', 'mean', 'least', 'most', 'n' }, rows)
  end
  return table.concat(lines, '\n')
end

Monitor.__tostring = guard.text(function(self) return self:report() end)

--- Write what the event file still waits for, and that the run has ended, and close the file; the
--- history stays.
-- Raises EIO where it cannot be written; then it may be tried again.
function Monitor:close()
  if not self.writer or not self.writer.file.fd then return end
  if not self.told_end then
    self.told_end = true
    write(self, self.writer.ended)
  end
  self.writer:close()
  self.failed = nil
end

M.Monitor = Monitor

return M
