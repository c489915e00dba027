-- SPDX-License-Identifier: MIT
--- Running a sweep: as the parent of workers, as one of them, or in this process.
--
-- A sweep is measured in passes over all its points, each in another random order. Where this is
-- the program that runs a recipe, each pass has a fresh process: a worker takes the points of one
-- pass and ends. Elsewhere (at the prompt, in plain luajit) all passes are of this process, which
-- their rows say. Between claim and write nothing of a point is in the database but the claim
-- itself; windows are recorded beside it as they end (ridge.store.window), so a process that dies
-- at any moment loses at most the window under way, and what was set up.

local blame = require 'ridge.blame'
local block = require 'ridge.sweep.block'
local calibrated = require 'ridge.sweep.calibrated'
local choices = require 'ridge.sweep.choices'
local clock = require 'ridge.store.clock'
local drift = require 'ridge.sweep.drift'
local extra = require 'ridge.sweep.extra'
local identity = require 'ridge.store.identity'
local order = require 'ridge.sweep.order'
local plain = require 'ridge.plain'
local pool = require 'ridge.sweep.pool'
local progress = require 'ridge.sweep.progress'
local queue = require 'ridge.store.queue'
local results = require 'ridge.store.results'
local reuse = require 'ridge.store.reuse'
local series = require 'ridge.sweep.series'
local store = require 'ridge.store'
local unlike = require 'ridge.sweep.unlike'

local M = {}

-- Points claimed at once: one transaction for several, and few enough that every worker has some.
local MOST = 8

-- Points that stay set up over their passes together (`reuse_setup`): enough to lie apart in time,
-- few enough to hold at once.
local KEPT = 8

local is_interrupt = block.is_interrupt

-- As many as are claimed at once: equal shares rather than eights and a rest of one.
local function share_of(pending, workers)
  local most = math.min(MOST, math.ceil(pending / workers))
  return math.ceil(pending / math.ceil(pending / most))
end

local function command_line()
  local words, given = {}, rawget(_G, 'arg') or {}
  for i = 0, #given do words[#words + 1] = tostring(given[i] or 'ridge') end
  return table.concat(words, ' ')
end

local function tell_simulated(run)
  if run.lab.simulated then
    run.progress:note(('%s: %s is simulated: the results are right, the times say nothing of any '
      .. 'GPU and are flagged SIMULATED'):format(run.sweep.name, run.lab.device))
  end
end

-- Before anything is taken from the table, and not by a worker.  Probing is timing: nobody else
-- works meanwhile.
local function probe(run)
  if not run.opt.probe or run.choices or run.lab.simulated then return end
  if run.lease then run.lease:exclusive() end
  choices.probe(run.store, run.lab, run.opt.choices, { say = function(text)
    run.progress:note(('%s: probing this machine, once: %s'):format(run.sweep.name, text))
  end })
  if run.lease then run.lease:drop() end
end

-- Before the environment is asked for: they are a part of it.
local function take_choices(run)
  local said
  probe(run)
  run.choices, said = choices.before(run.store, run.lab, run.opt.choices, run.choices)
  if said then run.progress:note(('%s: %s'):format(run.sweep.name, said)) end
end

local function rows_of(run)
  take_choices(run)
  local facts = run.lab.facts()
  local ids = run.store:environment(facts)
  run.vars = facts.env.vars
  run.machine_id, run.device_id, run.env_id = ids.machine_id, ids.device_id, ids.env_id
end

-- Calibrating is timing: nobody else works meanwhile.
local function ceilings_of(run)
  if not run.opt.calibrate or run.lab.simulated then return {} end
  if run.lease then run.lease:exclusive() end
  local rows = calibrated.rows(run.store, run.device_id, run.lab, function(text)
    run.progress:note(('%s: calibrating this machine, once: %s'):format(run.sweep.name, text))
  end, { quick = run.opt.calibrate ~= 'long' })
  if run.lease then run.lease:drop() end
  return rows
end

-- In this process ----------------------------------------------------------------------------

local function pending_of(run) return queue.claimable(run.store, run.sweep.id, run.shard) end

-- A point needs a process of its own from now on, and can have one.
local function must_isolate(run)
  return run.command and run.opt.isolate == 'auto' and pool.has_failed(run)
end

-- Points of grade D come back once. Those that were timed while others worked, or on a simulated
-- device, are D because of that, and would be again.
local function put_back(run)
  return (run.shared or run.lab.simulated) and 0 or queue.again(run.store, run.sweep.id, run.shard)
end

