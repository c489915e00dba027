-- SPDX-License-Identifier: MIT
--- One point of a sweep as its recipe sees it: the `m` of `measure(p, c, m)`.
--
-- Nothing is timed while the recipe's function runs. It says what is to be timed, and the plans of
-- a whole block of points are timed together afterwards, their rounds shuffled, so that a drift of
-- the machine does not fall on one point alone.

local blame = require 'ridge.blame'
local options = require 'ridge.options'
local record = require 'ridge.store.record'
local schema = require 'ridge.store.schema'

local M = {}

local Point = {}
Point.__index = Point

-- Raised by m:peak when nobody looked at the memory before the setup: the point begins again.
M.LOOK_FIRST = setmetatable({}, { __tostring = function() return 'memory was not looked at' end })

-- Raised by m:infeasible to leave the recipe's function.
local Infeasible = { __tostring = function(e) return 'infeasible: ' .. e.reason end }

-- What else a phase puts beside its timing columns.
local DERIVED = { '_first', '_cold', '_cold_lo', '_cold_hi', '_cold_between_minutes', '_flops',
  '_bytes', '_gflops', '_gbps', '_peak_bytes', '_host_ns', '_issue_ns', '_device_ns',
  '_device_mhz', '_memory_mhz', '_celsius', '_watts', '_held_share', '_held_before', '_held_after',
  '_by_pass', '_recorded_flops', '_left_out' }

local TIME = { zeros = { 'boolean', doc = 'the inputs are constant, which some machines notice' } }
local COST = {
  flops = { 'number', min = 0 }, bytes = { 'number', min = 0 },
  sign_flops = { 'number', min = 0, doc = 'flops of them that multiply by fixed signs' },
  dtype = { 'string', doc = 'type the arithmetic is done in: which ceiling it is held against' },
}
local METRIC = { unit = { 'string' }, better = { 'string', choices = { 'lower', 'higher' } },
  how = { 'string', choices = { 'model' }, doc = 'predicted, not measured' } }
local BETTER = { lower = -1, higher = 1 }

--- A point before its recipe has seen it.
---@param params table
---@param lab table ridge.sweep.lab
---@param live_before number|nil bytes live before its setup; nil when nobody looked
---@param pass integer|nil number of the pass, for recipes: what is the same in all is done in 1
---@return table point
function M.new(params, lab, live_before, pass)
  local self = setmetatable({ lab = lab, live_before = live_before, phases = {}, by_phase = {},
    metrics = {}, curves = {}, taken = {}, pass = pass or 1 }, Point)
  for _, name in ipairs(schema.FIXED) do self.taken[name] = 'a field of every row' end
  for name in pairs(params) do self.taken[name:lower()] = 'a parameter' end
  return self
end

-- Rows are flat: two things of one name would hide each other.
local function take(self, name, what)
  local taken = self.taken[name:lower()]
  if taken then
    blame.raise(('%s: the name %q is taken by %s'):format(what, name, taken), 'EARG', what)
  end
  self.taken[name:lower()] = what == 'm:metric' and 'another metric' or 'a phase'
end

