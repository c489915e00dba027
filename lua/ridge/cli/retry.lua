-- SPDX-License-Identifier: MIT
--- `ridge retry`: put failed points back, so that the next run of the sweep tries them again.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'try failed points again: ridge retry widths --state oom,timeout'
M.usage = 'ridge retry SWEEP [--state oom,timeout,error,crashed] [--where CONDITION]'

local STATES = { 'oom', 'timeout', 'error', 'crashed', 'implied', 'cancelled', 'infeasible' }

local SPEC = {
  about = [[
Points in these states become pending; what was tried stays on record. Run the sweep again to
measure them.

    ridge retry widths --state oom,timeout]],
  rest = 'SWEEP', most = 1,
  { 'state', { 'oom', 'timeout', 'error', 'crashed' }, 'states to take back', choices = STATES },
  { 'where', '', 'condition on parameters' },
  stored.DB,
}

--- Make failed points pending again.
---@param st table open for writing
---@param name string the sweep
---@param states string[]
---@param where string|nil condition
---@return integer n how many
function M.retry(st, name, states, where)
  local query = require 'ridge.store.query'
  local sweep = query.sweep(st, name)
  local wanted = {}
  for _, state in ipairs(states) do wanted[state] = true end
  local found = query.ask(st, sweep.name, { columns = 'trial, state', where = where })
  return st:within(function()
    local n = 0
    for _, line in ipairs(found.lines) do
      if wanted[line[2]] then
        -- as many tries as a fresh point has: tries numbers the attempts and goes on
        n = n + st.db:run([[/* retry */ UPDATE trial SET state = 'pending', crashes = 0,
          best_attempt = NULL, implied_by = NULL, worker_id = NULL
          WHERE id = ? AND state = ?]], line[1], line[2])
      end
    end
    if n > 0 then
      st.db:run("/* reopen */ UPDATE sweep SET state = 'open' WHERE id = ?", sweep.id)
    end
    return n
  end)
end

--- Take back what is named.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('retry', SPEC, argv, 'write', function(opt, rest, st)
    if not rest[1] then
      return stored.fail('retry', 'a sweep is missing; ridge sweeps lists them')
    end
    local n = M.retry(st, rest[1], opt.state, opt.where ~= '' and opt.where or nil)
    plain.print(('%s of %s will be tried again\n'):format(plain.count(n, 'point'), rest[1]))
  end)
end

return M
