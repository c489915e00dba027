-- SPDX-License-Identifier: MIT
--- Which of two candidates is faster: paired blocks, an A/A control beside them, several processes,
--- and a verdict that is withheld when the blocks do not carry it.
--
-- Comparing is not measuring twice: on a machine that drifts, two medians taken one after the other
-- differ in 99.8 % of cases though the code is the same, paired blocks in 4.5 % (simulated in
-- tests/lua/measure/ab_spec.lua).

local blame = require 'ridge.blame'
local columns = require 'ridge.show.columns'
local flags = require 'ridge.measure.flags'
local fresh = require 'ridge.measure.fresh'
local guard = require 'ridge.guard'
local host = require 'ridge.measure.host'
local options = require 'ridge.options'
local paired = require 'ridge.measure.paired'
local plain = require 'ridge.plain'
local protocols = require 'ridge.measure.protocol'
local ratio = require 'ridge.show.ratio'
local showing = require 'ridge.show.value'
local verdict = require 'ridge.measure.verdict'

local M = {}

local SPEC = {
  a = { 'table|function', doc = 'a plan, a function (flagged LUA) or another program' },
  b = { 'table|function', doc = 'the one that is held against a' },
  setup = { 'function', doc = 'makes both, a and b, again in each of several processes' },
  processes = { 'integer', min = 1, max = 64,
                doc = 'fresh processes; 6 with setup, else this one' },
  rigorous = { 'boolean', default = false, doc = 'twelve processes' },
  blocks = { 'integer', min = 6, max = 1000,
             doc = 'blocks of a process in a look; 12, or 6 in each of several' },
  looks = { 'integer', min = 1, max = 20, doc = 'looks at most, 5, or 10 with several processes: '
            .. 'blocks are added while the verdict is open' },
  margin = { 'number', default = 0.01, min = 0, max = 1, doc = 'what is less is equal' },
  slot_ns = { 'number', default = 2.5e6, min = 1e3, max = 1e10, doc = 'shortest slot' },
  check = { 'boolean', default = true, doc = 'refuse candidates that compute something else' },
  tolerance = { 'number', min = 0, doc = 'how far results may differ, relative' },
  protocol = { 'string|table', default = 'quick', doc = 'warm-up and cache mode' },
  seed = { 'integer', default = 1, min = 0, doc = 'of the coins' },
  labels = { 'table', doc = 'what to call them: { a =, b = }' },
  progress = { 'function', doc = 'called with a line of text after each look' },
  services = { 'table', doc = 'a made-up machine, for tests' },
}

-- Many processes of few blocks: what differs between processes is averaged over their number alone,
-- and Student's factor falls from 4.3 for three to 2.6 for six. Simulated (blocks vary by 10 %,
-- processes by 1 %) three of 12 blocks find 5 % in 75 of 100 comparisons within five looks, six of
-- 6 in 92, within ten looks in 100; where blocks and processes vary by 3 %, in 40, 75 and 80.
local DEFAULT_PROCESSES, RIGOROUS_PROCESSES = 6, 12
local ONE = { blocks = 12, looks = 5 } -- this process alone
local SEVERAL = { blocks = 6, looks = 10 }

-- -- Result ------------------------------------------------------------------------------

local Result = {}
Result.__index = Result

-- One line: the verdict, the ratio with its interval, and what would decide when nothing does.
local function sentence(self)
  local text = ("%s: b takes %s of a's time [%s], margin %s, %d blocks in %d process%s")
    :format(self.verdict, ('%.4g'):format(self.ratio), ratio.range(self.ci_lo, self.ci_hi),
      plain.percent(self.margin), self.blocks, self.procs, self.procs == 1 and '' or 'es')
  if self.simulated then
    text = text .. '; the device is simulated: no verdict (SIMULATED)'
  elseif self.aa_fail then
    text = text .. ('; a against itself differs by %s: no verdict (AA_FAIL)'):format(
      ratio.text(self.aa))
  elseif self.verdict == 'open' then
    text = text .. ('; about %d blocks in each process would decide'):format(self.needed)
  end
  return text
end
showing.ways(Result, { line = sentence, box = function(self)
  return columns.wrap(sentence(self), columns.terminal(), '  ')
end })
guard.result(Result)

