-- SPDX-License-Identifier: MIT
--- The parent of worker processes: starts them, watches them, buries them.
--
-- It claims and measures nothing itself. A worker takes the points of one pass and ends, so that
-- each pass is of another process, whose stack begins elsewhere too. A worker that dies is replaced
-- as long as there is work; its trials are settled by what its notes and this parent's eyes say
-- (ridge.store.recovery). Where points have crashed, run out of memory or hung before, each point
-- gets a process of its own.

local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local lock = require 'ridge.store.lock'
local order = require 'ridge.sweep.order'
local process = require 'ridge.sweep.child'
local queue = require 'ridge.store.queue'
local random = require 'ridge.measure.random'
local recovery = require 'ridge.store.recovery'

local M = {}

-- Seconds between two looks; a look costs about a millisecond on a core that may be timing.
local LOOK_EVERY = 1

-- Seconds that workers get to end in good order, and workers in a row that may do nothing.
local GRACE, IDLE = 20, 5

local MOST_PADDING = 4095
local padding = random.new(clock.pid())

-- Starting -----------------------------------------------------------------------------------

local function newest_worker(st)
  return st.db:value '/* newest worker */ SELECT coalesce(max(id), 0) FROM worker'
end

local function isolated(pool)
  if pool.isolate ~= 'auto' then return pool.isolate == 'always' end
  return M.has_failed(pool)
end

