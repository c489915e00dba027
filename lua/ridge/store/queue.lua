-- SPDX-License-Identifier: MIT
-- Trials as a queue that survives anything: claim, finish, give back, recover.
--
-- A trial is pending, running under one worker, or final. Each claim raises `tries`, which numbers
-- the attempt and fences: a worker whose trial was given away changes no row when it finishes, and
-- its attempt stays as 'stale'. A worker lives as long as it holds its lock file, which the kernel
-- drops with the process, so recovery needs no heartbeat and no clock.
--
-- What a dead worker proves. Its trials go back to pending without counting, whether the machine
-- lost power, the user sent SIGKILL or memory ran out elsewhere: none of that is the trial's doing.
-- It is the trial's own doing only when the process left a note that it died of SIGSEGV, SIGBUS,
-- SIGFPE, SIGILL or SIGABRT (rg_crash_note writes it from the handler) while this trial alone was
-- under way, and the machine has not been restarted since. Two of those make it 'crashed'.
-- Suspects are measured last and one by one, so that the rest gets done and the next death has one
-- culprit: all trials of a block that died of such a signal, and those lost twice for any reason.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local lock = require 'ridge.store.lock'
local place = require 'ridge.store.place'
local record = require 'ridge.store.record'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- Tries lost by its own doing after which a trial is given up.
M.CRASHES = 2

-- Order of claiming: those measured again for grade D come after all others, suspects last.
local AGAIN, SUSPECT = -1, -2

-- Where in the worker's lock file the two notes are; the crash handler writes at the second.
M.NOTE_AT, M.CRASH_AT = 0, 64

local SIGNAL = { [4] = 'SIGILL', [6] = 'SIGABRT', [7] = 'SIGBUS', [8] = 'SIGFPE', [11] = 'SIGSEGV' }

-- Workers ------------------------------------------------------------------------------------

local Worker = {}
Worker.__index = Worker

