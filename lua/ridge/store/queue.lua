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
local window = require 'ridge.store.window'

local M = {}

-- Where in the worker's lock file the crash handler writes.
M.CRASH_AT = recovery.CRASH_AT

-- Workers ------------------------------------------------------------------------------------

local Worker = {}
Worker.__index = Worker

--- Note what is under way, for whoever watches this worker or finds it dead.
---@param trial_id integer|nil nil: none, or several at once
---@param stage string 'setup', 'check', 'measure', 'time', 'wait'
function Worker:under_way(trial_id, stage)
  -- the 1 is how many trials: earlier versions timed several at once, and notes outlive versions
  local text = ('trial %d %s 1 %.3f'):format(trial_id or 0, stage, clock.seconds())
  self.lock:note(text .. (' '):rep(M.CRASH_AT - 1 - #text) .. '\n', recovery.NOTE_AT)
end

--- Note a window as it ends, so that a death of this process does not take it along.
---@param claim table
---@param w table of ridge.store.window
function Worker:window(claim, w)
  if self.noting ~= claim.attempt then
    self.noting, self.noted = claim.attempt, {}
    self.note_at = window.AT
  end
  local line = window.line(claim.attempt, w)
  self.lock:note(line, self.note_at)
  self.note_at = self.note_at + #line
  self.noted[#self.noted + 1] = line
end

--- What processes that died in this pass of a trial had timed of it (ridge.store.window).
---@param claim table
---@param env_id integer
---@return table kept
function Worker:kept(claim, env_id) return window.kept(self.st.db, claim, env_id) end

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
                 AND prio=?3 AND passes=?7 AND (?5=1 OR role='anchor' OR shard % ?5 = ?6)
                 ORDER BY turn, ord LIMIT ?4)
  RETURNING id, uuid, config_id, tries, role, rep, ord, passes, turn, best_attempt]]
local NEXT = [[/* next of queue */ SELECT prio, passes FROM trial WHERE sweep_id=?1
  AND state='pending' AND (?2=1 OR role='anchor' OR shard % ?2 = ?3)
  ORDER BY prio DESC, passes, turn, ord LIMIT 1]]
local HELD = [[/* claim one again */
  UPDATE trial SET state='running', worker_id=?1, tries=tries+1 WHERE id=?2 AND state='pending'
  RETURNING id, uuid, config_id, tries, role, rep, ord, passes, turn, best_attempt]]

-- A claim as the worker sees it; its attempt begins.
local function begin(self, sweep, row, env_id)
  local db = self.st.db
  local config = db:row('/* read config */ SELECT sha, params FROM config WHERE id=?',
    row.config_id)
  -- the draws of a point depend on the sweep and the point, not on when it is measured
  local a, b, c, d = canonical.address(sweep.uuid .. config.sha):byte(1, 4)
  self.turn = (self.turn or 0) + 1
  local claim = { trial = row.id, try = row.tries, role = row.role, rep = row.rep,
    params = canonical.decode(config.params), seed = ((a * 256 + b) * 256 + c) * 256 + d,
    pass = row.passes + 1, uuid = row.uuid, turn = self.turn }
  claim.series = row.passes > 0 and db:value('/* series so far */ SELECT series FROM attempt '
    .. 'WHERE id=?', row.best_attempt) or nil
  if not claim.series then claim.pass, claim.series = 1, clock.random_bytes(16) end
  claim.attempt = db:insert('attempt', {
    uuid = sqlite.blob(canonical.address(row.uuid .. self.uuid .. row.tries)),
    trial_id = row.id, n = row.tries, worker_id = self.id, env_id = env_id,
    began = clock.now_us(), seed = claim.seed, pass = claim.pass, turn = self.turn,
    series = sqlite.blob(claim.series) })
  return claim
end

--- Take the next trials of a sweep, in the order of their pass; none when nothing is pending, one
--- when it is a suspect.
---@param sweep table id, uuid
---@param n integer at most this many
---@param env_id integer
---@param shard table|nil only trials of this one
---@param pass integer|nil only those whose next pass this is
---@return table claims each trial, attempt, try, params, role, rep, seed, pass, series, turn
function Worker:claim(sweep, n, env_id, shard, pass)
  local db = self.st.db
  local parts, part = split(shard)
  return db:transaction(function()
    local next_one = db:row(NEXT, sweep.id, parts, part)
    if not next_one or pass and next_one.passes ~= pass - 1 then return {} end
    local prio = next_one.prio
    local rows = db:query(CLAIM, self.id, sweep.id, prio, prio == rules.SUSPECT and 1 or n, parts,
      part, next_one.passes)
    local claims = {}
    table.sort(rows, function(a, b) -- RETURNING has no order
      if a.turn ~= b.turn then return a.turn < b.turn end
      return a.ord < b.ord
    end)
    for i, row in ipairs(rows) do claims[i] = begin(self, sweep, row, env_id) end
    return claims
  end)
end

--- Take a trial again that this worker keeps set up, for its next pass.
---@param sweep table id, uuid
---@param trial integer
---@param env_id integer
---@return table|nil claim nil when it is not to be had
function Worker:claim_again(sweep, trial, env_id)
  local db = self.st.db
  return db:transaction(function()
    local row = db:row(HELD, self.id, trial)
    return row and begin(self, sweep, row, env_id)
  end)
end

-- Finish -------------------------------------------------------------------------------------

