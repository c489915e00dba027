-- SPDX-License-Identifier: MIT
--- One pass of a point: set it up again, in memory that lies elsewhere, time a few windows, write
--- what it came to, let it go.
--
-- What a point prepares is heavy work that is not timed and shares the machine with other workers;
-- timing has it alone, and so has the writing of what was timed (ridge.sweep.lease). A failing
-- point is a row with its reason, not the end of the sweep.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local point = require 'ridge.sweep.point'
local clock = require 'ridge.store.clock'
local child = require 'ridge.sweep.child'
local record = require 'ridge.store.record'
local ref = require 'ridge.ffi.ref'
local series = require 'ridge.sweep.series'
local random = require 'ridge.measure.random'
local space = require 'ridge.sweep.space'
local statistics = require 'ridge.measure.statistics'
local window = require 'ridge.store.window'

local M = {}

-- Lines of a traceback that are kept.
local TRACE_LINES = 30

-- Errors -------------------------------------------------------------------------------------

M.INTERRUPT = setmetatable({ code = 'EINTR' }, {
  __tostring = function() return 'interrupted' end,
})

--- Whether an error is Ctrl-C: an error object from a call into the core, text from the program's
--- own hook ("interrupted") or from plain luajit's ("interrupted!").
---@param err any
---@return boolean
local function is_interrupt(err)
  if type(err) == 'table' then return err.code == 'EINTR' end
  return type(err) == 'string' and (err == 'interrupted' or err:find 'interrupted!$' ~= nil)
end

M.is_interrupt = is_interrupt

