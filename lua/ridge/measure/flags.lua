-- SPDX-License-Identifier: MIT
--- What is wrong with a measurement, and the grade that follows.
--
-- A flag never changes a number and never drops a sample: it is stored beside it.  Grade A is
-- precise and clean, B has a peculiar distribution, C must not be leaned on, D was disturbed from
-- outside and takes part in no verdict.

local blame = require 'ridge.blame'

local M = {}

-- The place in this list is the flag's bit in flag_bits, so new ones go to the end.
local LIST = {
  { 'WIDE', 'B', 'the middle half of the samples is wide' },
  { 'GROSS', 'C', 'the middle half of the samples is very wide' },
  { 'IMPRECISE', 'C', 'the interval is wider than the precision asked for' },
  { 'UNSTEADY', 'C', 'the warm-up never settled' },
  { 'DRIFT', 'C', 'the time rose or fell over the rounds' },
  { 'AUTOCORR', 'B', 'neighbouring samples resemble each other' },
  { 'MODES', 'B', 'the samples fall into two clusters' },
  { 'SWITCHED', 'B', 'the system took the processor away in many samples' },
  { 'FOREIGN', 'D', 'other processes used the processors' },
  { 'PRESSURE', 'D', 'tasks waited for a processor' },
  { 'STEAL', 'D', 'the hypervisor ran others' },
  { 'FREQ', 'D', 'the clock changed' },
  { 'THROTTLE', 'D', 'the quota of this process group was used up, or the device was held back' },
  { 'SENTINEL', 'D', 'work that never changes took another time' },
  { 'ORDER', 'C', 'the time depends on what ran before' },
  { 'ROOF', 'D', 'faster than the machine can be: a count is wrong' },
  { 'DEBUG', 'D', 'a debug build, or a debugger' },
  { 'LUA', 'C', 'Lua ran inside the timed region' },
  { 'ZEROS', 'C', 'the inputs are constant' },
  { 'SHARED', 'D', 'other timed work ran on this machine' },
  { 'AA_FAIL', 'D', 'a candidate differed from itself' },
  { 'SIMULATED', 'D', 'a program played the device: the time says nothing of any GPU' },
  { 'WAITED', 'B', 'the device waited for the host between calls' },
  { 'TRAINING', 'B', 'a module in training mode, and no backward pass: eval() is for running' },
}

local BY_NAME = {}
for i, flag in ipairs(LIST) do
  BY_NAME[flag[1]] = { name = flag[1], grade = flag[2], text = flag[3], bit = 2 ^ (i - 1) }
end

--- Name, grade, text and bit of a flag; nil when there is no such flag.
---@param name string
---@return table|nil
function M.describe(name)
  return BY_NAME[name]
end

--- All names, in the order of their bits.
---@return string[]
function M.names()
  local names = {}
  for i, flag in ipairs(LIST) do names[i] = flag[1] end
  return names
end

--- The grade that some flags lead to: the worst of them, A without any.
--
-- What the interval already holds disturbs nobody's verdict: such a flag counts as C at most.
---@param names string[]
---@param held table|nil  names of flags whose effect the interval holds, as keys
---@return string grade   'A', 'B', 'C' or 'D'
function M.grade(names, held)
  local worst = 'A'
  for _, name in ipairs(names) do
    local grade = BY_NAME[name].grade
    if grade == 'D' and held and held[name] then grade = 'C' end
    if grade > worst then worst = grade end
  end
  return worst
end

--- Flags as one number.
---@param names string[]
---@return number bits
function M.bits(names)
  local sum = 0
  for _, name in ipairs(names) do sum = sum + BY_NAME[name].bit end
  return sum
end

--- The names in one number.
---@param bits number
---@return string[] names
function M.from_bits(bits)
  if type(bits) ~= 'number' then
    blame.raise(('measure.flags_from_bits: a number is expected, got %s'):format(blame.show(bits)))
  end
  local names = {}
  for i, flag in ipairs(LIST) do
    if math.floor(bits / 2 ^ (i - 1)) % 2 == 1 then names[#names + 1] = flag[1] end
  end
  return names
end

-- -- Thresholds -----------------------------------------------------------------

-- Without a calibration: first guesses and other harnesses' numbers (measurement rules of torch,
-- nvbench, Barrett et al. 2017).  A calibration raises them to `margin` times its noise: it sees a
-- few seconds of a machine that is then used for minutes (on the development guest the reference
-- work moved by 2 % in the first and by 8 % in the second).  `cap` is how far: a machine that is
-- worse than that is disturbed, however used to it one is.
local FIXED = {
  wide = { 0.10, margin = 1, cap = 0.30 },      -- IQR / median
  steady = { 0.01, margin = 1, cap = 0.10 },    -- spread of three warm-up windows
  precision = { 0, margin = 1, cap = 0.10 },    -- instead of what the protocol asks for
  drift = { 0.02, margin = 2, cap = 0.15 },     -- Theil-Sen slope x duration / median
  sentinel = { 0.02, margin = 2, cap = 0.20 },  -- shift of the reference work
  freq = { 0.03, margin = 2, cap = 0.25 },      -- spread of the clock inside a point
  steal = { 0.005, margin = 2, cap = 0.10 },    -- share of the processors' time
  pressure = { 0.02, margin = 2, cap = 0.10 },  -- share of the time
}

