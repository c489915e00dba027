-- SPDX-License-Identifier: MIT
--- `ridge retry`: put failed or disturbed points back, so that the next run of the sweep tries them
--- again.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'try failed points again: ridge retry widths --state oom,timeout'
M.usage = 'ridge retry SWEEP [--state oom,timeout] [--grade D] [--where CONDITION] '
  .. '[--when-quiet 2h]'

local STATES = { 'oom', 'timeout', 'error', 'crashed', 'implied', 'cancelled', 'infeasible' }

local SPEC = {
  about = [[
Points in these states become pending; what was tried stays on record. Run the sweep again to
measure them. With --grade it is measured points of these grades, whose passes begin anew; states
too only where --state names some. --when-quiet waits until other processes leave the machine alone.

    ridge retry widths --state oom,timeout
    ridge retry widths --grade D --when-quiet 2h && ridge sweep widths.lua]],
  rest = 'SWEEP', most = 1,
  { 'state', {}, 'states to take back; without --grade oom, timeout, error, crashed',
    choices = STATES },
  { 'grade', {}, 'grades of measured points to take back', choices = { 'A', 'B', 'C', 'D' } },
  { 'where', '', 'condition on parameters' },
  { 'when_quiet', '', 'wait at most 30m, 2h for a quiet machine; status 4 if it never is' },
  stored.DB,
}

local USUAL = { 'oom', 'timeout', 'error', 'crashed' }

local function set_of(list)
  local set = {}
  for _, each in ipairs(list) do set[each] = true end
  return set
end

--- Make points pending again.
---@param st table open for writing
---@param name string the sweep
---@param opt table states, grades (lists), where (a condition, or nil)
---@return integer n how many
function M.retry(st, name, opt)
  local query = require 'ridge.store.query'
  local sweep = query.sweep(st, name)
  local states, grades = set_of(opt.states), set_of(opt.grades)
  local found = query.ask(st, sweep.name, { columns = 'trial, state, grade', where = opt.where })
  return st:within(function()
    local n = 0
    for _, line in ipairs(found.lines) do
      local trial, state, grade = line[1], line[2], line[3]
      if states[state] or state == 'ok' and grades[grade] then
        -- as many tries as a fresh point has: tries numbers the attempts and goes on; the passes of
        -- a measured point begin anew, for its old ones were what was disturbed
        n = n + st.db:run([[/* retry */ UPDATE trial SET state = 'pending', crashes = 0,
          best_attempt = NULL, implied_by = NULL, worker_id = NULL,
          passes = CASE state WHEN 'ok' THEN 0 ELSE passes END
          WHERE id = ? AND state = ?]], trial, state)
      end
    end
    if n > 0 then
      st.db:run("/* reopen */ UPDATE sweep SET state = 'open' WHERE id = ?", sweep.id)
    end
    return n
  end)
end

-- How often the machine is looked at while it is waited for; a look takes some hundred ms.
local EVERY_NS = 5e9

--- Wait until the machine is quiet.
---@param services table of ridge.measure.native, or what stands in for it
---@param seconds number at most
---@return boolean quiet false when it was not within that time
function M.wait(services, seconds)
  local session = require 'ridge.measure.session'
  local ends = services.now() + seconds * 1e9
  while not session.is_quiet(services) do
    if services.now() >= ends then return false end
    services:pause(math.min(EVERY_NS, ends - services.now())) -- Ctrl-C ends it
  end
  return true
end

--- Take back what is named.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('retry', SPEC, argv, nil, function(opt, rest)
    if not rest[1] then
      return stored.fail('retry', 'a sweep is missing; ridge sweeps lists them')
    end
    local states = opt.state
    if #states == 0 and #opt.grade == 0 then states = USUAL end
    local store = require 'ridge.store'
    local path = opt.db ~= '' and opt.db or store.default_path()
    -- what is wrong in the words is said before any waiting
    if opt.where ~= '' then require('ridge.store.expression').parse(opt.where) end
    store.with(path, 'read', function(st) require('ridge.store.query').sweep(st, rest[1]) end)
    if opt.when_quiet ~= '' then
      local seconds = require('ridge.sweep.part').seconds(opt.when_quiet, '--when-quiet')
      if not M.wait(require('ridge.measure.native').services(), seconds) then
        plain.note(('the machine was not quiet within %s; nothing was taken back\n'):format(
          opt.when_quiet))
        return 4
      end
    end
    local n = store.with(path, 'write', function(st)
      return M.retry(st, rest[1], { states = states, grades = opt.grade,
        where = opt.where ~= '' and opt.where or nil })
    end)
    plain.print(('%s of %s will be tried again\n'):format(plain.count(n, 'point'), rest[1]))
  end)
end

return M
