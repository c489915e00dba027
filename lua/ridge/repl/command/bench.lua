-- SPDX-License-Identifier: MIT
--- %bench: the median time of a call with its interval, and what the machine's measured roofs say
--- about it.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local parse = require 'ridge.repl.parse'
local unit = require 'ridge.show.unit'

-- What is measured once a session where nothing is stored: about a second.
local KINDS = { 'fma.', 'dot.', 'amx.', 'bw.' }

local LEVELS = { quick = true, demo = true, default = true, rigorous = true }

--- Words in front of the code: --quick, --default, --rigorous, --cold, --eager.
local function options_of(text)
  local protocol, eager = { level = 'demo' }, false
  while true do
    local word, rest = text:match '^%-%-(%a+)%s*(.*)$'
    if not word then return protocol, eager, text end
    if LEVELS[word] then
      protocol.level = word
    elseif word == 'cold' then
      protocol.cache = 'cold'
    elseif word == 'eager' then
      eager = true
    else
      blame.raise(('%%bench: unknown option --%s; known: --quick, --default, --rigorous, --cold, '
        .. '--eager'):format(word))
    end
    text = rest
  end
end

--- What a call works in: the type of its first float result.
local function dtype_of(values)
  local ridge = require 'ridge'
  local only_stored = require('ridge.tensor.dtype').only_stored
  for _, value in ipairs(values) do
    if ridge.is_tensor(value) and value.dtype:find '^b?f%d' and not only_stored[value.dtype] then
      return value.dtype
    end
  end
  return nil
end

--- The call that a text means: a plan or a function by name, or the text itself as body.
local function body_of(session, parsed)
  local plans = require 'ridge.plan'
  local n, values = session:values(parsed)
  local value = n == 1 and values[1] or nil
  if plans.is(value) then return { plan = value } end
  if type(value) == 'function' then return { call = value } end
  return { call = function() return select(2, session:values(parsed)) end, list = true }
end

--- A plan of the body, or the body itself with the reason why it is none.
local function captured(body)
  if body.plan then return body.plan end
  local ok, plan = pcall(require('ridge.plan').steps, body.call)
  if not ok then
    if not (blame.is_error(plan) and plan.code == 'ECAPTURE') then error(plan, 0) end
    return nil, plan.message
  end
  if plan:facts().n_steps == 0 then return nil, 'it calls no operation' end
  return plan
end

-- -- The roof --------------------------------------------------------------------------------

local function measure_ceilings(session, threads)
  session:say(colour.paint('dim', ('measuring the ceilings of %d thread%s'):format(threads,
    threads == 1 and '' or 's')))
  local list = require('ridge.measure').calibrate { quick = true, noise = false, kinds = KINDS }
  return { by_name = require('ridge.measure.roof').by_name(list), threads = threads,
           since = 'measured in this session' }
end

--- The ceilings of this machine at the threads in use, by name: stored ones, or measured now.
local function ceilings_of(session)
  local threads = require('ridge.backend').threads()
  session.ceilings = session.ceilings or {}
  local found = session.ceilings[threads]
  if found then return found end
  local stored = require('ridge.sweep.calibrated').stored()
  found = stored and { by_name = require('ridge.measure.roof').by_name(stored),
                       threads = threads, since = 'stored' } or measure_ceilings(session, threads)
  session.ceilings[threads] = found
  return found
end

--- Whatever was disturbed while ceilings were measured has made them too low: take the higher of
--- two measurements.
local function raise_ceilings(session, ceilings)
  local again = measure_ceilings(session, ceilings.threads)
  for name, entry in pairs(again.by_name) do
    local before = ceilings.by_name[name]
    if not before or entry.value > before.value then ceilings.by_name[name] = entry end
  end
  ceilings.raised = true
end

local function least_of(cost, ceilings, machine)
  local roof = require 'ridge.measure.roof'
  local least, name = roof.least(cost, ceilings.by_name, machine)
  if least then return least, name end
  return roof.memory_ns(cost, ceilings.by_name, machine)
end

--- What the roofline says about a time.
local function roof_lines(session, cost, ns)
  local ceilings = ceilings_of(session)
  local machine = require('ridge.backend').machine()
  machine.threads = ceilings.threads
  local least, name = least_of(cost, ceilings, machine)
  if least and least > ns and not ceilings.raised then
    raise_ceilings(session, ceilings)
    least, name = least_of(cost, ceilings, machine)
  end
  if not least then return { 'no ceiling of this machine applies' } end
  local limit = name == 'compute' and cost.dtype .. ' arithmetic' or 'reading from ' .. name
  local lines = { ('the roof is %s, by %s: this is %.3g %% of it'):format(
    unit.format('ns', least), limit, 100 * least / ns) }
  if least > ns then
    lines[2] = 'above the roof: the counts are too high, or the machine is faster now'
  end
  lines[#lines + 1] = colour.paint('dim', ('(ceilings of %d thread%s, %s)'):format(
    ceilings.threads, ceilings.threads == 1 and '' or 's', ceilings.since))
  return lines