-- Points that have all their passes and yet leave something undecided have one more.
local function one_more_pass(run)
  local undecided = extra.points(run)
  if #undecided == 0 then return 0 end
  queue.once_more(run.store, undecided)
  run.progress:note(('%s: one more pass of %d points whose intervals leave something undecided')
    :format(run.sweep.name, #undecided))
  return #undecided
end

--- What is to be done when nothing is pending any more.
---@param run table
---@return integer n points that are pending again
local function more(run)
  local again = put_back(run)
  if again > 0 then
    run.progress:note(('%s: one more pass of %d points of grade D'):format(run.sweep.name, again))
  end
  return again > 0 and again or one_more_pass(run)
end

-- Work until nothing is left, or only what this process should not do; says which. A worker's
-- process is of one pass: the next one is for another.
local function loop(run)
  local st, sweep = run.store, run.sweep
  while true do
    if clock.has_come(run.deadline) then return 'budget' end
    if must_isolate(run) then return 'isolate' end
    local pending = pending_of(run)
    if pending > 0 then block.share(run) end
    local n = run.one and 1 or run.spec.reuse_setup and KEPT or share_of(pending, run.workers)
    local pass = run.order and not run.spec.reuse_setup and run.pass or nil
    local claims = pending > 0 and run.worker:claim(sweep, n, run.env_id, run.shard, pass) or {}
    if #claims > 0 then
      run.pass = run.pass or claims[1].pass
      block.work(run, claims)
      if run.one then return 'one' end
    elseif run.order then -- the next pass, and what a worker's brothers lost, is its parent's
      return 'pass'
    elseif queue.recover(st) == 0 and more(run) == 0 then
      return 'done'
    end
  end
end

-- The command that goes on with this sweep: `new` would begin another one.
local function continuation(run)
  return run.opt.new and 'the same command without --new' or 'the same command'
end

local function work_of(run)
  return queue.work(run.store, run.sweep.id, run.spec.protocol.passes, run.shard)
end

local function saved(run, interrupted)
  local counts = queue.counts(run.store, run.sweep.id, run.shard)
  local rest = (counts.pending or 0) + (counts.running or 0)
  local work = work_of(run)
  run.progress:finish(interrupted and 'interrupted' or 'stopped')
  local passes = run.spec.protocol.passes > 1
    and (', %d of %d passes'):format(work.done, work.total) or ''
  run.is_saved = true
  blame.raise(('sweep %s was interrupted: %d of %d points%s are saved in %s; run %s to '
    .. 'go on'):format(run.sweep.name, counts.total - rest, counts.total, passes, run.store.path,
    continuation(run)), 'EINTR')
end

-- What to say and raise when the loop was left by an error.
local function give_up(run, err)
  local interrupted = is_interrupt(err)
  local ended = pcall(run.worker.finish, run.worker, interrupted and 'interrupted' or 'error')
  if not ended then run.worker:abandon() end
  if interrupted then saved(run, true) end
  run.progress:finish 'stopped'
  error(err, 0)
end

local function work_here(run)
  run.ceilings = ceilings_of(run)
  run.minutes = run.lab.minutes and run.lab.minutes(run.store, run.env_id, run.sweep.id,
    run.ceilings)
  run.worker = queue.start(run.store, run.machine_id, command_line())
  run.lab.crash_note(run.worker.lock.fd, queue.CRASH_AT)
  local ok, result = pcall(loop, run)
  run.lab.crash_note(-1, 0)
  if run.lease then run.lease:drop() end
  if not ok then give_up(run, result) end
  run.worker:finish 'done'
  return result
end

-- By workers ---------------------------------------------------------------------------------

local function work_by_children(run)
  ceilings_of(run)
  local opt = run.opt
  local stopped = pool.run(run, { workers = run.workers, command = run.command,
    isolate = opt.isolate, timeout = run.spec.timeout, deadline = run.deadline,
    shard = run.shard, memory = opt.memory, shared = opt.timing == 'shared',
    choices = run.choices,
    more = function() return more(run) end })
  if stopped then saved(run, true) end
end

-- Whether this run needs processes: one a pass, several at once, or one that can be killed.
local function needs_children(run)
  local opt = run.opt
  local why = run.workers > 1 and ('%d workers'):format(run.workers)
    or run.spec.timeout and 'a timeout' or opt.isolate == 'always' and "isolate = 'always'"
    or opt.memory and 'a memory limit'
  if why and not run.command then
    blame.raise(('%s need the ridge program to run a recipe file: workers are the same command '
      .. 'again, and there is none'):format(why), 'ENOSUP')
  end
  -- a single pass, and points that stay set up, need no process of their own
  local passes = not run.spec.reuse_setup and run.spec.protocol.passes > 1
  return why or run.command and passes or must_isolate(run)
end

-- The sweep ----------------------------------------------------------------------------------

local function summary(run, how)
  local counts = queue.counts(run.store, run.sweep.id, run.shard)
  local failed = 0
  for state, n in pairs(counts) do
    if state == 'oom' or state == 'error' or state == 'crashed' or state == 'timeout' then
      failed = failed + n
    end
  end
  return { name = run.sweep.name, path = run.store.path, counts = counts, failed = failed,
    stopped = how == 'budget' and how or nil }
end

local function announce(run, pending, counts, made)
  local function note(text, ...) run.progress:note(run.sweep.name .. ': ' .. text:format(...)) end
  if pending == 0 and counts.running then
    note('the last %d points are under way in another process', counts.running)
  elseif pending == 0 then
    note('all %d points are measured', counts.total)
  elseif not made then
    note('going on, %d of %d points to measure', pending, counts.total)
  end
end

-- What another space of this recipe has measured here is not measured again.
local function take_stored(run)
  local n = run.opt.reuse and reuse.take(run.store, run.sweep.id, run.env_id, run.spec.any_name,
    run.shard) or 0
  if n == 0 then return end
  run.progress:note(('%s: %d points were measured before under the same conditions'):format(
    run.sweep.name, n))
  run.progress:update(queue.counts(run.store, run.sweep.id, run.shard))
end

-- What there is when the budget ends: after less than five passes no interval, so no verdict.
local function spent_text(run, left)
  local work, wanted = work_of(run), run.spec.protocol.passes
  if work.pass > 1 and wanted > 1 then
    return ('the budget is spent in pass %d of %d, %d points wait for it; %s goes on'):format(
      work.pass, wanted, left, continuation(run))
  elseif work.at and work.at > 0 and wanted > 1 then
    return ('the budget is spent within the first pass: of %d points there is one median each, '
      .. 'without an interval; %d points are left; %s goes on'):format(work.at, left,
      continuation(run))
  end
  return ('the budget is spent, %d points are left; %s goes on'):format(left, continuation(run))
end

local function measure(run)
  rows_of(run)
  local others = choices.others(run.store, run.sweep.id, run.machine_id, run.vars.choices)
  if others then run.progress:note(('%s: %s'):format(run.sweep.name, others)) end
  queue.begin_anew(run.store, run.sweep.id, run.env_id)
  take_stored(run)
  local how = not needs_children(run) and work_here(run) or 'isolate'
  if how == 'isolate' then work_by_children(run) end
  local left = queue.claimable(run.store, run.sweep.id, run.shard)
  local spent = left > 0 and clock.has_come(run.deadline)
  if spent then
    run.progress:finish(spent_text(run, left))
  else
    run.progress:finish()
  end
  return spent and 'budget' or nil
end

-- Ctrl-C is told with what is saved, also before the first point: the sweep is stored by then.
local function work_through(run)
  local ok, result = pcall(measure, run)
  if ok then return result end
  if is_interrupt(result) and not run.is_saved then saved(run, true) end
  error(result, 0)
end

local CAUSES = [[/* causes */ SELECT min(t.id) AS trial, count(*) AS n, t.state, a.message AS reason
  FROM trial t JOIN attempt a ON a.id = t.best_attempt WHERE t.sweep_id = ?
  AND t.state IN ('oom', 'error', 'crashed', 'timeout') GROUP BY t.state, a.message
  ORDER BY n DESC, trial LIMIT 3]]

local LEAKS = [[/* leaks */ SELECT count(*) FROM main.trial t
  JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ?1 AND t.state = 'ok' AND 2 <= (SELECT count(*) FROM main.attempt
    WHERE series = a.series AND outcome = 'ok') AND ?2 <= (SELECT min(coalesce(left_bytes, 0))
    FROM main.attempt WHERE series = a.series AND outcome = 'ok')]]

local function tell_leaks(run)
  local n = run.store.db:value(LEAKS, run.sweep.id, series.LEAK)
  if n > 0 then
    local whose = n == 1 and 'the setup of 1 point leaves'
      or ('the setups of %d points leave'):format(n)
    run.progress:note(('%s: %s memory behind in every pass; ridge show says how much')
      :format(run.sweep.name, whose))
  end
end

local WITHOUT = [[/* without a ratio */ SELECT min(t.id) AS trial, count(*) AS n,
  a.message AS reason FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.state = 'ok' AND a.message LIKE 'no ratio: %' GROUP BY a.message
  ORDER BY n DESC, trial LIMIT 3]]

-- The commonest reasons why points that name a partner have no ratio to it.
local function tell_partners(run)
  for _, row in ipairs(run.store.db:query(WITHOUT, run.sweep.id)) do
    run.progress:note(('%d x %s · ridge show %d'):format(row.n, row.reason:gsub('%s+', ' '),
      row.trial))
  end
end

-- The commonest reasons of the failures, each with a trial to look at.
local function tell_causes(run)
  for _, row in ipairs(run.store.db:query(CAUSES, run.sweep.id)) do
    run.progress:note(('%d x %s%s · ridge show %d'):format(row.n, row.state,
      row.reason and ': ' .. row.reason:gsub('%s+', ' ') or '', row.trial))
  end
end

-- What the anchor says of the machine meanwhile.
local function tell_drift(run)
  local anchors = results.rows_of_run(run.store, run.sweep.id, 'anchor')
  if #anchors < 2 then return end
  -- machines that differ are no drift of one
  local told = unlike.told(run.store, { run.sweep }, true)
  if told then return run.progress:note(told) end
  local points = results.rows_of_run(run.store, run.sweep.id)
  for _, phase in ipairs(drift.phases(anchors)) do
    local found = drift.of(points, anchors, phase)
    if found then run.progress:note(found.text) end
  end
end

-- The map of the sweep for a terminal with colours; a failure to draw is no failure of the sweep.
local function view(run)
  local size = progress.size()
  local depth = require('ridge.plot.terminal').depth(true)
  if depth == 'none' or size.lines < 16 then return {} end
  local ok, lines = pcall(require('ridge.sweep.live').map, run.store, run.sweep,
    { columns = size.columns, lines = math.floor((size.lines - 8) / 2), depth = depth })
  return ok and #lines < size.lines - 2 and lines or {}
end

local function go(run, wanted)
  local st, opt = run.store, run.opt
  local made
  local back = queue.recover(st)
  run.sweep, made = identity.ensure(st, wanted, opt.new)
  local counts = queue.counts(st, run.sweep.id, run.shard)
  local pending = (counts.pending or 0) + put_back(run)
  run.progress = progress.new(run.sweep.name, counts, { style = opt.progress,
    work = function() return work_of(run) end, view = function() return view(run) end })
  if back > 0 then
    run.progress:note(('%s: %d points were under way when a run was ended; that pass of them is '
      .. 'measured again'):format(run.sweep.name, back))
  end
  announce(run, pending, counts, made)
  tell_simulated(run)
  local how = pending > 0 and work_through(run) or nil
  queue.close(st, run.sweep.id) -- also after one that died between its last point and this
  tell_causes(run)
  tell_partners(run)
  tell_leaks(run)
  if pending > 0 then tell_drift(run) end
  return summary(run, how)
end

-- As a worker: work on the sweep that this process was started for, and end.
local function serve(run, wanted)
  run.sweep = identity.again(run.store, run.order.sweep, wanted)
  if not run.sweep then -- one that its parent has finished already
    run.sweep = identity.ensure(run.store, wanted)
    return summary(run)
  end
  run.serves = true
  run.progress = progress.new(run.sweep.name, queue.counts(run.store, run.sweep.id, run.shard),
    { style = false })
  rows_of(run)
  work_here(run)
end

local function end_worker(ok, err)
  if ok then os.exit(0) end
  if is_interrupt(err) then os.exit(130) end
  plain.note(err, '\n')
  os.exit(1)
end

--- Run what is left of a sweep. In a worker process it does not return.
---@param spec table setup, check, measure, protocol, timeout
---@param wanted table what ridge.store.identity.ensure takes
---@param opt table db, new, progress, calibrate, lab, workers, isolate, timing, budget (s), shard,
---  memory (bytes)
---@return table summary name, path, counts (state to number), failed, stopped ('budget' or nil)
function M.run(spec, wanted, opt)
  local own = order.own()
  local run = { spec = spec, lab = opt.lab, opt = opt, order = own, group_of = extra.group_of,
    store = store.open(opt.db, 'write') }
  if own and own.db == run.store.path then
    run.one, run.deadline, run.shard, run.workers = own.one, own.deadline, own.shard, own.workers
    run.shared, run.choices = own.shared, own.choices or 0
  else
    run.workers, run.shard, run.shared = opt.workers, opt.shard, opt.timing == 'shared'
    run.deadline = opt.budget and clock.seconds() + opt.budget
    run.command = opt.lab.command()
  end
  if not run.shared then run.lease = opt.lab.lease() end
  local ok, result = pcall(own and serve or go, run, wanted)
  if run.lease then run.lease:close() end
  if ok and not own then require('ridge.store.pack').try(run.store) end
  run.store:close()
  if run.serves then end_worker(ok, result) end
  if not ok then error(result, 0) end
  return result
end

return M
