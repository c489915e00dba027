-- SPDX-License-Identifier: MIT
--- What a failure means for its trial and for the others: how often it is tried, what it implies.
--
-- A sweep carries its rules (`tries`, `monotone`) in its row, because whoever finds a worker dead
-- settles its trials, even a process that knows nothing of the recipe.

local canonical = require 'ridge.store.canonical'

local M = {}

--- Tries after which an outcome is final. 'lost' counts tries that were killed before the eyes of a
--- living parent, with this trial alone under way: whose doing that was, nobody knows.
M.TRIES = { lost = 5, crashed = 2, oom = 1, timeout = 1, error = 1 }

--- Order of claiming: those measured again for grade D come after all others, suspects last.
M.AGAIN, M.SUSPECT = -1, -2

--- The rules of the sweep of a trial.
---@param db table
---@param trial integer
---@return table rules tries (outcome to number), monotone (outcome to names of parameters)
function M.of(db, trial)
  local rules = canonical.decode(db:value([[/* rules */ SELECT s.rules FROM sweep s
    JOIN trial t ON t.sweep_id = s.id WHERE t.id = ?]], trial))
  local tries = {}
  for outcome, n in pairs(M.TRIES) do tries[outcome] = n end
  for outcome, n in pairs(rules.tries or {}) do tries[outcome] = n end
  return { tries = tries, monotone = rules.monotone or {} }
end

--- Whether a trial whose attempt has just ended so is to be tried again.
---@param db table inside a transaction, the attempt's outcome written
---@param trial integer
---@param outcome string of the attempt: 'oom', 'timeout', 'crashed', 'error', 'lost'
---@return boolean again
function M.again(db, trial, outcome)
  local limit = M.of(db, trial).tries[outcome]
  if not limit then return false end
  -- attempts that were lost without a witness have no signal and prove nothing
  return db:value([[/* failed tries */ SELECT count(*) FROM attempt WHERE trial_id=? AND outcome=?
    AND (outcome<>'lost' OR signal IS NOT NULL)]], trial, outcome) < limit
end

local function implied(failed, params, monotone)
  for name, value in pairs(failed) do
    local other = params[name]
    if monotone[name] then
      if type(value) ~= 'number' or type(other) ~= 'number' or other < value then return false end
    elseif other ~= value then
      return false
    end
  end
  for name in pairs(params) do
    if failed[name] == nil then return false end
  end
  return true
end

--- Mark the pending trials that would fail as this one did: equal but for parameters of which the
--- sweep says that more of them only makes it worse, and in none of those below it.
---@param db table inside a transaction
---@param trial integer failed for good
---@param outcome string 'oom', 'timeout'
---@return integer n trials marked
function M.imply(db, trial, outcome)
  local names = M.of(db, trial).monotone[outcome]
  if not names then return 0 end
  local monotone, n = {}, 0
  for _, name in ipairs(names) do monotone[name] = true end
  local failed = canonical.decode(db:value([[/* params of failed */ SELECT c.params FROM trial t
    JOIN config c ON c.id = t.config_id WHERE t.id = ?]], trial))
  for _, row in ipairs(db:query([[/* pending trials */ SELECT t.id, c.params FROM trial t
      JOIN config c ON c.id = t.config_id WHERE t.state='pending' AND t.best_attempt IS NULL
      AND t.sweep_id = (SELECT sweep_id FROM trial WHERE id = ?)]], trial)) do
    if implied(failed, canonical.decode(row.params), monotone) then
      db:run([[/* imply */ UPDATE trial SET state='implied', implied_by=? WHERE id=?]], trial,
        row.id)
      n = n + 1
    end
  end
  return n
end

return M