local function start(pool)
  local env = order.encode { sweep = pool.sweep.uuid, db = pool.store.path,
    one = isolated(pool) or nil, deadline = pool.deadline, shard = pool.shard,
    memory = pool.memory, shared = pool.shared or nil, workers = pool.workers,
    choices = pool.choices }
  -- the length of the environment moves the stack (Mytkowicz et al. 2009)
  env.RIDGE_PADDING = ('x'):rep(padding:integer(MOST_PADDING + 1) - 1)
  local child = process.spawn(pool.command, env)
  child.after, child.oom_kills = newest_worker(pool.store), process.oom_kills()
  pool.children[#pool.children + 1] = child
end

local function worker_of(pool, child)
  if not child.worker then
    local row = pool.store.db:row([[/* worker of a process */ SELECT id, lock FROM worker
      WHERE pid=? AND id>? ORDER BY id DESC LIMIT 1]], child.pid, child.after)
    if row then
      child.worker, child.lock = row.id, recovery.lock_path(pool.store, row.lock)
    end
  end
  return child.worker
end

local function claimable(pool)
  return queue.claimable(pool.store, pool.sweep.id, pool.shard)
end

local function fill(pool)
  if pool.stopping or pool.failure then return end
  if clock.has_come(pool.deadline) then return end
  local wanted = math.min(pool.workers, claimable(pool) + #pool.children)
  while #pool.children < wanted do start(pool) end
end

-- Watching -----------------------------------------------------------------------------------

-- A worker that hangs is told why before it is killed: whoever buries it reads the note.
local function check_timeout(pool, child)
  if not pool.timeout or not worker_of(pool, child) then return end
  local note = recovery.note(lock.peek(child.lock) or '')
  if not note.since or note.stage == 'wait' then return end
  if clock.seconds() - note.since > pool.timeout then
    lock.note(child.lock, ('timeout %g\n'):format(pool.timeout), recovery.CRASH_AT)
    child:kill(process.SIGKILL)
  end
end

local function bury(pool, child, status, signal)
  local id = worker_of(pool, child)
  local killed = signal == process.SIGKILL and not pool.ending
  local seen = id and { [id] = { killed = killed, printed = child:printed(),
    oom = killed and process.oom_kills() > child.oom_kills } }
  local spared = {}
  for _, other in ipairs(pool.children) do spared[other.pid] = other ~= child or nil end
  queue.recover(pool.store, seen, spared)
  if status == 130 then pool.stopping = true end -- Ctrl-C, seen by the worker first
  if status and status ~= 0 and status ~= 130 and not pool.failure then
    pool.failure = child:printed() or ('exit status %d'):format(status)
  end
  -- a process that never got as far as the sweep would be started for ever
  pool.idle = id and 0 or pool.idle + 1
  if pool.idle >= IDLE and not pool.failure then
    pool.failure = ('it ended (%s) before it came to the sweep%s'):format(signal
      and 'signal ' .. signal or 'status ' .. status, child:printed() and ': ' .. child:printed()
      or '; does the recipe come to sw:run each time?')
  end
  child:close()
end

local function reap(pool)
  for i = #pool.children, 1, -1 do
    local child = pool.children[i]
    local ended, status, signal = child:done()
    if ended then
      bury(pool, child, status, signal)
      table.remove(pool.children, i)
    else
      check_timeout(pool, child)
    end
  end
end

local function show(pool)
  pool.progress:update(queue.counts(pool.store, pool.sweep.id, pool.shard))
end

local function all(pool, signal)
  for _, child in ipairs(pool.children) do child:kill(signal) end
end

-- Let the workers end: they saw the terminal's Ctrl-C themselves, and get one from here if not.
local function wind_up(pool)
  local began = clock.seconds()
  local asked
  while #pool.children > 0 do
    local waited = clock.seconds() - began
    if waited > 1 and not asked then
      asked = true
      all(pool, process.SIGINT)
    elseif waited > GRACE then
      pool.ending = true
      all(pool, process.SIGKILL)
    end
    process.wait(pool.children, 0.2)
    reap(pool)
  end
end

local function kill_all(pool)
  pool.ending = true
  all(pool, process.SIGKILL)
  while #pool.children > 0 do
    process.wait(pool.children, 0.2)
    reap(pool)
  end
end

local function look_every(pool)
  return pool.timeout and math.min(LOOK_EVERY, pool.timeout / 4) or LOOK_EVERY
end

local function watch(pool)
  pool.stopping = pool.lab.stopping() -- Ctrl-C while the machine was calibrated, say
  fill(pool)
  while #pool.children > 0 do
    process.wait(pool.children, look_every(pool))
    reap(pool)
    show(pool)
    pool.stopping = pool.stopping or pool.lab.stopping()
    if pool.stopping or pool.failure then wind_up(pool) end
    fill(pool)
    if #pool.children == 0 and not (pool.stopping or pool.failure) then
      -- the last worker may have left before another gave something back
      queue.recover(pool.store)
      local late = clock.has_come(pool.deadline)
      if claimable(pool) == 0 and not late then pool.more() end
      fill(pool)
    end
  end
  show(pool)
end

-- Attempts before the oldest one under way have their outcome for good. Asked of an index that
-- holds those under way and nothing else; the planner would rather read the table from its start.
local SETTLED = [[/* settled attempts */ SELECT coalesce(
  (SELECT min(id) FROM attempt INDEXED BY attempt_live WHERE outcome='running'),
  (SELECT max(id) + 1 FROM attempt), 0)]]
local FAILED = [[/* has failed */ SELECT EXISTS(SELECT 1 FROM attempt a
  CROSS JOIN trial t ON t.id = a.trial_id WHERE a.id >= ? AND t.sweep_id = ?
  AND (a.outcome IN ('crashed','oom','timeout') OR a.signal IS NOT NULL))]]

--- Whether a point of a sweep has ended a process, run out of memory or hung. Asked before each
--- block: what was seen to be well is not looked at again, or every block would cost more than the
--- one before.
---@param run table store, sweep; keeps `settled` and `failed`
---@return boolean
function M.has_failed(run)
  if run.failed then return true end
  local db = run.store.db
  local settled = db:value(SETTLED)
  run.failed = db:value(FAILED, run.settled or 0, run.sweep.id) == 1
  run.settled = settled
  return run.failed
end

--- Let worker processes do what is left of a sweep; returns when nothing is, or when asked to stop.
-- Raises what a worker could not go on from.
---@param run table store, sweep, lab, progress
---@param opt table workers, command, isolate, timeout, deadline, shard, memory, shared, choices
---  (the number of the last row of measured paths that counts), more (called when nothing is
---  pending; puts back what is to have one more pass)
---@return boolean stopped by Ctrl-C
function M.run(run, opt)
  local pool = { store = run.store, sweep = run.sweep, lab = run.lab, progress = run.progress,
    children = {}, idle = 0 }
  for key, value in pairs(opt) do pool[key] = value end
  local ok, err = pcall(watch, pool)
  if not ok then
    kill_all(pool)
    error(err, 0)
  end
  if pool.failure and not pool.stopping then
    blame.raise(('a worker of sweep %s could not go on: %s'):format(run.sweep.name,
      pool.failure:gsub('%s+$', '')), 'ESYS')
  end
  queue.close(run.store, run.sweep.id)
  return pool.stopping
end

return M