--- The ratio with its interval, the verdict, and what happened meanwhile, for a column of a table:
--- '0.61 [0.60 .. 0.62] faster', '1.01 [0.93 .. 1.10] undecided (FOREIGN)'.
---@return string
function Result:short()
  local text = ('%.2f [%.2f .. %.2f] %s'):format(self.ratio, self.ci_lo, self.ci_hi,
    self.verdict == 'open' and 'undecided' or self.verdict)
  return #self.flags > 0 and ('%s (%s)'):format(text, table.concat(self.flags, ' ')) or text
end

-- -- Taking --------------------------------------------------------------------------------

local function add(process, blocks)
  for _, block in ipairs(blocks) do
    process.blocks[#process.blocks + 1] = block
    local d = paired.effect(block.design, block.times)
    table.insert(block.kind == 'aa' and process.aa or process.effects, d)
  end
end

-- The median time of a call of each candidate, over all their slots.
local function times_of(processes)
  local statistics, a, b = require 'ridge.measure.statistics', {}, {}
  for _, process in ipairs(processes) do
    for _, block in ipairs(process.blocks) do
      for i, is_b in ipairs(block.kind == 'ab' and paired.slots(block.design) or {}) do
        table.insert(is_b and b or a, block.times[i])
      end
    end
  end
  return statistics.median(a), statistics.median(b)
end

-- What happened on the machine meanwhile, as flags: pairing is there to stand it, so they are told
-- and do not forbid a verdict.
local function flags_of(found, delta, session, setting)
  local facts = session.facts
  local raised = flags.judge({
    foreign = delta.foreign, pressure = delta.pressure, steal = delta.steal,
    throttled = delta.throttled, lua = setting.lua, aa_fail = found.aa_fail,
    simulated = found.simulated, training = found.training, reduced = found.reduced,
    debug = facts.debug_build or facts.debugger == 1,
  }, flags.thresholds())
  return raised
end

local function any(steps, field)
  for _, step in ipairs(steps) do
    if step[field] then return true end
  end
  return nil
end

--- A comparison of candidates that are made already.
---@param runners table[]  each with take(name, n, seed), of ridge.measure.fresh
---@param name string      which pair of candidates
---@param opt table        checked options
---@param around table     services, session, lua
---@return table result    see measure.ab
function M.compare(runners, name, opt, around)
  local processes, default = {}, #runners > 1 and SEVERAL or ONE
  for i in ipairs(runners) do processes[i] = { effects = {}, aa = {}, blocks = {} } end
  local each, looks = opt.blocks or default.blocks, opt.looks or default.looks
  local steps, look = {}, 0
  local found
  repeat
    look = look + 1
    for i, runner in ipairs(runners) do
      around.services.check()
      local blocks, step = runner:take(name, each, opt.seed + 1009 * look + 31 * i)
      add(processes[i], blocks)
      steps[#steps + 1] = step
    end
    found = verdict.of(processes, opt.margin, looks)
    -- what a program takes to play a device is no time of the device
    found.simulated = any(steps, 'simulated')
    found.training, found.reduced = any(steps, 'training'), any(steps, 'reduced')
    if found.simulated then found.verdict = 'open' end
    if opt.progress then
      opt.progress(('look %d of %d: %s, %s [%s]'):format(look, looks, found.verdict,
        ratio.text(found.ratio), ratio.range(found.ci_lo, found.ci_hi)))
    end
  until found.verdict ~= 'open' or look == looks or found.simulated
  found.name, found.looks, found.processes = name, look, processes
  found.a_ns, found.b_ns = times_of(processes)
  found.host = host.over(steps)
  found.host.hidden = host.hidden(found.host)
  found.flags = flags_of(found, found.host, around.session, around)
  found.labels, found.design = opt.labels or { a = 'a', b = 'b' }, 'ABBA'
  found.cache = around.cache
  return setmetatable(found, Result)
end

-- -- Candidates ------------------------------------------------------------------------------

local function as_candidate(given, name)
  if type(given) == 'table' and given.window and not given.is_external then return given end
  if type(given) == 'table' and type(given.handle) ~= 'function' and not given.is_external then
    blame.raise(('ab: %s is neither a plan nor a function (ridge.capture makes plans)')
      :format(name))
  end
  return { plan = given }
end

local function setting_of(opt, protocol)
  local backend = require 'ridge.backend'
  local setting = { slot_ns = opt.slot_ns, check = opt.check, tolerance = opt.tolerance }
  for name, value in pairs(protocol) do setting[name] = value end
  for name, value in pairs(backend.now()) do setting[name] = value end
  return setting
end

local function refuse(wrong, name)
  blame.raise(('ab: %s%s; give check = false when that is meant'):format(
    name == 'ab' and '' or name .. ': ', wrong), 'EARG')
end

--- Start the processes of a source, and hand them to a function; they end with it.
---@param source table     module and spec, see ridge.measure.fresh
---@param opt table        checked options
---@param f fun(runners: table[], around: table): any
---@return any
function M.with_source(source, opt, f)
  local services = require('ridge.measure.native').services()
  local protocol = protocols.protocol(opt.protocol)
  local setting, runners = setting_of(opt, protocol), {}
  local ok, result = pcall(function()
    local n = opt.processes or opt.rigorous and RIGOROUS_PROCESSES or DEFAULT_PROCESSES
    for i = 1, n do runners[i] = fresh.start(source, setting, opt.seed + i) end
    for _, runner in ipairs(runners) do
      local wrong = runner:ready()
      if wrong then refuse(wrong.why, wrong.name) end
    end
    local session = require('ridge.measure.session').of(services, protocol)
    return f(runners, { services = services, session = session, cache = protocol.cache })
  end)
  for _, runner in ipairs(runners) do runner:close() end
  if not ok then error(result, 0) end
  return result
end

--- Hand candidates of this process to a function.
---@param list table[]  each name, a, b (with plan, or window)
---@param opt table     checked options
---@param f fun(runners: table[], around: table): any
---@return any
function M.with_candidates(list, opt, f)
  if (opt.processes or 1) > 1 or opt.rigorous then
    blame.raise('ab: plans cannot go to other processes; give setup, a function that makes and '
      .. 'returns both, or run a recipe', 'EARG', 'ab')
  end
  local services = opt.services or require('ridge.measure.native').services()
  local protocol = protocols.protocol(opt.protocol)
  local runner, wrong = fresh.here(list, setting_of(opt, protocol), services)
  if wrong then refuse(wrong.why, wrong.name) end
  local lua = false
  for _, each in ipairs(list) do
    lua = lua or type(each.a.plan) == 'function' or type(each.b.plan) == 'function'
  end
  local session = require('ridge.measure.session').of(services, protocol)
  return f({ runner }, { services = services, session = session, lua = lua,
                         cache = protocol.cache })
end

-- -- Interface ----------------------------------------------------------------------------------

--- Check the options of a comparison; `without` names those the caller fills in itself.
---@param given table
---@param what string  the function's name, for errors
---@return table opt
function M.options(given, what)
  return options.check(SPEC, given, what)
end

--- Compare two candidates.
--
-- Given as `a` and `b` they are compared in this process (procs = 1: where their memory happens to
-- lie is part of the answer).  Given as `setup`, a function that makes and returns both, they are
-- made again in six fresh processes (twelve when rigorous), and there for each block, so that where
-- their memory lies is part of the noise.  What they compute is compared first.
---@param given table  a and b, or setup; processes, rigorous, blocks, looks, margin, slot_ns,
---  check, tolerance, protocol, seed, labels, progress
---@return table result  verdict of b against a ('faster', 'slower', 'equal', 'open'), ratio (time
---  of b over time of a), ci_lo, ci_hi, p, floor (what A/A shows), margin, aa, aa_fail, blocks,
---  procs, looks, needed (blocks of a process, when open), a_ns, b_ns, flags, host, processes (the
---  raw blocks); short() and tostring say it in a line
-- >> measure.ab{ a = p, b = q }.verdict
function M.ab(given)
  local opt = M.options(given, 'measure.ab')
  if opt.setup then
    if opt.a ~= nil or opt.b ~= nil then
      blame.raise('measure.ab: give a and b, or setup, which makes both', 'EARG', 'measure.ab')
    end
    return M.with_source(fresh.source(opt.setup), opt, function(runners, around)
      return M.compare(runners, 'ab', opt, around)
    end)
  end
  if opt.a == nil or opt.b == nil then
    blame.raise('measure.ab: two candidates are needed, a and b', 'EARG', 'measure.ab')
  end
  local list = { { name = 'ab', a = as_candidate(opt.a, 'a'), b = as_candidate(opt.b, 'b') } }
  return M.with_candidates(list, opt, function(runners, around)
    return M.compare(runners, 'ab', opt, around)
  end)
end

return M
