-- SPDX-License-Identifier: MIT
--- What a dead worker proves, and what becomes of its trials.
--
-- Its trials go back to pending without counting, whether the machine lost power, the user sent
-- SIGKILL to the whole group or memory ran out elsewhere: none of that is the trial's doing.
-- Something is the trial's own doing in three cases, each only while it alone was under way and the
-- machine has not been restarted since:
--
-- * the process left a note that it died of SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT (the handler
--   of rg_crash_note writes it): 'crashed';
-- * its parent noted 'timeout' before killing it;
-- * its parent, alive, saw it die of SIGKILL: 'oom' when the kernel counted a process ended for
--   want of memory meanwhile, else it only counts as lost.
--
-- How often each may happen is the sweep's rule (ridge.store.rules). Suspects are measured last and
-- one by one, so that the rest gets done and the next death has one culprit: all trials of a block
-- of which one was at fault, and those lost twice for any reason.

local clock = require 'ridge.store.clock'
local lock = require 'ridge.store.lock'
local place = require 'ridge.store.place'
local rules = require 'ridge.store.rules'
local window = require 'ridge.store.window'

local M = {}

--- Where in the worker's lock file its notes are: what is under way, and how it came to its end.
M.NOTE_AT, M.CRASH_AT = 0, 64

local SIGNAL = { [4] = 'SIGILL', [6] = 'SIGABRT', [7] = 'SIGBUS', [8] = 'SIGFPE', [11] = 'SIGSEGV' }

M.LOST = [[/* end lost attempts */
  UPDATE attempt SET outcome='lost', ended=?1, message=?2 WHERE worker_id=?3 AND outcome='running']]
M.PENDING = [[/* put trials back */
  UPDATE trial SET state='pending', worker_id=NULL WHERE worker_id=? AND state='running']]

local SUSPECTS = [[/* put suspects last */
  UPDATE trial SET prio=?1 WHERE worker_id=?2 AND state='running' AND (?3 OR EXISTS
    (SELECT 1 FROM attempt WHERE trial_id=trial.id AND outcome='lost'))]]
local FAILED = [[/* end failed attempt */
  UPDATE attempt SET outcome=?1, ended=?2, signal=?3, message=?4, printed=?5
  WHERE trial_id=?6 AND worker_id=?7 AND outcome='running']]
local DROP = [[/* drop its windows */ DELETE FROM timing WHERE attempt_id IN
  (SELECT id FROM attempt WHERE trial_id=? AND worker_id=? AND outcome<>'ok'
   ORDER BY id DESC LIMIT 1)]]
local AGAIN = [[/* try again */
  UPDATE trial SET crashes=crashes+?1, worker_id=NULL, prio=?2, state='pending'
  WHERE id=?3 AND worker_id=?4 AND state='running']]
local FINAL = [[/* give up */
  UPDATE trial SET crashes=crashes+?1, worker_id=NULL,
    state=CASE WHEN again=1 AND best_attempt IS NOT NULL THEN 'ok' ELSE ?2 END,
    best_attempt=CASE WHEN again=1 AND best_attempt IS NOT NULL THEN best_attempt ELSE
      (SELECT id FROM attempt WHERE trial_id=trial.id AND n=trial.tries) END
  WHERE id=?3 AND worker_id=?4 AND state='running']]

--- What the notes in a worker's lock file say.
---@param text string
---@return table note trial (0: none, or several at once), stage, since
---  (seconds on the clock that nobody sets), signal, timeout
function M.note(text)
  local trial, stage, since = text:match '^trial (%d+) (%a+) %d+ ([%d.]+)'
  local last = text:sub(M.CRASH_AT + 1)
  return { trial = tonumber(trial) or 0, stage = stage,
    since = tonumber(since), signal = SIGNAL[tonumber(last:match '^signal (%d+)')],
    timeout = last:match '^timeout ([%d.]+)' }
end

