-- SPDX-License-Identifier: MIT
-- Trials as a queue that survives anything: claim, finish, give back, recover.
--
-- A trial is pending, running under one worker, or final. Each claim raises `tries`, which numbers
-- the attempt and fences: a worker whose trial was given away changes no row when it finishes, and
-- its attempt stays as 'stale'. A worker lives as long as it holds its lock file, which the kernel
-- drops with the process, so recovery needs no heartbeat and no clock.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local lock = require 'ridge.store.lock'
local record = require 'ridge.store.record'
local recovery = require 'ridge.store.recovery'
local rules = require 'ridge.store.rules'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- Where in the worker's lock file the crash handler writes.
M.CRASH_AT = recovery.CRASH_AT

-- Workers ------------------------------------------------------------------------------------

local Worker = {}
Worker.__index = Worker

--- Note what is under way, for whoever watches this worker or finds it dead.
---@param trial_id integer|nil nil: none, or several at once
---@param stage string 'setup', 'check', 'measure', 'time', 'wait'
---@param n integer|nil trials under way, default 1
function Worker:under_way(trial_id, stage, n)
  local text = ('trial %d %s %d %.3f'):format(trial_id or 0, stage, n or 1, clock.seconds())
  self.lock:note(text .. (' '):rep(M.CRASH_AT - 1 - #text) .. '\n', recovery.NOTE_AT)
end

--- Begin to work on this database; the worker counts as alive until it ends or its process does.
---@param st table store open for writing
---@param machine_id integer
---@param argv string|nil the command line
---@return table worker
function M.start(st, machine_id, argv)
  local self = setmetatable({ st = st, uuid = clock.random_bytes(16) }, Worker)
  local path
  -- Row first, file second, both under the database's lock: whoever recovers sees both, and a
  -- process killed in between leaves a row without a file, which is a dead worker, and no litter.
  st.db:transaction(function()
    self.id = st.db:insert('worker', { uuid = sqlite.blob(self.uuid), machine_id = machine_id,
      boot_id = clock.boot_id(), pid = clock.pid(), lock = '', argv = argv,
      started = clock.now_us() })
    path = ('%s.worker-%d.lock'):format(st.path, self.id)
    st.db:run('/* name lock */ UPDATE worker SET lock=? WHERE id=?', path:match '[^/]+$', self.id)
  end, function()
    self.lock = lock.open(path)
    if not self.lock:try() then blame.raise(path .. ' is held by another process', 'EIO') end
  end)
  return self
end

--- End in good order; what is still claimed goes back.
---@param how string 'done', 'interrupted', 'error'
function Worker:finish(how)
  if not self.lock then return end
  self.st.db:transaction(function()
    self.st.db:run(recovery.LOST, clock.now_us(), how, self.id)
    self.st.db:run(recovery.PENDING, self.id)
    self.st.db:run('/* end worker */ UPDATE worker SET ended=?, how=? WHERE id=?', clock.now_us(),
      how, self.id)
    self.lock:close(true)
  end)
  self.lock = nil
end

--- Let go without writing, when the database cannot be written any more; recovery does the rest.
function Worker:abandon()
  if self.lock then self.lock:close() end
  self.lock = nil
end

-- Claim --------------------------------------------------------------------------------------

-- A shard is { i =, n = }, i from 0; anchors are in every one: each machine drifts by itself.
local function split(shard) return shard and shard.n or 1, shard and shard.i or 0 end

local CLAIM = [[/* claim trials */
  UPDATE trial SET state='running', worker_id=?1, tries=tries+1
  WHERE id IN (SELECT id FROM trial WHERE sweep_id=?2 AND state='pending'
                 AND prio=?3 AND (?5=1 OR role='anchor' OR shard % ?5 = ?6)
                 ORDER BY ord LIMIT ?4)
  RETURNING id, uuid, config_id, tries, role, rep, ord]]
local NEXT = [[/* next of queue */ SELECT prio FROM trial WHERE sweep_id=?1 AND state='pending'
  AND (?2=1 OR role='anchor' OR shard % ?2 = ?3) ORDER BY prio DESC, ord LIMIT 1]]

--- Take the next trials of a sweep, in their order; none when nothing is pending, one when it is a
-- suspect.
---@param sweep table id, uuid
---@param n integer at most this many
---@param env_id integer
---@param shard table|nil only trials of this one
---@return table claims each trial, attempt, try, params, role, rep, seed
function Worker:claim(sweep, n, env_id, shard)
  local db = self.st.db
  local parts, part = split(shard)
  return db:transaction(function()
    local prio = db:value(NEXT, sweep.id, parts, part)
    if not prio then return {} end
    local rows = db:query(CLAIM, self.id, sweep.id, prio, prio == rules.SUSPECT and 1 or n, parts,
      part)
    local claims = {}
    table.sort(rows, function(a, b) return a.ord < b.ord end) -- RETURNING has no order
    for i, row in ipairs(rows) do
      local config = db:row('/* read config */ SELECT sha, params FROM config WHERE id=?',
        row.config_id)
      -- the draws of a point depend on the sweep and the point, not on when it is measured
      local a, b, c, d = canonical.address(sweep.uuid .. config.sha):byte(1, 4)
      local claim = { trial = row.id, try = row.tries, role = row.role, rep = row.rep,
        params = canonical.decode(config.params), seed = ((a * 256 + b) * 256 + c) * 256 + d }
      claim.attempt = db:insert('attempt', {
        uuid = sqlite.blob(canonical.address(row.uuid .. self.uuid .. row.tries)),
        trial_id = row.id, n = row.tries, worker_id = self.id, env_id = env_id,
        began = clock.now_us(), seed = claim.seed })
      claims[i] = claim
    end
    return claims
  end)
end

-- Finish -------------------------------------------------------------------------------------

local FENCE = [[/* finish trial */
  UPDATE trial SET state=?, best_attempt=?, worker_id=NULL, prio=coalesce(?, prio)
  WHERE id=? AND state='running' AND worker_id=? AND tries=?]]
local ATTEMPT = [[/* finish attempt */
  UPDATE attempt SET outcome=?, ended=?, message=?, trace=?, printed=?, peak_dev=?, grade=?, flags=?
  WHERE id=?]]
local BEST = [[/* best so far */ SELECT t.best_attempt FROM trial t
  JOIN attempt a ON a.id = t.best_attempt WHERE t.id=? AND a.outcome='ok']]
local STALE = "/* too late */ UPDATE attempt SET outcome='stale' WHERE id=?"

local function finish_one(self, claim, outcome)
  local db = self.st.db
  local state, best, prio = outcome.state, claim.attempt, nil
  db:run(ATTEMPT, state, clock.now_us(), outcome.message, outcome.trace, outcome.printed,
    outcome.peak, outcome.grade, outcome.flags or '', claim.attempt)
  local before = state ~= 'ok' and db:value(BEST, claim.trial)
  if before then
    best, state = before, 'ok' -- a failed second look takes nothing away
  elseif rules.TRIES[state] and rules.again(db, claim.trial, state) then
    best, state, prio = nil, 'pending', rules.SUSPECT
  end
  local mine = db:run(FENCE, state, best, prio, claim.trial, self.id, claim.try) == 1
  if not mine then db:run(STALE, claim.attempt) end
  record.attempt(db, claim.attempt, outcome)
  if mine and state == outcome.state and rules.TRIES[state] then
    rules.imply(db, claim.trial, state)
  end
  return mine
end

--- Write what a block of trials produced, all or nothing.
---@param list table each { claim =, outcome = }; an outcome has state, grade, flags, message,
---  trace, printed, peak, timings, metrics (ridge.store.record)
---@return integer stale attempts whose trial had been given to another worker
function Worker:record(list)
  return self.st.db:transaction(function()
    local stale = 0
    for _, item in ipairs(list) do
      if not finish_one(self, item.claim, item.outcome) then stale = stale + 1 end
    end
    return stale
  end)
end

--- Put trials back that were claimed and not measured; their attempts end as lost.
---@param claims table
---@param why string
function Worker:give_back(claims, why)
  local db = self.st.db
  db:transaction(function()
    for _, claim in ipairs(claims) do
      db:run([[/* end attempt */ UPDATE attempt SET outcome='lost', ended=?, message=?
        WHERE id=? AND outcome='running']], clock.now_us(), why, claim.attempt)
      db:run([[/* give trial back */ UPDATE trial SET state='pending', worker_id=NULL
        WHERE id=? AND state='running' AND worker_id=? AND tries=?]], claim.trial, self.id,
        claim.try)
    end
  end)
end

--- Find workers that died and put their trials back (ridge.store.recovery).
M.recover = recovery.recover

-- Sweeps -------------------------------------------------------------------------------------

--- How many trials of a sweep are in each state.
---@param st table
---@param sweep_id integer
---@param shard table|nil only trials of this one
---@return table counts state to number, and `total`
function M.counts(st, sweep_id, shard)
  local counts = { total = 0 }
  for _, row in ipairs(st.db:query([[/* count states */ SELECT state, count(*) AS n
      FROM main.trial WHERE sweep_id=?1 AND (?2=1 OR role='anchor' OR shard % ?2 = ?3)
      GROUP BY state]], sweep_id, split(shard))) do
    counts[row.state] = row.n
    counts.total = counts.total + row.n
  end
  return counts
end

--- How many trials could be claimed now.
---@param st table
---@param sweep_id integer
---@param shard table|nil only trials of this one
---@return integer n
function M.claimable(st, sweep_id, shard)
  return st.db:value([[/* count pending */ SELECT count(*) FROM trial WHERE sweep_id=?1
    AND state='pending' AND (?2=1 OR role='anchor' OR shard % ?2 = ?3)]], sweep_id, split(shard))
end

--- Put trials of grade D back once, at the end of a sweep.
---@param st table
---@param sweep_id integer
---@param shard table|nil only trials of this one
---@return integer n
function M.again(st, sweep_id, shard)
  local parts, part = split(shard)
  return st:within(function()
    return st.db:run([[/* measure D again */ UPDATE trial SET state='pending', again=1, prio=?4
      WHERE sweep_id=?1 AND state='ok' AND again=0 AND (?2=1 OR role='anchor' OR shard % ?2 = ?3)
        AND best_attempt IN (SELECT id FROM attempt WHERE grade='D')]], sweep_id, parts, part,
      rules.AGAIN)
  end)
end

--- Mark a sweep done when nothing of it is pending or running.
---@param st table
---@param sweep_id integer
function M.close(st, sweep_id)
  st:within(function()
    st.db:run([[/* close sweep */ UPDATE sweep SET state='done' WHERE id=?1 AND NOT EXISTS
      (SELECT 1 FROM trial WHERE sweep_id=?1 AND state IN ('pending','running'))]], sweep_id)
  end)
end

return M