end

local function rates(cost, ns)
  local parts = {}
  if cost.flops and cost.flops > 0 then
    parts[#parts + 1] = unit.format('gflops', cost.flops / ns)
  end
  if cost.bytes and cost.bytes > 0 then parts[#parts + 1] = unit.format('gbps', cost.bytes / ns) end
  if #parts == 2 then
    parts[3] = ('%s FLOP a byte'):format(unit.number(cost.flops / cost.bytes))
  end
  return table.concat(parts, ', ')
end

-- -- The command -----------------------------------------------------------------------------

local function flag_lines(result)
  local flags, lines = require 'ridge.measure.flags', {}
  for _, name in ipairs(result.flags) do
    lines[#lines + 1] = ('%s: %s'):format(name, flags.describe(name).text)
  end
  return lines
end

local function head(plan, reason)
  if not plan then return 'timed as Lua calls it (' .. reason .. ')' end
  local facts = plan:facts()
  local names = table.concat(facts.steps, ', ', 1, math.min(4, facts.n_steps))
  return ('a plan of %d operation%s: %s%s'):format(facts.n_steps, facts.n_steps == 1 and '' or 's',
    names, facts.n_steps > 4 and ', ...' or '')
end

local function measured(result)
  local function time(ns) return unit.format('ns', ns) end
  return ('median %s, 95 %% interval %s .. %s\n  quartiles %s .. %s of %d samples, first call %s')
    :format(colour.paint('bold', time(result.med)), time(result.ci_lo), time(result.ci_hi),
      time(result.p25), time(result.p75), result.n, time(result.first_ns))
end

-- What other processes differ by, as `ridge trust` found it; nil where it has not run.
local function between_of()
  local stored = require('ridge.sweep.calibrated').stored()
  local measure, variation = require 'ridge.measure', require 'ridge.measure.variation'
  return variation.of(stored and measure.calibration(stored, require('ridge.backend').threads()))
end

local WHERE = {
  trust = '%s; the interval holds what others differ by (ridge trust)',
  prior = '%s; the interval holds what others may differ by: ridge trust measures it',
}

-- In passes, each in a fresh process, where nothing of this prompt is needed; else here, with what
-- other processes would differ by in the interval.
local function timed(session, what, protocol)
  local fresh = require 'ridge.repl.fresh'
  if what.plan and what.text and fresh.is_portable(what.text, session.env) then
    local ok, result = pcall(fresh.result, what.text, protocol, what.cost)
    if ok then
      return result, ('in %d passes, each in a fresh process'):format(result.procs)
    elseif blame.is_error(result) and result.code == 'EINTR' then
      error(result, 0)
    end
  end
  local between = between_of()
  local result = require('ridge.measure').block({
    { plan = what.plan or what.call, label = what.text or 'bench', cost = what.cost } }, protocol,
    { between = between })[1]
  if result.error then error(result.error, 0) end
  return result, WHERE[between.how]:format(result.promises or 'in this process')
end

local function run(session, request)
  local protocol, eager, text = options_of(request.rest)
  local parsed = parse.compile(text, '=[bench]')
  if #text == 0 then blame.raise '%bench: code, a function or a plan is expected' end
  if not parsed.chunk then error(require('ridge.repl.report').syntax(parsed.message), 0) end
  local body = body_of(session, parsed)
  local plan, reason
  if eager then
    if body.plan then blame.raise '%bench --eager: this is a plan already' end
    reason = 'as asked'
  else
    plan, reason = captured(body)
  end
  local cost = plan and plan:facts() or {}
  cost = { flops = cost.flops, bytes = cost.bytes }
  local values = plan and plan.results or {}
  if body.list and type(values[1]) == 'table' and not body.plan then values = values[1] end
  cost.dtype = dtype_of(values)
  local result, where = timed(session, { plan = plan, call = body.call, cost = cost,
    text = body.list and parsed.kind == 'expression' and text or nil }, protocol)
  local lines = { colour.paint('dim', head(plan, reason)), measured(result),
                  colour.paint('dim', where) }
  local rate = rates(cost, result.med)
  if rate ~= '' then
    lines[#lines + 1] = rate
    for _, line in ipairs(roof_lines(session, cost, result.med)) do lines[#lines + 1] = line end
  end
  lines[#lines + 1] = 'grade ' .. result.grade
  for _, line in ipairs(flag_lines(result)) do lines[#lines + 1] = colour.paint('dim', line) end
  session.write(table.concat(lines, '\n  ') .. '\n')
  session:keep(result)
end

return {
  bench = {
    usage = '%bench [OPTIONS] CODE', takes = 'words', run = run,
    about = 'the median time of a call, and what the roofline says\n'
      .. 'An expression that reads no variable of this prompt is measured in fresh processes.\n'
      .. 'CODE is an expression or statements, or names a function or a plan. It is captured\n'
      .. 'into a plan where it can be; --eager times it as Lua calls it. --quick, --default and\n'
      .. '--rigorous say how long, --cold is with empty caches. The result is in _.',
  },
}