-- The outcome of the trial under way, when the death was its doing; nil when nobody says so.
local function judge(note, seen)
  if note.timeout then
    return 'timeout', ('more than %s s in %s'):format(note.timeout, note.stage or 'it')
  elseif note.signal then
    return 'crashed', ('died of %s in %s'):format(note.signal, note.stage or 'it')
  elseif note.stage == 'wait' then
    return nil
  elseif seen and seen.oom then
    return 'oom', ('the kernel ended it in %s: no memory was left'):format(note.stage or 'it')
  elseif seen and seen.killed then
    return 'lost', ('killed in %s'):format(note.stage or 'it')
  end
end

-- The one trial that was at fault: again, or for good.
local function settle(db, worker, note, outcome, message, printed)
  db:run(FAILED, outcome, clock.now_us(), note.signal or outcome == 'lost' and 'SIGKILL' or nil,
    message, printed, note.trial, worker.id)
  local crash = outcome == 'crashed' and 1 or 0
  local again = rules.again(db, note.trial, outcome)
  -- what was at fault is not gone on with
  if not (again and outcome == 'lost') then db:run(DROP, note.trial, worker.id) end
  if again then
    db:run(AGAIN, crash, rules.SUSPECT, note.trial, worker.id)
  else
    -- killed again and again, with nobody else to blame
    db:run(FINAL, crash, outcome == 'lost' and 'crashed' or outcome, note.trial, worker.id)
    rules.imply(db, note.trial, outcome)
  end
end

-- What stands in a lock file behind the notes.
local function noted(path)
  local file = io.open(path, 'rb')
  if not file then return '' end
  file:seek('set', window.AT)
  local text = file:read '*a'
  file:close()
  return text or ''
end

-- Put back what a dead worker had.
local function bury(st, worker, text, seen)
  local db, now = st.db, clock.now_us()
  local rebooted = worker.boot_id ~= clock.boot_id()
  local note = M.note(text)
  local outcome, message
  if not rebooted then outcome, message = judge(note, seen) end
  window.keep(db, worker.id, noted(worker.path))
  local how = rebooted and 'the machine was restarted'
    or note.signal and 'died of ' .. note.signal or message or 'its process was ended from outside'
  if outcome and note.trial > 0 then
    settle(db, worker, note, outcome, message, seen and seen.printed)
  end
  if not rebooted then
    local one_of_them = note.trial == 0 and outcome ~= nil and outcome ~= 'lost'
    db:run(SUSPECTS, rules.SUSPECT, worker.id, one_of_them)
  end
  db:run(M.LOST, now, how, worker.id)
  local back = db:run(M.PENDING, worker.id)
  db:run('/* end dead worker */ UPDATE worker SET ended=?, how=? WHERE id=?', now, how, worker.id)
  lock.remove(worker.path)
  return back
end

--- The path of a worker's lock file.
---@param st table
---@param name string as the worker's row has it
---@return string path
function M.lock_path(st, name) return place.folder(st.path):gsub('/?$', '/') .. name end

--- Find workers that died and put their trials back.
---@param st table store open for writing
---@param seen table|nil what a parent saw of its own: worker id to { killed, oom (booleans),
---  printed (text) }
---@param spared table|nil processes (numbers as keys) whose end their parent has yet to look at
---@return integer back trials that are pending again
---@return integer dead workers found dead
function M.recover(st, seen, spared)
  local db = st.db
  local open = '/* open workers */ SELECT id, pid, boot_id, lock FROM worker WHERE ended IS NULL'
  if not db:row(open) then return 0, 0 end
  return db:transaction(function()
    local back, dead = 0, 0
    for _, worker in ipairs(db:query(open)) do
      worker.path = M.lock_path(st, worker.lock)
      local free, text = lock.is_free(worker.path)
      if free and not (spared and spared[worker.pid]) then
        back, dead = back + bury(st, worker, text, seen and seen[worker.id]), dead + 1
      end
    end
    return back, dead
  end)
end

return M