local FENCE = [[/* finish trial */
  UPDATE trial SET state=?, best_attempt=coalesce(?, best_attempt), worker_id=NULL,
    prio=coalesce(?, prio), passes=coalesce(?, passes), turn=coalesce(?, turn)
  WHERE id=? AND state='running' AND worker_id=? AND tries=?]]
local ATTEMPT = [[/* finish attempt */
  UPDATE attempt SET outcome=?, ended=?, message=?, trace=?, printed=?, peak_dev=?, grade=?,
    flags=?, inputs=?, left_bytes=?, partner=? WHERE id=?]]
local BEST = [[/* best so far */ SELECT t.best_attempt FROM trial t
  JOIN attempt a ON a.id = t.best_attempt WHERE t.id=? AND a.outcome='ok' AND t.again=1]]
local STALE = "/* too late */ UPDATE attempt SET outcome='stale' WHERE id=?"

--- Where in a pass a trial stands: another random order in each, that of its group first, so that
--- those of one group stand next to each other.
---@param uuid string of the trial
---@param group string|nil
---@param pass integer
---@return integer turn
function M.turn(uuid, group, pass)
  local function number(text, bytes)
    local out = 0
    for i = 1, bytes do out = out * 256 + text:byte(i) end
    return out
  end
  local key = pass .. ' '
  return number(canonical.address(key .. (group or uuid)), 4) * 65536
    + number(canonical.address(key .. uuid), 2)
end

local function finish_one(self, claim, outcome)
  local db = self.st.db
  local state, best, prio, passes, turn = outcome.state, claim.attempt, nil, nil, nil
  db:run(ATTEMPT, state, clock.now_us(), outcome.message, outcome.trace, outcome.printed,
    outcome.peak, outcome.grade, outcome.flags or '', outcome.inputs, outcome.left,
    outcome.partner, claim.attempt)
  local before = state ~= 'ok' and db:value(BEST, claim.trial)
  if before then
    best, state = before, 'ok' -- a pass more than all have takes nothing away by failing
  elseif rules.TRIES[state] and rules.again(db, claim.trial, state) then
    best, state, prio = nil, 'pending', rules.SUSPECT
  elseif state == 'ok' then
    passes, turn = claim.pass, M.turn(claim.uuid, outcome.group, claim.pass + 1)
    if outcome.more then state = 'pending' end
  end
  self.noting, self.noted = nil, nil -- what it came to stands in its own rows
  local mine = db:run(FENCE, state, best, prio, passes, turn, claim.trial, self.id, claim.try) == 1
  if not mine then db:run(STALE, claim.attempt) end
  record.attempt(db, claim.attempt, outcome)
  if mine and state == outcome.state and rules.TRIES[state] then
    rules.imply(db, claim.trial, state)
  end
  return mine
end

--- Write what a block of trials produced, all or nothing.
---@param list table each { claim =, outcome = }; an outcome has state, grade, flags, message,
---  trace, printed, peak, timings, metrics (ridge.store.record), inputs, left (bytes), partner
---  (parameters as canonical JSON), group, and more: it goes back to pending for its next pass
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
    window.keep(db, self.id, table.concat(self.noted or {}))
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

--- Let trials have one more pass than all have.
---@param st table
---@param trials integer[]
function M.once_more(st, trials)
  st:within(function()
    for _, id in ipairs(trials) do
      st.db:run("/* one more pass */ UPDATE trial SET state='pending', again=1 WHERE id=? "
        .. "AND state='ok'", id)
    end
  end)
end

--- Passes of another environment are no part of a result here: such trials start again.
---@param st table
---@param sweep_id integer
---@param env_id integer
---@return integer n
function M.begin_anew(st, sweep_id, env_id)
  return st:within(function()
    return st.db:run([[/* other environment */ UPDATE trial SET passes=0 WHERE sweep_id=?1
      AND state='pending' AND passes>0 AND NOT EXISTS (SELECT 1 FROM attempt
        WHERE id=trial.best_attempt AND env_id=?2)]], sweep_id, env_id)
  end)
end

--- How far the passes of a sweep are.
---@param st table
---@param sweep_id integer
---@param wanted integer passes that every point has
---@param shard table|nil only trials of this one
---@param points boolean|nil without the anchors
---@return table work done and total (points times passes), pass (the one under way), at and of (its
---  points: done, all)
function M.work(st, sweep_id, wanted, shard, points)
  local parts, part = split(shard)
  local row = st.db:row([[/* passes */ SELECT count(*) AS n,
      coalesce(sum(CASE WHEN state IN ('pending','running') THEN min(passes, ?4) ELSE ?4 END), 0)
        AS done,
      min(CASE WHEN state IN ('pending','running') THEN passes END) AS least
    FROM main.trial WHERE sweep_id=?1 AND (?2=1 OR role='anchor' OR shard % ?2 = ?3)
      AND (?5=0 OR role='point')]], sweep_id, parts, part, wanted, points and 1 or 0)
  local work = { done = row.done, total = row.n * wanted, pass = (row.least or wanted) + 1 }
  if row.least then
    local here = st.db:row([[/* this pass */ SELECT count(*) AS n FROM main.trial
      WHERE sweep_id=?1 AND (?2=1 OR role='anchor' OR shard % ?2 = ?3)
        AND (?5=0 OR role='point') AND state IN ('pending','running') AND passes=?4]], sweep_id,
      parts, part, row.least, points and 1 or 0)
    work.of = row.least < wanted and row.n or here.n
    work.at = work.of - here.n
  end
  return work
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