local function phase_of(self, name, what)
  if type(name) ~= 'string' or not name:find '^[%a_][%w_]*$' then
    blame.raise(('%s: a phase is named by letters, digits and "_", not %s'):format(what,
      type(name) == 'string' and ('%q'):format(name) or type(name)), 'EARG', what)
  end
  local phase = self.by_phase[name]
  if not phase then
    for _, pair in ipairs(schema.PHASE_COLUMNS) do take(self, name .. pair[1], what) end
    for _, suffix in ipairs(DERIVED) do take(self, name .. suffix, what) end
    phase = { name = name }
    self.by_phase[name] = phase
    self.phases[#self.phases + 1] = phase
  end
  return phase
end

-- What a plan knows of one replay. One that computes nothing, a copy say, has no operations to give
-- a rate of; a function knows nothing.
local function known_cost(plan)
  if type(plan) ~= 'table' or type(plan.facts) ~= 'function' then return {} end
  local facts = plan:facts()
  return { flops = facts.flops > 0 and facts.flops or nil,
           bytes = facts.bytes > 0 and facts.bytes or nil, recorded = facts.recorded }
end

--- Time a plan under a name. Its operations and bytes are kept beside the time, as `fwd_flops` and
-- `fwd_bytes`: a plan counts each of its calls, all they read and write. m:cost replaces either.
-- Where ridge.capture left calls out, `fwd_left_out` is how many, and `fwd_recorded_flops` what all
-- of them would have been.
-- >> m:time('fwd', ridge.capture(function() return c.net(c.x) end))
---@param phase string
---@param plan table from ridge.capture
---@param opt table|nil zeros: the inputs are constant (flagged ZEROS)
function Point:time(phase, plan, opt)
  opt = options.check(TIME, opt, 'm:time')
  if plan == nil then
    blame.raise(('m:time: no plan for the phase %s'):format(tostring(phase)), 'EARG', 'm:time')
  end
  local entry = phase_of(self, phase, 'm:time')
  if entry.plan ~= nil then
    blame.raise(('m:time: the phase %s has a plan already'):format(phase), 'EARG', 'm:time')
  end
  entry.known = known_cost(plan)
  entry.plan, entry.zeros = plan, opt.zeros
end

--- What one call of a phase costs at best, in place of what its plan counts; with the time it gives
-- `fwd_gflops` and `fwd_gbps`.
-- >> m:cost('fwd', { flops = 2 * n * k, bytes = 4 * (n + k), dtype = 'f32' })
---@param phase string
---@param cost table flops, sign_flops (those of them that multiply by fixed signs), bytes, dtype;
---  all optional
function Point:cost(phase, cost)
  cost = options.check(COST, cost, 'm:cost')
  local entry = phase_of(self, phase, 'm:cost')
  entry.flops, entry.bytes = cost.flops or entry.flops, cost.bytes or entry.bytes
  entry.dtype = cost.dtype or entry.dtype
  entry.sign_flops = cost.sign_flops or entry.sign_flops
end

--- Keep a number of this point.
-- >> m:metric('rel_err', 0.03, { better = 'lower' })
---@param name string
---@param value number NaN is kept as such
---@param opt table|nil unit (text), better 'lower' or 'higher', how ('model': it is predicted, and
---  takes part in nothing that is decided)
function Point:metric(name, value, opt)
  opt = options.check(METRIC, opt, 'm:metric')
  if type(name) ~= 'string' or name == '' or name:find '[%c"]' or #name > 60 then
    blame.raise(('m:metric: %s cannot be the name of a metric'):format(tostring(name)), 'EARG',
      'm:metric')
  end
  if type(value) ~= 'number' then
    blame.raise(('m:metric: %s is %s (%s); expected a number'):format(name, tostring(value),
      type(value)), 'EARG', 'm:metric')
  end
  take(self, name, 'm:metric')
  self.metrics[#self.metrics + 1] = { name = name, value = value, unit = opt.unit,
    better = BETTER[opt.better], how = opt.how }
end

--- Keep a value over the steps of a training: `Trainer.curve`, or a list of your own.
-- >> m:curve('loss', trainer.curve)
---@param name string
---@param list table rows with step (1, 2, ...), seconds trained until then, and the value under
---  the curve's name
function Point:curve(name, list)
  if type(name) ~= 'string' or not name:find '^[%a_][%w_]*$' then
    blame.raise(('m:curve: %s cannot be the name of a curve'):format(tostring(name)), 'EARG',
      'm:curve')
  end
  if type(list) ~= 'table' or #list == 0 then
    blame.raise(('m:curve: %s has no steps'):format(name), 'EARG', 'm:curve')
  end
  for _, c in ipairs(self.curves) do
    if c.name == name then
      blame.raise(('m:curve: there is a curve %s already'):format(name), 'EARG', 'm:curve')
    end
  end
  local points, last = {}, 0
  for i, row in ipairs(list) do
    local known = type(row) == 'table'
    local step, value = known and row.step or i, known and row[name]
    local seconds = known and row.seconds
    if type(value) ~= 'number' or type(seconds) ~= 'number' or type(step) ~= 'number'
      or not (step > last and step < math.huge and math.abs(seconds) < math.huge) then
      blame.raise(('m:curve: row %d of %s wants a rising step, seconds and %s'):format(i, name,
        name), 'EARG', 'm:curve')
    end
    last = step
    points[i] = { step = step, value = value, t_ns = math.floor(seconds * 1e9) }
  end
  self.curves[#self.curves + 1] = { name = name, points = points }
end

--- Peak memory of a phase, in a pass of its own: everything this point holds, and what the function
--- needs on top at its highest. Kept as `fwd_peak_bytes`.
-- >> local bytes = m:peak('fwd', function() return c.net(c.x) end)
---@param phase string
---@param fn function run once
---@return number bytes
function Point:peak(phase, fn)
  if type(fn) ~= 'function' then
    blame.raise(('m:peak: expected a function, got %s'):format(type(fn)), 'EARG', 'm:peak')
  end
  local entry = phase_of(self, phase, 'm:peak')
  if not self.live_before then error(M.LOOK_FIRST, 0) end
  -- other points of the block are alive too: only what was added since this one began is its own
  local own = self.lab.live_bytes() - self.live_before
  entry.peak = math.max(own + self.lab.peak_above(fn), 0)
  return entry.peak
end

--- Say that this point cannot exist, and leave. It is kept with the reason, and is no failure.
-- >> m:infeasible 'equal bytes would need more than full rank'
---@param reason string
function Point.infeasible(_, reason)
  if type(reason) ~= 'string' or reason == '' then
    blame.raise('m:infeasible: say the reason', 'EARG', 'm:infeasible')
  end
  error(setmetatable({ reason = reason }, Infeasible), 0)
end

--- The reason, when an error came from m:infeasible.
---@param err any
---@return string|nil reason
function M.infeasible(err) return getmetatable(err) == Infeasible and err.reason or nil end

-- After the timing ----------------------------------------------------------------------------

--- The plans to be timed.
---@param label string what the point is called
---@return table points what ridge.measure.block takes; a plan's own count of bytes is no cause for
---  ROOF, because it counts what never crosses memory too (an axis that is expanded, a fused chain)
function Point:plans(label)
  local out = {}
  for _, phase in ipairs(self.phases) do
    if phase.plan ~= nil then
      out[#out + 1] = { plan = phase.plan, label = label .. ' ' .. phase.name,
        zeros = phase.zeros, device = type(phase.plan) == 'function' and self.lab.device or nil,
        cost = { flops = phase.flops or phase.known.flops, bytes = phase.bytes,
                 sign_flops = phase.sign_flops, dtype = phase.dtype } }
    end
  end
  return out
end

local function add(list, name, value, unit, better, how)
  list[#list + 1] = { name = name, value = value, unit = unit, better = better, how = how }
end

local function phase_metrics(list, phase, med)
  local name, known = phase.name, phase.known or {}
  local flops, bytes = phase.flops or known.flops, phase.bytes or known.bytes
  local function from(key) return phase[key] and 'cost' or 'plan' end
  if flops then add(list, name .. '_flops', flops, 'flop', nil, from 'flops') end
  if phase.sign_flops then
    add(list, name .. '_sign_flops', phase.sign_flops, 'flop', nil, 'cost')
  end
  if bytes then add(list, name .. '_bytes', bytes, 'byte', nil, from 'bytes') end
  if known.recorded and known.recorded.left_out > 0 then
    add(list, name .. '_left_out', known.recorded.left_out, 'calls', nil, 'plan')
    add(list, name .. '_recorded_flops', known.recorded.flops, 'flop', nil, 'plan')
  end
  if phase.peak then add(list, name .. '_peak_bytes', phase.peak, 'byte', -1, 'allocator') end
  -- per nanosecond is giga per second
  if flops and med then
    add(list, name .. '_gflops', flops / med, 'GFLOP/s', 1, 'flops/median')
  end
  if bytes and med then
    add(list, name .. '_gbps', bytes / med, 'GB/s', 1, 'bytes/median')
  end
end

-- What a device said beside the time: by its clock and by the host's, and how it was.
local function device_metrics(list, name, result)
  if not result or not result.device then return end
  local function put(suffix, value, unit, how)
    if value then add(list, name .. suffix, value, unit, nil, how) end
  end
  local state = result.state or {}
  local before, after = state.before or {}, state.after or {}
  put('_device_ns', result.device_ns, 'ns', 'device events')
  put('_issue_ns', result.issue_ns, 'ns', 'host clock, until the calls had returned')
  put('_host_ns', result.host_ns, 'ns', 'host clock, until the device was through')
  put('_device_mhz', result.clock_mhz, 'MHz', 'nvml, while it worked')
  put('_held_share', result.held, '1', 'nvml, while it worked')
  put('_held_before', before.held, 'bits', 'nvml')
  put('_held_after', after.held, 'bits', 'nvml')
  put('_memory_mhz', after.memory_mhz, 'MHz', 'nvml, after')
  put('_celsius', after.celsius, 'C', 'nvml, after')
  put('_watts', after.watts, 'W', 'nvml, after')
end

--- What the point came to, ready to be stored.
---@param results table|nil of ridge.measure.block, in the order of plans(); nil before any timing
---@return table outcome timings, metrics, grade, flags, peak
function Point:outcome(results)
  local out = { timings = {}, metrics = {}, curves = self.curves, flags = '', peak = nil }
  local flags, i = {}, 0
  for _, phase in ipairs(self.phases) do
    local result
    if results and phase.plan ~= nil then
      i = i + 1
      result = results[i]
      for _, timing in ipairs { result, result.cold } do
        out.timings[#out.timings + 1] = { phase = phase.name, result = timing }
        for _, flag in ipairs(timing.flags or {}) do flags[flag] = true end
        if timing.grade and (not out.grade or timing.grade > out.grade) then
          out.grade = timing.grade
        end
      end
    end
    phase_metrics(out.metrics, phase, result and result.med)
    device_metrics(out.metrics, phase.name, result)
    out.peak = phase.peak and math.max(out.peak or 0, phase.peak) or out.peak
  end
  for _, metric in ipairs(self.metrics) do out.metrics[#out.metrics + 1] = metric end
  if self.simulated then -- what it keeps was made over a program that plays a network
    flags.SIMULATED, out.grade = true, 'D'
  end
  local names = {}
  for flag in pairs(flags) do names[#names + 1] = flag end
  out.flags = record.flags(names)
  return out
end

return M
