-- SPDX-License-Identifier: MIT
--- What is wrong with a measurement, and the grade that follows.
--
-- A flag never changes a number and never drops a sample: it is stored beside it.  Grade A is
-- precise and clean, B has a peculiar distribution, C must not be leaned on, D cannot be trusted
-- at all and takes part in no verdict.  The same samples get the same grade on every machine: no
-- calibration moves a limit.
--
-- What the machine did meanwhile (FOREIGN, PRESSURE, STEAL, FREQ, SENTINEL) costs the rounds it
-- fell on, not the point: it is D only where too few other rounds are left and the interval does
-- not hold it.

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
  { 'SIMULATED', 'D', 'a program played a device or a network: the time says nothing of any' },
  { 'WAITED', 'B', 'the device waited for the host between calls' },
  { 'TRAINING', 'B', 'a module in training mode, and no backward pass: eval() is for running' },
  { 'REDUCED', 'B', 'a plan that leaves out over 1 % of the operations that were recorded' },
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

-- What the machine did meanwhile.
local OUTSIDE = { 'FOREIGN', 'PRESSURE', 'STEAL', 'FREQ', 'SENTINEL' }

--- Rounds that nothing disturbed, and which are enough to be graded by.
M.UNDISTURBED = 5

--- What excuses a point from flags of the machine.
---@param undisturbed integer  rounds that nothing disturbed
---@param held table           names of flags whose effect the interval holds, as keys
---@return table excused       by name 'spared' or 'held', see M.grade
function M.excused(undisturbed, held)
  local excused = {}
  for _, name in ipairs(OUTSIDE) do
    excused[name] = undisturbed >= M.UNDISTURBED and 'spared' or held[name] and 'held' or nil
  end
  return excused
end

--- The grade that some flags lead to: the worst of them, A without any.
---@param names string[]
---@param excused table|nil  flags that are 'spared' (they do not count) or 'held' (the interval
---  holds what they say: C at most), by name
---@return string grade      'A', 'B', 'C' or 'D'
function M.grade(names, excused)
  local worst = 'A'
  for _, name in ipairs(names) do
    local how, grade = excused and excused[name], BY_NAME[name].grade
    if how == 'held' and grade == 'D' then grade = 'C' end
    if how ~= 'spared' and grade > worst then worst = grade end
  end
  return worst
end

-- A pass is too short to settle or to show an order, and what the machine did in it is in the
-- interval between passes.
local IN_PASSES = { UNSTEADY = 'spared', DRIFT = 'spared', ORDER = 'spared', IMPRECISE = 'spared' }
for _, name in ipairs(OUTSIDE) do IN_PASSES[name] = 'spared' end

--- Flags and grade of a point measured in passes: the width of its interval decides, and what was
--- wrong in half of its passes at least.
---@param lists string[][]   flags of each pass
---@param half number|nil    half-width of the interval between passes; nil when there is none
---@param target number      the precision asked for
---@return string[] names    of any pass, and IMPRECISE; in the order of their bits
---@return string grade
-- >> flags.of_passes({ {}, { 'FOREIGN' }, {}, {}, {} }, 0.01, 0.02) --> { 'FOREIGN' }, 'A'
function M.of_passes(lists, half, target)
  local count, names, frequent = {}, {}, {}
  for _, list in ipairs(lists) do
    for _, name in ipairs(list) do count[name] = (count[name] or 0) + 1 end
  end
  local wide = not half or half > target
  count.IMPRECISE = wide and #lists or nil
  for _, flag in ipairs(LIST) do
    local name = flag[1]
    if count[name] then
      names[#names + 1] = name
      if 2 * count[name] >= #lists then frequent[#frequent + 1] = name end
    end
  end
  local grade = M.grade(frequent, IN_PASSES)
  if wide and grade < 'C' then grade = 'C' end
  return names, grade
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

-- First guesses and other harnesses' numbers (measurement rules of torch, nvbench, Barrett et al.
-- 2017).  They are absolute: raised to the noise of the machine, as once, they made an A of an
-- interval of 22 %.
local LIMITS = {
  wide = 0.10,          -- IQR / median
  gross = 0.25,
  steady = 0.01,        -- spread of three warm-up windows
  drift = 0.02,         -- Theil-Sen slope x duration / median
  sentinel = 0.02,      -- shift of the reference work
  freq = 0.03,          -- spread of the clock inside a point
  clock_shift = 0.05,   -- of the clock against calibration
  steal = 0.005,        -- share of the processors' time
  foreign = 0.05,       -- share of the processors
  pressure = 0.02,      -- share of the time
  autocorr = 0.3,
  mode_variance = 0.8, mode_share = 0.1,
  switched = 0.1,       -- share of the samples
  drift_p = 0.01, order_p = 0.01, order = 0.02,
  roof = 0.05,
  sustained = 0.75,     -- of a device's calibrated clock: below it, it was held back
  waited = 0.9,         -- share of the device's time in which the host was still asking
}

--- The limits that flags are judged by: the same on every machine.
---@return table limits  a copy
function M.thresholds()
  local limits = {}
  for name, value in pairs(LIMITS) do limits[name] = value end
  return limits
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
---  reduced (a plan lost over 1 % of its operations to passes); what is nil or NaN raises nothing
---@param limits table  from thresholds
---@return string[] names  in the order of their bits; SHARED is raised by who lets others work
function M.judge(facts, limits)
  local raised = {
    WIDE = above(facts.iqr, limits.wide) and not above(facts.iqr, limits.gross),
    GROSS = above(facts.iqr, limits.gross),
    IMPRECISE = above(facts.half, facts.target or 0),
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
      or above(facts.clock_shift and math.abs(facts.clock_shift), limits.clock_shift),
    THROTTLE = above(facts.throttled, 0) or above(facts.held, 0)
      or facts.sustained ~= nil and facts.sustained < limits.sustained,
    SENTINEL = above(facts.sentinel and math.abs(facts.sentinel), limits.sentinel),
    ORDER = above(facts.order, limits.order) and facts.order_p < limits.order_p,
    ROOF = above(facts.roof, 1 + limits.roof),
    DEBUG = facts.debug, LUA = facts.lua, ZEROS = facts.zeros,
    AA_FAIL = facts.aa_fail, SIMULATED = facts.simulated,
    WAITED = above(facts.waited, limits.waited), TRAINING = facts.training,
    REDUCED = facts.reduced,
  }
  local names = {}
  for _, flag in ipairs(LIST) do
    if raised[flag[1]] then names[#names + 1] = flag[1] end
  end
  return names
end

return M
