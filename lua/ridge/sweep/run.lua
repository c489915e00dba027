-- SPDX-License-Identifier: MIT
--- The loop of a sweep: claim a block of points, prepare each, time them together, write, go on.
--
-- Between claim and write nothing of a block is in the database but the claim itself, so a process
-- that dies at any moment loses at most the block under way, and that is measured again. A failing
-- point is a row with its reason, not the end of the sweep.

local blame = require 'ridge.blame'
local calibrated = require 'ridge.sweep.calibrated'
local identity = require 'ridge.store.identity'
local point = require 'ridge.sweep.point'
local progress = require 'ridge.sweep.progress'
local queue = require 'ridge.store.queue'
local space = require 'ridge.sweep.space'
local store = require 'ridge.store'

local M = {}

-- Points of a block (decisions.md, Measuring 2): enough to interleave, few enough to hold at once.
local BLOCK = 8

-- Lines of a traceback that are kept.
local TRACE_LINES = 30

-- Errors -------------------------------------------------------------------------------------

local INTERRUPT = setmetatable({ code = 'EINTR' }, {
  __tostring = function() return 'interrupted' end,
})

-- Ctrl-C comes as an error object from a call into the core, as text from the program's own hook
-- ("interrupted") or from plain luajit's ("interrupted!").
local function is_interrupt(err)
  if type(err) == 'table' then return err.code == 'EINTR' end
  return type(err) == 'string' and (err == 'interrupted' or err:find 'interrupted!$' ~= nil)
end

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
  if run.lab.stopping() then error(INTERRUPT, 0) end
end

-- One point ----------------------------------------------------------------------------------

local function copy(params)
  local out = {}
  for name, value in pairs(params) do out[name] = value end
  return out
end

-- What a caught error makes of a point; nil for an interrupt, which is not the point's.
local function outcome_of(caught, stage)
  local err = caught.err
  local reason = point.infeasible(err)
  if reason then return { state = 'infeasible', message = reason } end
  local oom = type(err) == 'table' and err.code == 'ENOMEM'
    or type(err) == 'string' and err:find('not enough memory', 1, true) ~= nil
  return { state = oom and 'oom' or 'error', message = ('%s: %s'):format(stage, tostring(err)),
    trace = caught.trace }
end

local function prepare_stages(run, item)
  local spec, params, m = run.spec, item.claim.params, item.point
  local function stage(name)
    item.stage = name
    run.worker:under_way(item.claim.trial, name)
  end
  stage 'setup'
  run.lab.seed(item.claim.seed)
  if spec.setup then item.context = spec.setup(copy(params), m) end
  if spec.check then
    stage 'check'
    local good, why = spec.check(copy(params), item.context)
    if good == false or good == nil and why ~= nil then
      error(why and tostring(why) or 'the result is wrong', 0)
    end
  end
  stage 'measure'
  spec.measure(copy(params), item.context, m)
  if #m.phases == 0 and #m.metrics == 0 then
    blame.raise('measure registered nothing: no m:time, no m:metric', 'EARG', 'measure')
  end
end

-- Run setup, check and measure of a claimed trial. An error becomes its outcome.
local function prepare(run, claim)
  local item = { claim = claim, label = space.label(claim.params) }
  -- looking means a full collection, which sweeps that never ask for a peak are spared
  item.point = point.new(claim.params, run.lab, run.peaks and run.lab.live_bytes() or nil)
  local ok, caught = xpcall(prepare_stages, catch, run, item)
  if ok then return item end
  if caught.err == point.LOOK_FIRST then
    run.peaks = true
    return prepare(run, claim)
  end
  if is_interrupt(caught.err) then error(caught.err, 0) end
  item.outcome = outcome_of(caught, item.stage)
  if item.outcome.state == 'infeasible' then
    local kept = item.point:outcome(nil)
    item.outcome.metrics, item.outcome.peak = kept.metrics, kept.peak
  end
  item.point, item.context = nil, nil
  return item
end

-- A block ------------------------------------------------------------------------------------

local function first_error(results)
  for _, result in ipairs(results) do
    if result.error then return { err = result.error, trace = tail(tostring(result.error)) } end
  end
end

-- The timer calls this between windows: the place to leave at Ctrl-C, and to show a sign of life.
local function tick_of(run, n)
  return function(_, rounds)
    check_stopping(run)
    run.progress:at(('timing %d points, round %d'):format(n, rounds))
  end