-- Not the machine's nature, so no calibration moves them.
local ALWAYS = {
  gross = 2.5,          -- times wide
  autocorr = 0.3,
  mode_variance = 0.8, mode_share = 0.1,
  switched = 0.1,       -- share of the samples
  foreign = 0.05,       -- share of the processors
  clock_shift = 0.05,   -- of the clock against calibration, beyond its own spread
  drift_p = 0.01, order_p = 0.01, order = 0.02,
  roof = 0.05,
  sustained = 0.75,     -- of a device's calibrated clock: below it, it was held back
  waited = 0.9,         -- share of the device's time in which the host was still asking
}

--- The limits that flags are judged by.
--
-- A calibration (ridge.measure.calibrate) raises a limit to the machine's own noise, so that a
-- shared guest gets wide intervals and not a flag everywhere; it never lowers one.
---@param noise table|nil  the measured noise by name, from a calibration
---@return table limits    with how = 'calibrated' or 'fixed'
function M.thresholds(noise)
  local limits = { how = noise and 'calibrated' or 'fixed' }
  for name, value in pairs(ALWAYS) do limits[name] = value end
  for name, rule in pairs(FIXED) do
    local own = noise and noise[name] or 0
    limits[name] = math.min(math.max(rule[1], rule.margin * own), rule.cap)
  end
  limits.gross = limits.wide * ALWAYS.gross
  return limits
end

--- The flags whose effect the interval of a calibrated point holds: it reaches to what the point
-- would take at the reference speed, so a moved machine makes it wide, not wrong.  Beyond the caps
-- the machine is disturbed all the same.
---@param facts table     as in judge
---@param limits table    from thresholds
---@return table held     names as keys; empty without a calibration
function M.held(facts, limits)
  if limits.how ~= 'calibrated' then return {} end
  local function within(value, cap) return value == nil or math.abs(value) <= cap end
  return {
    SENTINEL = within(facts.sentinel, FIXED.sentinel.cap),
    FREQ = within(facts.freq, FIXED.freq.cap) and within(facts.clock_shift, FIXED.freq.cap),
  }
end

-- -- Judging -------------------------------------------------------------------

local function above(value, limit)
  return value ~= nil and value > limit   -- false for NaN: a hidden signal raises nothing
end

--- Why tasks waited: 'quota' (our own group was held back), 'hypervisor' (with steal), 'own'
--- (nobody else ran: more threads than processors) or 'neighbour'.
---@param facts table  throttled, steal, foreign as in judge
---@param limits table
---@return string cause
function M.pressure_cause(facts, limits)
  if above(facts.throttled, 0) then return 'quota' end
  if above(facts.steal, limits.steal) then return 'hypervisor' end
  if facts.foreign and facts.foreign <= limits.foreign then return 'own' end
  return 'neighbour'
end

--- The flags of one point.
---@param facts table  iqr (over the median), half, target, steady, drift, drift_p, r1,
---  mode_variance, mode_share, marked, foreign, pressure, steal, throttled, freq, clock_shift,
---  sentinel, order_p, order, roof (rate over ceiling), debug, lua, zeros, aa_fail; of a device
---  held (share of the samples), sustained (its clock over the calibrated one), waited (the host's
---  time to ask over the device's), simulated; training (a module's mode, without a backward pass);
---  what is nil or NaN raises nothing
---@param limits table  from thresholds
---@return string[] names  in the order of their bits; SHARED is raised by who lets others work
function M.judge(facts, limits)
  local raised = {
    WIDE = above(facts.iqr, limits.wide) and not above(facts.iqr, limits.gross),
    GROSS = above(facts.iqr, limits.gross),
    IMPRECISE = above(facts.half, math.max(facts.target or 0, limits.precision)),
    UNSTEADY = facts.steady == false,
    DRIFT = above(facts.drift and math.abs(facts.drift), limits.drift)
      and facts.drift_p < limits.drift_p,
    AUTOCORR = above(facts.r1, limits.autocorr),
    MODES = above(facts.mode_variance, limits.mode_variance)
      and above(facts.mode_share, limits.mode_share),
    SWITCHED = above(facts.marked, limits.switched),
    FOREIGN = above(facts.foreign, limits.foreign),
    PRESSURE = above(facts.pressure, limits.pressure),
    STEAL = above(facts.steal, limits.steal),
    FREQ = above(facts.freq, limits.freq)
      or above(facts.clock_shift and math.abs(facts.clock_shift),
               math.max(limits.clock_shift, limits.freq)),
    THROTTLE = above(facts.throttled, 0) or above(facts.held, 0)
      or facts.sustained ~= nil and facts.sustained < limits.sustained,
    SENTINEL = above(facts.sentinel and math.abs(facts.sentinel), limits.sentinel),
    ORDER = above(facts.order, limits.order) and facts.order_p < limits.order_p,
    ROOF = above(facts.roof, 1 + limits.roof),
    DEBUG = facts.debug, LUA = facts.lua, ZEROS = facts.zeros,
    AA_FAIL = facts.aa_fail, SIMULATED = facts.simulated,
    WAITED = above(facts.waited, limits.waited), TRAINING = facts.training,
  }
  local names = {}
  for _, flag in ipairs(LIST) do
    if raised[flag[1]] then names[#names + 1] = flag[1] end
  end
  return names
end

return M