local function tail(traceback)
  local lines = {}
  for line in traceback:gmatch '[^\n]+' do lines[#lines + 1] = line end
  return table.concat(lines, '\n', math.max(1, #lines - TRACE_LINES + 1))
end

-- Keep an error together with where it came from; points that say infeasible need no traceback.
local function catch(err)
  if point.infeasible(err) or is_interrupt(err) then return { err = err } end
  local own = type(err) == 'table' and rawget(err, 'traceback')
  return { err = err, trace = tail(own or debug.traceback('', 2)) }
end

local function check_stopping(run)
  if run.lab.stopping() then error(M.INTERRUPT, 0) end
end

-- Take the machine 'shared' or 'exclusive'; waiting is no point's doing.
local function lease(run, how)
  if not run.lease or run.lease.has == how then return end
  run.worker:under_way(nil, 'wait')
  run.lease[how](run.lease)
  check_stopping(run)
end

--- Take the machine for work that is not timed, together with other workers.
---@param run table
function M.share(run) lease(run, 'shared') end

-- One point ----------------------------------------------------------------------------------

local function copy(params)
  local out = {}
  for name, value in pairs(params) do out[name] = value end
  return out
end

-- What a caught error makes of a point; nil for an interrupt, which is not the point's.
local function outcome_of(caught, stage, pass)
  local err = caught.err
  local reason = point.infeasible(err)
  if reason then return { state = 'infeasible', message = reason } end
  local oom = type(err) == 'table' and err.code == 'ENOMEM'
    or type(err) == 'string' and err:find('not enough memory', 1, true) ~= nil
  return { state = oom and 'oom' or 'error', trace = caught.trace,
    message = ('%s%s: %s'):format(pass and pass > 1 and ('pass %d: '):format(pass) or '', stage,
      tostring(err)) }
end

-- A setup that drew other data in another pass measures other work under one name.
local function check_inputs(run, item)
  local sum = run.lab.inputs(item.context)
  local other = series.other_inputs(item.earlier or {}, sum)
  if other and not run.spec.reuse_setup then
    error(('it made other data than in pass %d; let it depend on p alone (ridge.randn '
      .. 'draws the same each time, math.random and the clock do not), or say reuse_setup = true '
      .. 'to set a point up once for all its passes'):format(other), 0)
  end
  item.inputs = sum
end

local function prepare_stages(run, item)
  local spec, params, m = run.spec, item.claim.params, item.point
  local function stage(name)
    item.stage = name
    run.worker:under_way(item.claim.trial, name)
  end
  if not item.context then
    stage 'setup'
    if run.order then child.forget_tail() end
    run.lab.seed(item.claim.seed)
    if spec.setup then item.context = spec.setup(copy(params), m) end
    if not item.partner_of then check_inputs(run, item) end
    if spec.check and not item.partner_of and m.pass == 1 then
      stage 'check'
      local good, why = spec.check(copy(params), item.context)
      if good == false or good == nil and why ~= nil then
        error(why and tostring(why) or 'the result is wrong', 0)
      end
    end
  end
  stage 'measure'
  spec.measure(copy(params), item.context, m)
  if #m.phases == 0 and #m.metrics == 0 and #m.curves == 0 then
    blame.raise('measure registered nothing: no m:time, no m:metric, no m:curve', 'EARG',
      'measure')
  end
end

-- Run setup, check and measure of a point. An error becomes its outcome.
local function prepare(run, item)
  local claim = item.claim
  -- looking means a full collection, which sweeps that never ask for a peak are spared
  item.point = point.new(claim.params, run.lab, run.peaks and run.lab.live_bytes() or nil,
    claim.pass)
  local ok, caught = xpcall(prepare_stages, catch, run, item)
  if ok then return end
  if caught.err == point.LOOK_FIRST then
    run.peaks, item.context = true, nil
    return prepare(run, item)
  end
  if is_interrupt(caught.err) then error(caught.err, 0) end
  item.outcome = outcome_of(caught, item.stage, claim.pass)
  if run.order then item.outcome.printed = child.own_tail() end
  if item.outcome.state == 'infeasible' then
    local kept = item.point:outcome(nil)
    item.outcome.metrics, item.outcome.peak = kept.metrics, kept.peak
  end
end

-- Timing -------------------------------------------------------------------------------------

local function first_error(results)
  for _, result in ipairs(results) do
    if result.error then return { err = result.error, trace = tail(tostring(result.error)) } end
  end
end

-- The timer calls this between windows: the place to leave at Ctrl-C, and to show a sign of life.
local function tick_of(run, item)
  return function(_, rounds)
    check_stopping(run)
    run.progress:at(('%s, pass %d, round %d'):format(item.label, item.claim.pass, rounds))
  end
end

-- Others may have worked at the same time: the user wanted it so, and the row says so.
local function flag_shared(result)
  local flags = { 'SHARED' }
  for _, flag in ipairs(result.flags or {}) do flags[#flags + 1] = flag end
  result.flags = flags
  return result
end

-- Windows of two points that stood side by side, as ratios behind those that are there.
local function add_ratios(list, own, other)
  for i = 1, math.min(#(own or {}), #(other or {})) do list[#list + 1] = own[i] / other[i] end
end

-- The ratio of two results whose rounds stood side by side: the median over the rounds, those that
-- a process that died had taken of this pass among them.
local function ratio_of(own, other, kept, phase)
  local list = {}
  local before = kept[record.key(phase, own.cache)]
  local beside = kept[record.key(window.of_partner(phase), own.cache)]
  add_ratios(list, before and before.dur, beside and beside.dur)
  add_ratios(list, own.samples, other.samples)
  if #list == 0 then return own.med / other.med end
  return statistics.median(list)
end

-- Another seed in each pass, the same whenever this pass is taken.
local function seed_of_pass(claim)
  return (claim.seed + 0x9e3779b1 * claim.pass) % 2 ^ 48 + 1
end

-- A point and its partner take turns in an order that is drawn for each pass: what the order itself
-- does to them would else be in every ratio.
local function in_order_of(claim, protocol)
  local out = copy(protocol)
  out.seed = ((protocol.seed or 0) + seed_of_pass(claim)) % 2 ^ 31
  return out
end

-- The protocol of what is left of a pass of which a process that died had taken windows: as many
-- as the phase lacks that has least of them.
local function rest_of(protocol, kept, phases)
  local least = math.huge
  for _, phase in ipairs(phases) do
    for _, cache in ipairs(protocol.cache == 'warm+cold' and { 'warm', 'cold' }
        or { protocol.cache or 'warm' }) do
      local own = kept[record.key(phase, cache)]
      least = math.min(least, own and #own.dur or 0)
    end
  end
  if least == 0 or least == math.huge or not protocol.windows then return protocol end
  local out = copy(protocol)
  out.windows = math.max(2, protocol.windows - least) -- one alone has no median
  return out
end

-- What was kept of this pass, in front of what was timed of it now.
local function prepend(r, own)
  if not own then return end
  local dur, at, mark = {}, {}, {}
  local function add(ns, when, how)
    local n = #dur + 1
    dur[n], at[n], mark[n] = ns, when, how
  end
  for i, ns in ipairs(own.dur) do add(ns, own.at[i], own.mark[i]) end
  for i, ns in ipairs(r.samples or {}) do
    add(ns, (r.t0_ns or 0) - own.t0 + (r.at and r.at[i] or 0), r.mark and r.mark[i] or 0)
  end
  r.samples, r.at, r.mark, r.t0_ns = dur, at, mark, own.t0
  r.med = statistics.median(dur)
end

-- Time all plans of a point, and beside each that of its partner; the rounds of all are shuffled.
local function time_point(run, item, partner)
  local points, phases = item.point:plans(item.label), {}
  local n = #points
  for _, phase in ipairs(item.point.phases) do
    if phase.plan ~= nil then phases[#phases + 1] = phase.name end
  end
  local beside, partners = {}, {}
  for _, p in ipairs(n > 0 and partner and partner.point:plans(partner.label) or {}) do
    local name = p.label:match '(%S+)$'
    for i, phase in ipairs(phases) do
      if phase == name then
        points[#points + 1] = p
        beside[i] = #points
        partners[#points - n] = phase
      end
    end
  end
  lease(run, 'exclusive')
  run.worker:under_way(item.claim.trial, 'time')
  local kept = n > 0 and run.worker:kept(item.claim, run.env_id) or {}
  local protocol = in_order_of(item.claim, rest_of(run.spec.protocol, kept, phases))
  local results = n > 0 and run.lab.block(points, protocol, run.ceilings, tick_of(run, item),
    function(i, w)
      w.phase, w.partner = phases[i] or partners[i - n], i > n or nil
      run.worker:window(item.claim, w)
    end) or {}
  if #results ~= #points then
    blame.raise(('the timer gave %d results for %d plans'):format(#results, #points), 'EBUG')
  end
  local own = {}
  for i = 1, n do own[i] = results[i] end
  local caught = first_error(own)
  if caught then
    item.outcome = outcome_of(caught, 'time', item.claim.pass)
    return
  end
  for i, result in ipairs(own) do
    local other = beside[i] and results[beside[i]]
    if other and not other.error then
      result.ratio = ratio_of(result, other, kept, phases[i])
      if result.cold and other.cold then
        result.cold.ratio = ratio_of(result.cold, other.cold, kept, phases[i])
      end
    end
    for _, r in ipairs { result, result.cold } do
      prepend(r, kept[record.key(phases[i], r.cache)])
      if run.shared then flag_shared(r) end
      series.join(r, phases[i], item.earlier, run.worker.id, run.spec.protocol,
        { now_s = clock.now_us() / 1e6, minutes = run.minutes })
    end
  end
  item.outcome = item.point:outcome(own)
  item.outcome.state = 'ok'
  series.settle(item.outcome, item.claim, item.earlier, run.spec.protocol)
end

local IS_VALUE = { number = true, string = true, boolean = true }

-- What the recipe names as the partner of a point; nil and why not.
local function named_partner(run, item)
  local ok, params = xpcall(run.spec.partner, catch, copy(item.claim.params))
  if not ok then
    if is_interrupt(params.err) then error(params.err, 0) end
    return nil, tostring(params.err)
  elseif params ~= nil and params ~= false and type(params) ~= 'table' then
    return nil, ('it is %s; a table of parameters is expected, or nil'):format(blame.show(params))
  end
  for name, value in pairs(params or {}) do
    if type(name) ~= 'string' or not IS_VALUE[type(value)] then
      return nil, ('%s = %s is no parameter and its value'):format(blame.show(name),
        blame.show(value))
    end
  end
  return params
end

-- The partner of a point, set up; nil where it has none, or where that fails: the point itself may
-- be well all the same, and its row says why there is no ratio.
local function partner_of(run, item)
  if not run.spec.partner then return nil end
  local params, why = named_partner(run, item)
  if why then item.note = 'no ratio: partner: ' .. why end
  if not params or space.label(params) == item.label then return nil end
  local partner = { claim = { params = params, seed = item.claim.seed, trial = item.claim.trial,
    pass = item.claim.pass }, label = space.label(params), partner_of = item }
  prepare(run, partner)
  if partner.outcome then
    item.note = ('no ratio: its partner %s: %s'):format(partner.label, partner.outcome.message)
    return nil
  end
  return partner
end

-- Where memory lies in this pass.
local function shift(run, claim) run.lab.shift(seed_of_pass(claim)) end

-- One pass of a point that may be set up already.
local function take(run, item)
  check_stopping(run)
  run.progress:at(('%s, pass %d'):format(item.label, item.claim.pass))
  shift(run, item.claim)
  item.earlier = item.claim.pass > 1 and record.passes(run.store.db, item.claim.series) or {}
  item.outcome, item.note = nil, nil
  lease(run, 'shared')
  prepare(run, item)
  if item.outcome then return end
  local partner = partner_of(run, item)
  check_stopping(run)
  item.partner = partner and canonical.encode(partner.claim.params)
  local ok, caught = xpcall(time_point, catch, run, item, partner)
  if ok then return end
  if is_interrupt(caught.err) then error(caught.err, 0) end
  item.outcome = outcome_of(caught, 'time', item.claim.pass)
end

-- Writing ------------------------------------------------------------------------------------

local function write(run, item)
  local outcome = item.outcome
  outcome.inputs, outcome.left = item.inputs, item.left
  outcome.group, outcome.partner = run.group_of(item.claim.params), item.partner
  outcome.message = outcome.message or item.note
  local leak = outcome.state == 'ok' and series.leak(item.earlier, item.left)
  if leak and not outcome.more then
    outcome.message = ('every pass leaves %s behind'):format(M.bytes(leak))
  end
  run.worker:record { item }
  run.progress:add({ outcome.more and 'pass' or outcome.state })
end

--- Bytes as words.
---@param n number
---@return string text
function M.bytes(n)
  if n < 2 ^ 20 then return ('%.0f KB'):format(n / 1024) end
  return ('%.1f MB'):format(n / 2 ^ 20)
end

local function new_item(claim) return { claim = claim, label = space.label(claim.params) } end

local SPENT = 'the budget was spent'

-- Set up, timed, let go.
local function once(run, claim)
  local item = new_item(claim)
  -- against the most that was ever left: what one before left and this one found gone is no gain
  if not run.level then
    ref.collect() -- what was dead before would hide as much of a leak
    run.level = run.lab.memory()
  end
  run.lab.scoped(function() take(run, item) end)
  item.point, item.context = nil, nil
  ref.collect()
  local now = run.lab.memory()
  item.left, run.level = math.max(0, now - run.level), math.max(now, run.level)
  write(run, item)
end

-- Points that are set up once and stay alive over their passes; what they read is copied to another
-- place for each. Their passes are taken in turn, as those of a whole sweep are.
local function kept(run, claims)
  run.lab.scoped(function()
    local items = {}
    for i, claim in ipairs(claims) do items[i] = new_item(claim) end
    local shuffler = random.new(claims[1].seed)
    while #items > 0 do
      local left = {}
      for _, item in ipairs(shuffler:shuffle(items)) do
        if clock.has_come(run.deadline) then
          run.worker:give_back(claims, SPENT)
          return
        end
        if item.context then item.context = run.lab.moved(item.context) end
        take(run, item)
        write(run, item)
        local again = item.outcome.more and not clock.has_come(run.deadline)
          and run.worker:claim_again(run.sweep, item.claim.trial, run.env_id)
        for i, claim in ipairs(claims) do
          if claim == item.claim then table.remove(claims, i) break end
        end
        if again then
          item.claim = again
          claims[#claims + 1] = again
          left[#left + 1] = item
        end
      end
      items = left
    end
  end)
  ref.collect()
end

--- Take a pass of each claimed trial and write what it came to at once; what is left over when that
--- ends early is given back.
---@param run table store, sweep, spec, lab, worker, progress, ceilings, minutes (of
---  ridge.sweep.minutes, or nil), lease (or nil), shared, order, env_id, group_of, deadline
---  (seconds on the clock, or nil): no point is begun after it
---@param claims table of Worker:claim
function M.work(run, claims)
  local open = {}
  for i, claim in ipairs(claims) do open[i] = claim end
  local ok, err = pcall(function()
    if run.spec.reuse_setup then return kept(run, open) end
    while #open > 0 do
      once(run, open[1])
      table.remove(open, 1)
      if clock.has_come(run.deadline) then return run.worker:give_back(open, SPENT) end
    end
  end)
  run.lab.shift(0)
  if run.lease then run.lease:drop() end
  if ok then return end
  run.worker:give_back(open, is_interrupt(err) and 'interrupted' or tostring(err))
  error(err, 0)
end

return M