end

-- Time all plans of prepared items as one interleaved block and fill in their outcomes.
local function time_items(run, items)
  local points, first = {}, {}
  for i, item in ipairs(items) do
    first[i] = #points
    for _, p in ipairs(item.point:plans(item.label)) do points[#points + 1] = p end
  end
  run.worker:under_way(#items == 1 and items[1].claim.trial or nil, 'time')
  local results = #points > 0
    and run.lab.block(points, run.spec.protocol, run.ceilings, tick_of(run, #items)) or {}
  if #results ~= #points then
    blame.raise(('the timer gave %d results for %d plans'):format(#results, #points), 'EBUG')
  end
  for i, item in ipairs(items) do
    local own = {}
    for k = first[i] + 1, first[i + 1] or #results do own[#own + 1] = results[k] end
    local caught = first_error(own)
    item.outcome = caught and outcome_of(caught, 'time') or item.point:outcome(own)
    item.outcome.state = item.outcome.state or 'ok'
  end
end

-- Time items together. When that fails nobody knows whose fault it was, so they go one by one.
local function time_or_blame(run, items, aside)
  local ok, caught = xpcall(time_items, catch, run, items)
  if ok then
    for _, item in ipairs(items) do
      if item.outcome.state == 'oom' and #items > 1 then
        item.outcome = nil -- the others held memory too
        aside[#aside + 1] = item.claim
      end
    end
    return
  end
  if is_interrupt(caught.err) then error(caught.err, 0) end
  for _, item in ipairs(items) do
    if #items == 1 then
      item.outcome = outcome_of(caught, 'time')
    else
      aside[#aside + 1] = item.claim
    end
  end
end

local function after(list, i)
  local out = {}
  for k = i + 1, #list do out[#out + 1] = list[k] end
  return out
end

-- Prepare and time claims together; those that must be alone are put into `aside`. Returns claims
-- that were not begun.
local function work(run, claims, done, aside)
  local left = {}
  run.lab.scoped(function()
    local ready = {}
    for i, claim in ipairs(claims) do
      check_stopping(run)
      run.progress:at(space.label(claim.params))
      local item = prepare(run, claim)
      if not item.outcome then
        ready[#ready + 1] = item
      elseif item.outcome.state == 'oom' and i > 1 then
        -- the others of the block hold memory too; alone it may fit
        aside[#aside + 1] = claim
      elseif item.outcome.state == 'oom' then
        -- what it took is only given back with the scope: the others begin anew
        done[#done + 1], left = item, after(claims, i)
        return
      else
        done[#done + 1] = item
      end
    end
    if #ready == 0 then return end
    check_stopping(run)
    run.progress:at(('timing %d points'):format(#ready))
    time_or_blame(run, ready, aside)
    for _, item in ipairs(ready) do
      item.point, item.context = nil, nil
      if item.outcome then done[#done + 1] = item end
    end
  end)
  collectgarbage()
  collectgarbage()
  return left
end

local function write(run, done)
  if #done == 0 then return end
  run.worker:record(done)
  local states = {}
  for i, item in ipairs(done) do states[i] = item.outcome.state end
  run.progress:add(states)
end

local function block(run, claims)
  local done, aside = {}, {}
  local ok, err = pcall(function()
    local left = claims
    while #left > 0 do left = work(run, left, done, aside) end
    for _, claim in ipairs(aside) do work(run, { claim }, done, {}) end
  end)
  if ok then return write(run, done) end
  -- keep what is known, give the rest back
  local final, rest = {}, {}
  for _, item in ipairs(done) do final[item.claim] = true end
  for _, claim in ipairs(claims) do
    if not final[claim] then rest[#rest + 1] = claim end
  end
  write(run, done)
  run.worker:give_back(rest, is_interrupt(err) and 'interrupted' or tostring(err))
  error(err, 0)
end

-- The sweep ----------------------------------------------------------------------------------

-- Blocks of equal size rather than eights and a rest of one.
local function block_size(pending)
  return math.ceil(pending / math.ceil(pending / BLOCK))
end

local function command_line()
  local words = {}
  for i = 0, #(_G.arg or {}) do words[#words + 1] = tostring(_G.arg[i]) end
  return table.concat(words, ' ')
end

local function rows_of(run)
  local st, facts = run.store, run.lab.facts()
  st:within(function()
    run.machine_id = st:machine(facts.machine)
    run.device_id = st:device(run.machine_id, facts.device)
    local env = copy(facts.env)
    env.machine_id, env.device_id = run.machine_id, run.device_id
    env.build_id = st:build(facts.build)
    run.env_id = st:env(env)
  end)
end

local function ceilings_of(run)
  return (calibrated.rows(run.store, run.device_id, run.lab, function(text)
    run.progress:note(('%s: calibrating this machine, once: %s'):format(run.sweep.name, text))
  end, { quick = true }))
end

local function loop(run)
  local st, sweep = run.store, run.sweep
  run.ceilings = run.calibrate and ceilings_of(run) or {}
  while true do
    local pending = queue.counts(st, sweep.id).pending or 0
    local claims = pending > 0 and run.worker:claim(sweep, block_size(pending), run.env_id) or {}
    if #claims > 0 then
      block(run, claims)
    elseif queue.recover(st) == 0 then
      local again = queue.again(st, sweep.id)
      if again == 0 then break end
      run.progress:back(again)
      run.progress:note(('%s: measuring %d points of grade D once more'):format(sweep.name, again))
    end
  end
  queue.close(st, sweep.id)
end

-- What to say and raise when the loop was left by an error.
local function give_up(run, err)
  local interrupted = is_interrupt(err)
  local saved = pcall(run.worker.finish, run.worker, interrupted and 'interrupted' or 'error')
  if not saved then run.worker:abandon() end
  run.progress:finish(interrupted and 'interrupted' or 'stopped')
  if not interrupted then error(err, 0) end
  local counts = queue.counts(run.store, run.sweep.id)
  local rest = (counts.pending or 0) + (counts.running or 0)
  blame.raise(('sweep %s was interrupted: %d of %d points are saved in %s; run the same command to '
    .. 'go on'):format(run.sweep.name, counts.total - rest, counts.total, run.store.path), 'EINTR')
end

local function summary(run)
  local counts = queue.counts(run.store, run.sweep.id)
  local failed = 0
  for state, n in pairs(counts) do
    if state == 'oom' or state == 'error' or state == 'crashed' or state == 'timeout' then
      failed = failed + n
    end
  end
  return { name = run.sweep.name, path = run.store.path, counts = counts, failed = failed }
end

local function work_through(run)
  rows_of(run)
  run.worker = queue.start(run.store, run.machine_id, command_line())
  run.lab.crash_note(run.worker.lock.fd, queue.CRASH_AT)
  local ok, err = pcall(loop, run)
  run.lab.crash_note(-1, 0)
  if not ok then give_up(run, err) end
  run.worker:finish 'done'
end

local function go(run, wanted, opt)
  local st = run.store
  local made
  local back = queue.recover(st)
  run.sweep, made = identity.ensure(st, wanted, opt.new)
  local counts = queue.counts(st, run.sweep.id)
  local pending = (counts.pending or 0) + queue.again(st, run.sweep.id)
  run.progress = progress.new(run.sweep.name, counts, { style = opt.progress })
  if back > 0 then
    run.progress:note(('%s: %d points were under way when a run was ended; they are measured again')
      :format(run.sweep.name, back))
  end
  if pending == 0 then
    run.progress:note(counts.running and ('%s: the last %d points are under way in another process')
      :format(run.sweep.name, counts.running)
      or ('%s: all %d points are measured'):format(run.sweep.name, counts.total))
  else
    if not made then
      run.progress:note(('%s: going on, %d of %d points to measure'):format(run.sweep.name, pending,
        counts.total))
    end
    work_through(run)
    run.progress:finish()
  end
  return summary(run)
end

--- Run what is left of a sweep.
---@param spec table setup, check, measure, protocol
---@param wanted table what ridge.store.identity.ensure takes
---@param opt table db, new, progress, calibrate, lab
---@return table summary name, path, counts (state to number), failed
function M.run(spec, wanted, opt)
  local run = { spec = spec, lab = opt.lab, calibrate = opt.calibrate,
    store = store.open(opt.db, 'write') }
  local ok, result = pcall(go, run, wanted, opt)
  run.store:close()
  if not ok then error(result, 0) end
  return result
end

return M
