-- SPDX-License-Identifier: MIT
--- Steps that are looked at: what is not finite is dealt with, gradients are clipped, and every
--- step gets a score. The manager of document 001, with its result fields.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local checkpoint = require 'ridge.train.checkpoint'
local class = require('ridge.class').class
local dtype = require 'ridge.tensor.dtype'
local guard = require 'ridge.guard'
local memory = require 'ridge.memory'
local optim = require 'ridge.optim'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local Running = require 'ridge.optim.running'
local shown = require 'ridge.train.shown'

local M = {}

local Stability = class 'Stability'

local SPEC = {
  clip = { 'table', doc = 'options of optim.Clip; no clipping when left out' },
  guard = { 'table', doc = 'options of optim.Guard; detecting alone when left out' },
  loss_checking = { 'boolean', default = true,
    doc = 'a loss that is not finite leaves the step out' },
  history = { 'integer', default = 10000, min = 0, doc = 'rows that are kept, the newest' },
}

--- Look after the steps of an optimizer. Running statistics (batch normalisation) that a batch made
--- nan or infinite go back to what they were, where the optimizer was made of a module, or of its
--- parameters(), and not of tensors alone.
---@param optimizer table one of ridge.optim
---@param opts table|nil {clip = {...}, guard = {...}, loss_checking = true, history = 10000}
-- >> net = ridge.nn.Linear(3, 2):train()
-- >> watch = ridge.Stability(ridge.optim.Adam(net), {guard = {kind = 'skip'}})
function Stability:init(optimizer, opts)
  if type(optimizer) ~= 'table' or type(optimizer.step) ~= 'function' then
    blame.raise('Stability: an optimizer is expected, got ' .. blame.show(optimizer))
  end
  self.options = options.check(SPEC, opts, 'Stability')
  self.optimizer = optimizer
  self.guard = optim.Guard(self.options.guard)
  Running.of(optimizer)
  self.clip = self.options.clip and optim.Clip(self.options.clip)
  self.history, self.steps, self.taken, self.scores = shown.steps {}, 0, 0, 0
end

-- 1 - 0.3 nan - 0.2 inf - 0.1 overflow - 0.1 clipping ratio, at least 0.
local function score(nan, clipping)
  local value = 1
  if nan.nan_detected then value = value - 0.3 end
  if nan.inf_detected then value = value - 0.2 end
  if nan.overflow_detected then value = value - 0.1 end
  return math.max(0, value - 0.1 * (clipping.clipping_ratio or 0))
end

-- Memory where the first parameter is; how much there is at all is asked once.
local function machine(self)
  local device = self.optimizer.groups[1].params[1].device
  if not self.all_bytes then
    local facts = ffi.new 'rg_device_facts'
    call.check(C.rg_device_facts_of(dtype.device(device, 'Stability'), facts))
    self.all_bytes = tonumber(facts.memory_bytes)
  end
  local all, stats = self.all_bytes, memory.stats(device)
  return { memory_usage_percent = all > 0 and 100 * stats.live / all or 0,
    memory_mb = stats.live / 2 ^ 20, peak_memory_mb = stats.peak / 2 ^ 20 }
end

-- A loss that is nan or infinite: gradients made from it are not looked at.
local function bad_loss(self, loss)
  if loss ~= nil and type(loss) ~= 'number' and not ref.is(loss) then
    blame.raise(('Stability:step: a loss is a number or a tensor of one, got %s'):format(
      blame.show(loss)), 'EARG')
  end
  if loss == nil or not self.options.loss_checking then
    return false, type(loss) == 'number' and loss or nil
  end
  local value = ref.is(loss) and loss:item() or loss
  return value ~= value or math.abs(value) == math.huge, value
end