--- Note which trial is under way, for whoever finds this worker dead.
---@param trial_id integer|nil nil: none, or several at once
---@param stage string 'setup', 'check', 'measure', 'time'
function Worker:under_way(trial_id, stage)
  local text = ('trial %d %s'):format(trial_id or 0, stage)
  self.lock:note(text .. (' '):rep(M.CRASH_AT - 1 - #text) .. '\n', M.NOTE_AT)
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

local LOST = [[/* end lost attempts */
  UPDATE attempt SET outcome='lost', ended=?1, message=?2 WHERE worker_id=?3 AND outcome='running']]
local PENDING = [[/* put trials back */
  UPDATE trial SET state='pending', worker_id=NULL WHERE worker_id=? AND state='running']]

--- End in good order; what is still claimed goes back.
---@param how string 'done', 'interrupted', 'error'
function Worker:finish(how)
  if not self.lock then return end
  self.st.db:transaction(function()
    self.st.db:run(LOST, clock.now_us(), how, self.id)
    self.st.db:run(PENDING, self.id)
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

local CLAIM = [[/* claim trials */
  UPDATE trial SET state='running', worker_id=?1, tries=tries+1
  WHERE id IN (SELECT id FROM trial WHERE sweep_id=?2 AND state='pending'
                 AND prio=?3 ORDER BY ord LIMIT ?4)
  RETURNING id, uuid, config_id, tries, role, rep, ord]]
local NEXT = [[/* next of queue */ SELECT prio FROM trial WHERE sweep_id=? AND state='pending'
  ORDER BY prio DESC, ord LIMIT 1]]

--- Take the next trials of a sweep, in their order; none when nothing is pending, one when it is a
-- suspect.
---@param sweep table id, uuid
---@param n integer at most this many
---@param env_id integer
---@return table claims each trial, attempt, try, params, role, rep, seed
function Worker:claim(sweep, n, env_id)
  local db = self.st.db
  return db:transaction(function()
    local prio = db:value(NEXT, sweep.id)
    if not prio then return {} end
    local rows = db:query(CLAIM, self.id, sweep.id, prio, prio == SUSPECT and 1 or n)
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
  UPDATE trial SET state=?, best_attempt=?, worker_id=NULL
  WHERE id=? AND state='running' AND worker_id=? AND tries=?]]

local BEST = '/* best so far */ SELECT best_attempt FROM trial WHERE id=?'

local function finish_one(self, claim, outcome)
  local db = self.st.db
  local state, best = outcome.state, claim.attempt
  local before = state ~= 'ok' and db:value(BEST, claim.trial)
  if before then best, state = before, 'ok' end -- a failed second look takes nothing away
  local mine = db:run(FENCE, state, best, claim.trial, self.id, claim.try) == 1
  db:run([[/* finish attempt */ UPDATE attempt SET outcome=?, ended=?, message=?, trace=?,
    peak_dev=?, grade=?, flags=? WHERE id=?]], mine and outcome.state or 'stale', clock.now_us(),
    outcome.message, outcome.trace, outcome.peak, outcome.grade, outcome.flags or '',
    claim.attempt)
  record.attempt(db, claim.attempt, outcome)
  return mine
end

--- Write what a block of trials produced, all or nothing.
---@param list table each { claim =, outcome = }; an outcome has state, grade, flags, message,
---  trace, peak, timings, metrics (ridge.store.record)
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

-- Recover ------------------------------------------------------------------------------------

local SUSPECTS = [[/* put suspects last */
  UPDATE trial SET prio=?1 WHERE worker_id=?2 AND state='running' AND (?3 OR EXISTS
    (SELECT 1 FROM attempt WHERE trial_id=trial.id AND outcome='lost'))]]
local CRASHED = [[/* end crashed attempt */
  UPDATE attempt SET outcome='crashed', ended=?1, signal=?2, message=?3
  WHERE trial_id=?4 AND worker_id=?5 AND outcome='running']]
local COUNT = [[/* count crash */
  UPDATE trial SET crashes=crashes+1, worker_id=NULL, prio=?1,
    best_attempt=CASE WHEN best_attempt IS NULL AND crashes+1>=?2 THEN
      (SELECT id FROM attempt WHERE trial_id=trial.id AND n=trial.tries) ELSE best_attempt END,
    state=CASE WHEN crashes+1<?2 THEN 'pending' WHEN best_attempt IS NULL THEN 'crashed'
      ELSE 'ok' END
  WHERE id=?3 AND worker_id=?4 AND state='running']]

-- Put back what a dead worker had; text is what its lock file says.
local function bury(st, worker, text)
  local db, now = st.db, clock.now_us()
  local rebooted = worker.boot_id ~= clock.boot_id()
  local trial, stage = text:match '^trial (%d+) (%a+)'
  trial = tonumber(trial) or 0
  local signal = not rebooted and SIGNAL[tonumber(text:match('^signal (%d+)', M.CRASH_AT + 1))]
  local how = rebooted and 'the machine was restarted' or signal and 'died of ' .. signal
    or 'its process was ended from outside'
  if signal and trial > 0 then
    db:run(CRASHED, now, signal, ('%s in %s'):format(how, stage), trial, worker.id)
    db:run(COUNT, SUSPECT, M.CRASHES, trial, worker.id)
  end
  if not rebooted then
    db:run(SUSPECTS, SUSPECT, worker.id, signal ~= nil and trial == 0)
  end
  db:run(LOST, now, how, worker.id)
  local back = db:run(PENDING, worker.id)
  db:run('/* end dead worker */ UPDATE worker SET ended=?, how=? WHERE id=?', now, how, worker.id)
  lock.remove(worker.path)
  return back
end

--- Find workers that died and put their trials back.
---@param st table store open for writing
---@return integer back trials that are pending again
---@return integer dead workers found dead
function M.recover(st)
  local db = st.db
  local open = '/* open workers */ SELECT id, boot_id, lock FROM worker WHERE ended IS NULL'
  if not db:row(open) then return 0, 0 end
  return db:transaction(function()
    local back, dead = 0, 0
    for _, worker in ipairs(db:query(open)) do
      worker.path = place.folder(st.path):gsub('/?$', '/') .. worker.lock
      local free, text = lock.is_free(worker.path)
      if free then
        back, dead = back + bury(st, worker, text), dead + 1
      end
    end
    return back, dead
  end)
end

-- Sweeps -------------------------------------------------------------------------------------

--- How many trials of a sweep are in each state.
---@param st table
---@param sweep_id integer
---@return table counts state to number, and `total`
function M.counts(st, sweep_id)
  local counts = { total = 0 }
  for _, row in ipairs(st.db:query([[/* count states */ SELECT state, count(*) AS n
      FROM main.trial WHERE sweep_id=? GROUP BY state]], sweep_id)) do
    counts[row.state] = row.n
    counts.total = counts.total + row.n
  end
  return counts
end

--- Put trials of grade D back once, at the end of a sweep.
---@param st table
---@param sweep_id integer
---@return integer n
function M.again(st, sweep_id)
  return st:within(function()
    return st.db:run([[/* measure D again */ UPDATE trial SET state='pending', again=1, prio=?2
      WHERE sweep_id=?1 AND state='ok' AND again=0
        AND best_attempt IN (SELECT id FROM attempt WHERE grade='D')]], sweep_id, AGAIN)
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
