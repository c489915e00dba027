-- SPDX-License-Identifier: MIT
--- A block of points: prepare each, time them together, write what they came to.
--
-- What a point prepares is heavy work that is not timed and shares the machine with other workers;
-- timing has it alone, and so has the writing of what was timed (ridge.sweep.lease). A failing
-- point is a row with its reason, not the end of the sweep.

local blame = require 'ridge.blame'
local point = require 'ridge.sweep.point'
local child = require 'ridge.sweep.child'
local rigorous = require 'ridge.sweep.rigorous'
local space = require 'ridge.sweep.space'

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
  if run.order then child.forget_tail() end
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
  if #m.phases == 0 and #m.metrics == 0 and #m.curves == 0 then
    blame.raise('measure registered nothing: no m:time, no m:metric, no m:curve', 'EARG',
      'measure')
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
  if run.order then item.outcome.printed = child.own_tail() end
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

-- Others may have worked at the same time: the user wanted it so, and the row says so.
local function flag_shared(result)
  local flags = { 'SHARED' }
  for _, flag in ipairs(result.flags or {}) do flags[#flags + 1] = flag end
  result.flags = flags
  if result.grade then result.grade = 'D' end
  return result
end

-- Time all plans of prepared items as one interleaved block and fill in their outcomes.
local function time_items(run, items)
  local points, first = {}, {}
  for i, item in ipairs(items) do
    first[i] = #points
    for _, p in ipairs(item.point:plans(item.label)) do points[#points + 1] = p end
  end
  lease(run, 'exclusive')
  run.worker:under_way(#items == 1 and items[1].claim.trial or nil, 'time', #items)
  local tick, results = tick_of(run, #items), {}
  if #points > 0 and rigorous.is_asked(run.spec.protocol) then
    results = rigorous.results(run, items, tick)
  elseif #points > 0 then
    results = run.lab.block(points, run.spec.protocol, run.ceilings, tick)
  end
  if #results ~= #points then
    blame.raise(('the timer gave %d results for %d plans'):format(#results, #points), 'EBUG')
  end
  for i, item in ipairs(items) do
    local own = {}
    for k = first[i] + 1, first[i + 1] or #results do
      own[#own + 1] = run.shared and flag_shared(results[k]) or results[k]
    end
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
    lease(run, 'shared')
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
  require('ridge.ffi.ref').collect()
  return left
end

local function write(run, done)
  if #done == 0 then return end
  run.worker:record(done)
  local states = {}
  for i, item in ipairs(done) do states[i] = item.outcome.state end
  run.progress:add(states)
end

--- Work through claimed trials and write what they came to; what is left over when that ends early
--- is given back.
---@param run table store, sweep, spec, lab, worker, progress, ceilings, lease (or nil), shared,
---  order
---@param claims table of Worker:claim
function M.work(run, claims)
  local done, aside = {}, {}
  local ok, err = pcall(function()
    local left = claims
    while #left > 0 do left = work(run, left, done, aside) end
    for _, claim in ipairs(aside) do work(run, { claim }, done, {}) end
  end)
  if ok then
    write(run, done)
    if run.lease then run.lease:drop() end
    return
  end
  -- keep what is known, give the rest back
  local final, rest = {}, {}
  for _, item in ipairs(done) do final[item.claim] = true end
  for _, claim in ipairs(claims) do
    if not final[claim] then rest[#rest + 1] = claim end
  end
  if run.lease then run.lease:drop() end
  write(run, done)
  run.worker:give_back(rest, is_interrupt(err) and 'interrupted' or tostring(err))
  error(err, 0)
end

return M