--- Deal with the accumulated gradients, and take the step unless it is to be left out.
---@param loss Tensor|number|nil looked at first, if given
---@return table result nan_stats (see optim.Guard), clipping_stats (see optim.Clip),
---  stability_score, performance_metrics (memory_usage_percent, memory_mb, peak_memory_mb,
---  step_ms), stepped, loss
function Stability:step(loss)
  local began = tonumber(C.rg_clock_ns())
  local bad, value = bad_loss(self, loss)
  local nan
  local clipping = {}
  local stepped = false
  if bad then
    Running.of(self.optimizer):settle()
    nan = { nan_detected = value ~= value, inf_detected = value == value,
      overflow_detected = false, handling_action = 'skipped', step = false,
      total_nan = self.guard.totals.nan,
      total_inf = self.guard.totals.inf, total_overflow = self.guard.totals.overflow }
  else
    nan = self.guard:apply(self.optimizer)
    if nan.step then
      if self.clip then clipping = self.clip:apply(self.optimizer) end
      self.optimizer:step()
      stepped = true
    end
  end
  self.steps, self.taken = self.steps + 1, self.taken + (stepped and 1 or 0)
  local result = { nan_stats = nan, clipping_stats = clipping, stepped = stepped, loss = value,
    stability_score = score(nan, clipping), performance_metrics = machine(self) }
  result.performance_metrics.step_ms = (tonumber(C.rg_clock_ns()) - began) / 1e6
  self.scores = self.scores + result.stability_score
  if self.options.history > 0 then
    while #self.history >= self.options.history do table.remove(self.history, 1) end
    self.history[#self.history + 1] = { step = self.steps, loss = value, stepped = stepped,
      gradient_norm = clipping.gradient_norm, clipped_norm = clipping.clipped_norm,
      clipping_ratio = clipping.clipping_ratio, nan = nan.nan, inf = nan.inf,
      overflow = nan.overflow, action = nan.handling_action, score = result.stability_score }
  end
  return result
end

--- Steps seen and taken, and what was found in all.
---@return table {steps, taken, total_nan, total_inf, total_overflow, mean_score}
function Stability:summary()
  local t = self.guard.totals
  return { steps = self.steps, taken = self.taken, total_nan = t.nan, total_inf = t.inf,
    total_overflow = t.overflow, mean_score = self.steps > 0 and self.scores / self.steps or 1 }
end

--- The histories of clipping and of what was not finite, as a picture.
---@param opt table|nil device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function Stability:plot(opt)
  return require('ridge.plot').draw('stability', self.history, opt)
end

local COUNT = { 'integer', required = true, min = 0, doc = 'steps' }
local STATE = {
  steps = COUNT, taken = COUNT,
  guard = { 'table', required = true, doc = 'what optim.Guard remembers' },
  clip = { 'table', doc = 'what optim.Clip remembers' },
  history = { 'table', required = true, doc = 'rows' },
  scores = { 'number', min = 0, doc = 'sum of the scores of all steps' },
}

--- What it remembers.
---@return table state steps, taken, scores, history, guard (see optim.Guard), clip (see optim.Clip)
function Stability:state()
  return { steps = self.steps, taken = self.taken, scores = self.scores, history = self.history,
    guard = self.guard:state(), clip = self.clip and self.clip:state() or nil }
end

--- Take what another one remembered.
---@param state table as `state` gives it
---@return table self
function Stability:load_state(state)
  local what = 'Stability:load_state'
  state = options.check(STATE, state, what)
  local history, sum, n = {}, 0, #state.history
  local before_those_kept = math.max(0, n - self.options.history)
  for i, row in ipairs(state.history) do
    if type(row) ~= 'table' or type(row.score) ~= 'number' then
      blame.raise(('%s: row %d of the history is none'):format(what, i), 'EARG')
    end
    sum = sum + row.score
    if i > before_those_kept then
      local own = {}
      for name, value in pairs(row) do own[name] = value end
      history[#history + 1] = own
    end
  end
  local before = self.clip and state.clip and checkpoint.still(self.clip:state())
  if before then self.clip:load_state(state.clip) end
  local ok, err = pcall(self.guard.load_state, self.guard, state.guard)
  if not ok then
    if before then self.clip:load_state(before) end
    error(err, 0)
  end
  self.steps, self.taken, self.history = state.steps, state.taken, shown.steps(history)
  self.optimizer.statistics = nil
  Running.of(self.optimizer) -- of the module as it is now, which was loaded too
  -- a file of an older ridge has the rows alone
  self.scores = state.scores or (n > 0 and sum / n or 1) * state.steps
  return self
end

function Stability:__tostring()
  return ('Stability(%s, %s; %d of %d steps taken)'):format(tostring(self.guard),
    self.clip and tostring(self.clip) or 'no clipping', self.taken, self.steps)
end
Stability.__tostring = guard.text(Stability.__tostring)

M.Stability = Stability

return M
